/* The words of a supervisor. */
#ifndef OUTLIVE_RUNNER_ORDERS_H
#define OUTLIVE_RUNNER_ORDERS_H

#include <stdbool.h>

#include "../common/packets.h"
#include "container_shim.h"

/* Do what a packet wants: `rest` stands behind its verb. False: the caller is to leave the loop. */
bool carry_out(struct container_shim *shim, struct packet *packet, char *rest);

#endif
