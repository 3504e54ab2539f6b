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
    char identity[IDENTITY_BYTES]; /* and the beginning of its file (kernel/folder_identity.py), "" without one */
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

/* Take what a packet brings; `spawns`: and start the command. */
void shim_take(struct shim *shim, struct packet *packet, char *rest, bool spawns);

/* Hold what a packet brings beside what is held, and report it. */
void shim_keep(struct shim *shim, struct packet *packet, const char *letters);

/* Empty the record, or make it. Returns its descriptor; -1 with errno. */
int open_record(struct shim *shim);

/* Write a line into a record that is open. Returns 0 or an errno. */
int write_line(int fd, const char *line);

/* Add a line to a file of the process's folder, made if need be: whole or not at all. Returns 0 or an errno. */
int shim_add_line(struct shim *shim, const char *file, const char *line);

/* Reap children; the command's end is recorded before. */
void shim_reap(struct shim *shim);

/* Open the record lock of the state folder, as it is named now. */
int open_lock(const struct shim *shim);

/* Remember what the state folder is known by. */
void remember_folder(struct shim *shim);

/* Take a connection from the supervisor, or refuse one from any other process. `is_hung_up`: the listener itself is over. */
void meet_supervisor(struct shim *shim, bool is_hung_up);

#endif
