/* The process beside one plain command of this machine: what src/outlive/keeper/guardian/shim.py is, whose docstring has the
   protocol (decision 126). Commands with steps of a sandbox are not for it: none of them runs here, and the supervisor gives
   them to a shim in Python. */
#ifndef OUTLIVE_SHIM_H
#define OUTLIVE_SHIM_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "packets.h"

enum {
    SHIM_LINK = 3, /* where whoever spawns a shim has put its link */
    MOST_HELD = 12,
    SUFFIX_BYTES = 8,
    IDENTITY_BYTES = 256,
};

enum serving { SERVES_NOTHING, OWNS, HOLDS };
enum ending { RUNS, HAS_EXITED, WAS_SIGNALED, HAS_FAILED };

struct shim {
    int link;     /* to the supervisor, -1 without one */
    int wake;     /* signalfd(2): SIGCHLD */
    int listener; /* where the next supervisor connects, -1 while nothing is served */
    int unproven; /* a connection of what may be one: there were no descriptors to find out with; else -1 */
    int lock;     /* the supervisor's record lock, to ask about it; -1 where it could not be opened */
    const char *state_folder;
    dev_t device; /* of the state folder when we began, */
    ino_t inode;  /* 0 where it could not be looked at, */
    char identity[IDENTITY_BYTES]; /* and the beginning of its file (keeper/folder_identity.py), "" without one */
    bool must_look;           /* an end could not be recorded: again soon */
    bool is_listener_resting; /* out of descriptors: no new supervisor for a moment */
    bool is_patient;          /* wakes without interrupting anybody; its commands do not */

    enum serving serving;
    char letters[MOST_HELD]; /* of what is held, in the order it came; ends with NUL */
    int held[MOST_HELD];
    int held_count;
    pid_t pid;
    unsigned long long ticks;
    enum ending ending;
    int number; /* exit code, signal, or errno */
    int64_t ended_ns;
    bool is_empty;

    char boot_id[40];
    size_t folder_length;
    char folder[PATH_MAX + SUFFIX_BYTES];
};

/* Serve the supervisors of a state folder until there is nothing left to hold and none of them. Returns the program's exit
   code. `is_lock_handed`: the record lock's file is open as the standard input. */
int shim(const char *state_folder, bool is_lock_handed);

/* Tell the supervisor something, if there is one that listens. */
void shim_say(const struct shim *shim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Return the path of a file in the process's folder ("/pid"); good until the next call. */
const char *shim_path(struct shim *shim, const char *suffix);

/* Let go of everything. */
void shim_release(struct shim *shim);

/* Let go when all is over and no supervisor can come: it would ask at a socket that somebody has deleted. */
void shim_leave_if_forsaken(struct shim *shim);

/* Take what a packet brings; `spawns`: and start the command. (starting.c) */
void shim_take(struct shim *shim, struct packet *packet, char *rest, bool spawns);

/* Hold what a packet brings beside what is held, and say so. (starting.c) */
void shim_keep(struct shim *shim, struct packet *packet, const char *letters);

/* Reap children; the command's end is recorded before. (ending.c) */
void shim_reap(struct shim *shim);

/* Add a line to the process's record: whole or not at all. Returns 0 or an errno. (ending.c) */
int shim_add_line(struct shim *shim, const char *line);

#endif
