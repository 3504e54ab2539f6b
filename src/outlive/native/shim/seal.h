/* A sealed command: it has its own view of files, and its own PID namespace with an init of its own. */
#ifndef OUTLIVE_SHIM_SEAL_H
#define OUTLIVE_SHIM_SEAL_H

#include <stdbool.h>

#include "confine.h"

/* Return a descriptor of what is at a path of which no part is a symbolic link: links were resolved when the
   path was chosen, and one that was put there since must not lead elsewhere. With O_NOFOLLOW its last part may
   be one, which is opened itself. -1 with errno. */
int open_place(const char *path, int flags);

/* Mount what is at a path, a symbolic link itself, over itself: then its name leads nowhere else, for it can
   neither be renamed nor removed; and nothing in it can be changed if it is to be read-only. Returns 0 or an
   errno. */
int mount_over_itself(const char *path, bool is_read_only);

/* Mount an empty folder over one, if that is there: it cannot be entered, nor written. Returns 0 or an errno. */
int mount_empty(const char *path);

/* Return 0 in a sibling of this process, which becomes the command, or an errno; the caller has left its
   namespaces. */
int seal(struct confinement *all);

/* Mount a new /proc that lists no keys: keys belong to the user, not to a process or a namespace. Returns 0
   or an errno. */
int mount_proc(unsigned long flags, const char *options);

#endif
