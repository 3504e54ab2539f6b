/* The state of the tunnel endpoint of one command, and what every step of it needs. endpoint_loop.c says what it does. */
#ifndef OUTLIVE_TUNNEL_ENDPOINT_H
#define OUTLIVE_TUNNEL_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "frames.h"
#include "flow_window.h"

enum { WORDS_KEPT = 32, WORD_BYTES = 128 };

struct words {
    uint64_t number;
    char text[WORD_BYTES];
};

struct written {
    int fd;
    struct flow_window window; /* `first` was written */
    uint64_t acked;
    bool is_over; /* its end has come, and everything was written */
    bool has_end;
    uint64_t end;
};

struct endpoint {
    struct stream stream; /* to the tunnel */
    int control;          /* to the shim */
    int proxy;            /* to the proxy process */
    int wake;
    int terminal;
    char key[KEY_BYTES];
    bool is_up;    /* the tunnel reaches the multiplexer */
    bool is_known; /* the multiplexer has answered HELLO */
    bool must_say_hello;
    int64_t begun_at, hello_at;

    int parts[3];
    int part;
    uint64_t part_at;
    bool must_begin, is_start_said, has_errors;
    unsigned rows, cols;

    int input;
    struct flow_window input_window;
    bool is_input_over, is_input_end_said;
    struct written outputs[2];

    struct words words[WORDS_KEPT];
    int word_count;
    uint64_t last_number, said_number;

    bool is_settled; /* it is known whether it was started */
    bool has_ended, is_proxy_ended, is_empty, is_released;
    bool is_killed;     /* the whole tree was ordered to be killed */
    int64_t ending_at;  /* the command has ended; what it wrote is still on its way */
    int kind, number;
    bool is_oom;
    uint64_t ended_at[2];
};

/* Report to the proxy process how the command fares: words that it follows (proxy_process.c). */
void notify_proxy(const struct endpoint *endpoint, const char *words);

/* The command never ran. */
void endpoint_not_started(struct endpoint *endpoint, int number, const char *place);

/* Send an order to the command's shim, once. */
void endpoint_order(struct endpoint *endpoint, const char *text);

/* Whether everything that the command wrote was written here, and its end reported: */
bool endpoint_has_all(const struct endpoint *endpoint);

/* and whether nothing is left to be done. */
bool endpoint_is_over(const struct endpoint *endpoint);

#endif
