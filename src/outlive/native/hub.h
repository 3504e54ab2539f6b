/* The first process of a container that no socket reaches from outside: it plays the supervisor towards its minders.

   For each command it keeps what somebody outside may still need: a window of each output, how much of the input was taken,
   how it ended. The stream that leads outside is brought by a *ferry* (`outlive-runner ferry`, started by `docker exec`) and
   may be cut at any byte; whoever wants a command says HELLO again, and how much it knows. */
#ifndef OUTLIVE_HUB_H
#define OUTLIVE_HUB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stream.h"
#include "window.h"

enum { PARTS = 3, OUTPUTS = 2, NAME_BYTES = 48 };

/* What is to be said about a command as soon as there is room; the order of the bits is the order of saying. */
enum saying {
    SAY_STATE = 1,
    SAY_STARTED = 2,
    SAY_NOT_STARTED = 4,
    SAY_INPUT_ACK = 8,
    SAY_INPUT_BROKEN = 16,
    SAY_ENDING = 32,
    SAY_ENDED = 64,
    SAY_EMPTY = 128,
};

struct output {
    int fd; /* -1: over, or never was */
    struct window window;
    bool exists;
    bool is_end_said;
    bool is_drained;    /* nothing is left of what was written before the command ended */
    uint64_t looked_at; /* `end` when it ended */
};

struct task {
    struct task *next;
    char key[KEY_BYTES];
    bool is_bound; /* somebody outside listens at `channel` */
    uint32_t channel;
    unsigned says;

    int parts[PARTS];
    bool has_begun;
    int minder; /* -1: gone */
    int record; /* what the minder writes its record into */
    bool is_pty;

    struct output outputs[OUTPUTS];
    int input; /* the terminal's master is outputs[0].fd, and not here */
    struct window taken; /* input on its way; `first` was given to the command */
    bool is_input_over, is_input_broken;

    uint64_t last_words;
    bool is_started, has_failed, has_ended, is_empty, is_abandoned;
    int number, kind;
    bool is_oom;
    char place[NAME_BYTES];
};

struct hub {
    struct stream stream;  /* to the ferry; closed without one */
    int ferry;             /* its connection: when it ends, so does the ferry */
    int candidate;         /* a connection that has not brought its descriptors yet */
    struct task *tasks;
    struct task *key_next; /* the list of keys has come so far */
    bool is_listing;
    bool owes_pong;
};

/* Begin as one that serves nobody. */
void hub_begin(struct hub *hub);

/* Take a connection from outside in. `link` is ours. (hub.c) */
void hub_meet(struct hub *hub, int link);

/* One turn after waiting for `wake` and `listener` as well: returns what poll(2) said of these two. */
void hub_turn(struct hub *hub, int wake, int listener, int patience_ms, short *wake_events, short *listener_events);

/* What a frame from outside wants. False: it makes no sense. (tasks.c) */
bool task_hear(struct hub *hub, const struct frame *frame);

/* Note that a command never ran. (minding.c) */
void task_not_started(struct task *task, int number, const char *place);

/* What became ready. (minding.c, moving.c) */
void task_hear_minder(struct task *task);
void task_read_output(struct task *task, int index);
void task_write_input(struct task *task);

/* Say what is due, as far as there is room. True: something was said. (moving.c) */
bool task_say(struct hub *hub, struct task *task);

/* Repeat what has to be until it has come true: the end of what was abandoned. True: look again soon. (tasks.c) */
bool task_pursue(struct task *task);

/* Let go of a command. (tasks.c) */
void task_forget(struct hub *hub, struct task *task);

/* Send a minder an order. (tasks.c) */
void task_order(struct task *task, const char *words);

#endif
