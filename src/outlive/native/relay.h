/* What a relay knows of its command. */
#ifndef OUTLIVE_RELAY_H
#define OUTLIVE_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "stream.h"
#include "window.h"

enum { WORDS_KEPT = 32, WORD_BYTES = 128 };

struct words {
    uint64_t number;
    char text[WORD_BYTES];
};

struct written {
    int fd;
    struct window window; /* `first` was written */
    uint64_t acked;
    bool is_over; /* its end has come, and everything was written */
    bool has_end;
    uint64_t end;
};

struct relay {
    struct stream stream; /* to the ferry */
    int control;          /* to the minder */
    int mirror;           /* to the stand-in */
    int wake;
    int terminal;
    char key[KEY_BYTES];
    bool is_up;    /* the ferry reaches the hub */
    bool is_known; /* the hub has answered HELLO */
    bool must_say_hello;
    int64_t begun_at, hello_at;

    int parts[3];
    int part;
    uint64_t part_at;
    bool must_begin, is_start_said, has_errors;
    unsigned rows, cols;

    int input;
    struct window input_window;
    bool is_input_over, is_input_end_said;
    struct written outputs[2];

    struct words words[WORDS_KEPT];
    int word_count;
    uint64_t last_number, said_number;

    bool is_settled; /* it is known whether it was started */
    bool has_ended, is_mirrored, is_empty, is_released;
    bool is_killed;     /* the whole tree was ordered to be killed */
    int64_t ending_at;  /* the command has ended; what it wrote is still on its way */
    int kind, number;
    bool is_oom;
    uint64_t ended_at[2];
};

/* Take in what the hub or the ferry says. (telling.c) */
void relay_hear(struct relay *relay, const struct frame *frame);

/* Say whatever there is room for. (telling.c) */
void relay_say(struct relay *relay);

/* Tell the stand-in how to end, once everything was written that came before. (telling.c) */
void relay_mirror(struct relay *relay);

/* The command never ran. (telling.c) */
void relay_not_started(struct relay *relay, int number, const char *place);

/* Move bytes here. (telling.c) */
bool relay_wants_out(const struct relay *relay, int index);
void relay_write_output(struct relay *relay, int index);
/* Nobody reads an output here, and nobody will: the command shall feel it. */
void relay_give_up(struct relay *relay, int index);
void relay_read_input(struct relay *relay);

/* Nothing is left to be done. (telling.c) */
bool relay_is_over(const struct relay *relay);

/* Have an order heard inside, once. (relay.c) */
void relay_words(struct relay *relay, const char *text);

#endif
