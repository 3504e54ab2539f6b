/* How a command of a container ends. */
#ifndef OUTLIVE_RUNNER_COMMAND_END_H
#define OUTLIVE_RUNNER_COMMAND_END_H

#include "container_shim.h"

/* Record the command's end, then reap it; reap all other children, a bounded number. */
void reap_ended(struct container_shim *shim);

#endif
