/* The state of a shim, and what every step of it needs. shim_loop.h says what a shim is. */
#ifndef OUTLIVE_SHIM_SHIM_H
#define OUTLIVE_SHIM_SHIM_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "../common/shim_state.h"

#define SHIM_NAME "outlive-shim" /* in lists of processes, while it serves no command */

enum {
    SHIM_LINK = 3, /* where the process that spawns a shim has put the link */
    SUFFIX_BYTES = 8,
    IDENTITY_BYTES = 256,
};

enum serving { SERVES_NOTHING, OWNS, HOLDS };

struct shim {
    struct shim_state state;
    int unproven; /* a connection of what may be one: there were no descriptors to find out with; else -1 */
    const char *state_folder;
    dev_t device; /* of the state folder when we began, */
    ino_t inode;  /* 0 where it could not be looked at, */
    char identity[IDENTITY_BYTES]; /* and the beginning of its file (keeper/common/folder_identity.py), "" without one */
    bool must_look;           /* look for ended children: SIGCHLD came, or an end could not be recorded yet */
    bool is_batch_scheduled;  /* wakes without interrupting other processes; its commands do not */

    enum serving serving;
    char boot_id[40];
    size_t folder_length;
    char folder[PATH_MAX + SUFFIX_BYTES];
};

/* Return the path of a file in the process's folder ("/pid"); good until the next call. */
const char *shim_path(struct shim *shim, const char *suffix);

/* Let go of everything. */
void shim_release(struct shim *shim);

/* Let go when all is over and no supervisor can come: it would ask at a socket that was deleted. */
void shim_leave_if_forsaken(struct shim *shim);

#endif
