/* The process that a shim takes for its supervisor. */
#ifndef OUTLIVE_SHIM_SUPERVISOR_H
#define OUTLIVE_SHIM_SUPERVISOR_H

#include <stdbool.h>

#include "shim.h"

/* Open the record lock of the state folder, as it is named now. */
int open_lock(const struct shim *shim);

/* Remember what the state folder is known by. */
void remember_folder(struct shim *shim);

/* Take a connection from the supervisor, or refuse one from any other process. `is_hung_up`: the listener itself is over. */
void meet_supervisor(struct shim *shim, bool is_hung_up);

#endif
