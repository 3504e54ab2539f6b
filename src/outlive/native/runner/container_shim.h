/* The state of the shim of a container's command, and what every step of it needs. container_shim_loop.h has the
   protocol. */
#ifndef OUTLIVE_RUNNER_CONTAINER_SHIM_H
#define OUTLIVE_RUNNER_CONTAINER_SHIM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lock_challenge.h"
#include "record.h"

enum {
    HELD = 16,
    ASKED_AT_ONCE = 8, /* peers that have to prove what they are; more wait in the backlog */
};

enum fate { ALIVE, EXITED, SIGNALED, FAILED };

struct container_shim {
    int link;     /* to the supervisor, -1 without one */
    int wake;     /* signalfd(2): SIGCHLD, SIGTERM */
    int listener; /* where new supervisors connect, -1 without one */
    int lock;     /* the supervisor's, read-only: a peer has to prove that it holds it; -1: none is asked to */
    struct question asked[ASKED_AT_ONCE]; /* which has not answered yet */
    bool lets_any_in;         /* peers of our own PID namespace, too */
    bool is_listener_resting; /* out of descriptors: no new supervisor for a moment */
    uid_t owner; /* of the supervisor that sent `spawn` */
    pid_t runner;

    char letters[HELD]; /* of what is held, in the order it came */
    int held[HELD];
    int held_count;
    int terminal; /* the slave's side until the command has it */
    int terminal_error;

    bool is_spawned; /* `spawn` was accepted: from now on we stay until we are released */
    bool may_go;
    bool has_executed;
    pid_t child; /* 0: there is none, or it was reaped */
    int go;
    int report;
    long long oom_kills; /* before it ran */
    unsigned long long pid, ticks, started_ns; /* as `go` said */
    char line[LINE_BYTES];

    struct record record;
    bool is_ending; /* the end is in the record, or waits to be */
    enum fate coming; /* what `fate` becomes as soon as it is recorded */
    enum fate fate;
    int number;
    int64_t ended_ns;
    bool is_empty;
    bool must_reap; /* more may wait than one turn took */
    int64_t leave_at; /* the runner ends: monotonic milliseconds, 0 if not */
};

/* Report something to the supervisor, if there is one that listens. */
void report_to_supervisor(struct container_shim *shim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Keep a descriptor under a letter; false (and closed) when there is no room. */
bool hold_descriptor(struct container_shim *shim, char letter, int fd);

/* Return what is held under a letter, -1 if nothing. */
int held_under(const struct container_shim *shim, char letter);

/* Close what is held under a letter. */
void release_descriptor(struct container_shim *shim, char letter);

/* Record that the command never ran, and report it. */
void command_never_ran(struct container_shim *shim, int number, const char *place);

#endif
