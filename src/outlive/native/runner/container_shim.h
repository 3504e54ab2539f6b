/* The state of the shim of a container's command, and what every step of it needs. container_shim_loop.h has the
   protocol. */
#ifndef OUTLIVE_RUNNER_CONTAINER_SHIM_H
#define OUTLIVE_RUNNER_CONTAINER_SHIM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "../common/shim_state.h"
#include "lock_challenge.h"
#include "record.h"

enum {
    ASKED_AT_ONCE = 8, /* peers that have to prove what they are; more wait in the backlog */
};

struct container_shim {
    struct shim_state state;
    struct question asked[ASKED_AT_ONCE]; /* which has not answered yet */
    bool lets_any_in;         /* peers of our own PID namespace, too */
    uid_t owner; /* of the supervisor that sent `spawn` */
    pid_t runner;

    int terminal; /* the slave's side until the command has it */
    int terminal_error;

    bool is_spawned; /* `spawn` was accepted: from now on we stay until we are released */
    bool may_go;
    int go;
    int report;
    long long oom_kills; /* before it ran */
    unsigned long long said[3]; /* by `go`: its pid, ticks, and when it was started in nanoseconds */
    char line[LINE_BYTES];

    struct record record;
    bool is_ending; /* the end is in the record, or waits to be */
    bool must_reap; /* more may wait than one turn took */
    int64_t leave_at; /* the runner ends: monotonic milliseconds, 0 if not */
};

/* Record that the command never ran, and report it. */
void command_never_ran(struct container_shim *shim, int number, const char *place);

#endif
