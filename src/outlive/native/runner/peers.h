/* Peers that connect to a command's socket and want to become its supervisor. */
#ifndef OUTLIVE_RUNNER_PEERS_H
#define OUTLIVE_RUNNER_PEERS_H

#include <stdbool.h>

#include "container_shim.h"

/* A peer connects to where new supervisors are expected. `is_hung_up`: the listener itself is over. */
void meet_peer(struct container_shim *shim, bool is_hung_up);

/* A peer that was asked for a proof has answered. */
void hear_asked(struct container_shim *shim, int index);

#endif
