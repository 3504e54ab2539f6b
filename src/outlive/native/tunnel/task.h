/* A command that the multiplexer keeps, from HELLO to RELEASE, and the multiplexer's list of them. */
#ifndef OUTLIVE_TUNNEL_TASK_H
#define OUTLIVE_TUNNEL_TASK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "frames.h"
#include "flow_window.h"

enum { PARTS = 3, OUTPUTS = 2, NAME_BYTES = 48 };

/* What is to be sent about a command as soon as there is room; the order of the bits is the order of sending. */
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
    struct flow_window window;
    bool exists;
    bool is_end_said;
    bool is_drained;    /* nothing is left of what was written before the command ended */
    uint64_t looked_at; /* `end` when it ended */
};

struct task {
    struct task *next;
    char key[KEY_BYTES];
    bool is_bound; /* an endpoint outside listens at `channel` */
    uint32_t channel;
    unsigned says;

    int parts[PARTS];
    bool has_begun;
    int shim; /* -1: gone */
    int record; /* what the shim writes its record into */
    bool is_pty;

    struct output outputs[OUTPUTS];
    int input; /* the terminal's master is outputs[0].fd, and not here */
    struct flow_window taken; /* input on its way; `first` was given to the command */
    bool is_input_over, is_input_broken;

    uint64_t last_words;
    bool is_started, has_failed, has_ended, is_empty, is_abandoned;
    int number, kind;
    bool is_oom;
    char place[NAME_BYTES];
};

struct multiplexer {
    struct stream stream;  /* the tunnel's; closed without one */
    int tunnel;            /* the connection that brought it: when one ends, so does the other */
    int candidate;         /* a connection that has not brought its descriptors yet */
    struct task *tasks;
    struct task *key_next; /* the list of keys has come so far */
    bool is_listing;
    bool owes_pong;
};

/* Find the command that a channel is bound to, or that has a key; NULL: there is none. */
struct task *task_bound_to(struct multiplexer *multiplexer, uint32_t channel);
struct task *task_find(struct multiplexer *multiplexer, const unsigned char *key, size_t size);

/* Add a command. NULL: no memory. */
struct task *task_make(struct multiplexer *multiplexer, const unsigned char *key, size_t size);

/* Let go of a command. */
void task_forget(struct multiplexer *multiplexer, struct task *task);

/* Close the files that a command is made of. */
void task_drop_parts(struct task *task);

/* Note that a command never ran. */
void task_not_started(struct task *task, int number, const char *place);

/* Send the command's shim an order. */
void task_order(struct task *task, const char *words);

#endif
