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

/* Start the command of the spec that is the standard input, as a shim does, and wait for it: so it is found out what a
   machine offers. Its output is ours. Returns its exit code, or 125 after "failed ERRNO PLACE" on the standard error. */
int try_command(void);

#endif
