/* How a shim starts its command. */
#ifndef OUTLIVE_SHIM_START_H
#define OUTLIVE_SHIM_START_H

#include <stdbool.h>

#include "../common/packets.h"
#include "shim.h"

/* Take what a packet brings; `spawns`: and start the command. */
void shim_take(struct shim *shim, struct packet *packet, char *rest, bool spawns);

/* Hold what a packet brings beside what is held, and report it. */
void shim_keep(struct shim *shim, struct packet *packet, const char *letters);

#endif
