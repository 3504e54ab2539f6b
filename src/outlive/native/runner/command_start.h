/* How a command of a container starts. */
#ifndef OUTLIVE_RUNNER_COMMAND_START_H
#define OUTLIVE_RUNNER_COMMAND_START_H

#include "../common/packets.h"
#include "container_shim.h"

/* Start the child of `spawn`: it waits for `go`. */
void start_command(struct container_shim *shim, struct packet *packet, const char *letters);

/* Let the child execute. `line` is what the supervisor wants in the record. */
void let_execute(struct container_shim *shim, const char *line);

/* The child reported that it cannot execute, or executed, or died before. */
void hear_child_start(struct container_shim *shim);

#endif
