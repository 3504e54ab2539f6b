/* The state of a shim, and what every step of it needs. shim_loop.h says what a shim is. */
#ifndef OUTLIVE_SHIM_SHIM_H
#define OUTLIVE_SHIM_SHIM_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "../common/packets.h"

#define SHIM_NAME "outlive-shim" /* in lists of processes, while it serves no command */

enum {
    SHIM_LINK = 3, /* where the process that spawns a shim has put the link */
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
    char identity[IDENTITY_BYTES]; /* and the beginning of its file (keeper/common/folder_identity.py), "" without one */
    bool must_look;           /* look for ended children: SIGCHLD came, or an end could not be recorded yet */
    bool is_listener_resting; /* out of descriptors: no new supervisor for a moment */
    bool is_batch_scheduled;  /* wakes without interrupting other processes; its commands do not */

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

/* Report something to the supervisor, if there is one that listens. */
void shim_say(const struct shim *shim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Have what comes by the link, and its end, continue us where a command has stopped us. */
void shim_heed_link(const struct shim *shim);

/* Send everything that is held, and what is known of the command, to a new supervisor. */
void shim_send_state(const struct shim *shim);

/* Return the path of a file in the process's folder ("/pid"); good until the next call. */
const char *shim_path(struct shim *shim, const char *suffix);

/* Close what is held under these letters; NULL: all. */
void shim_close(struct shim *shim, const char *letters);

/* Let go of everything. */
void shim_release(struct shim *shim);

/* Let go when all is over and no supervisor can come: it would ask at a socket that was deleted. */
void shim_leave_if_forsaken(struct shim *shim);

#endif
