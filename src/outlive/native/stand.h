/* Outside of a container that no socket reaches: what stands here for its commands. */
#ifndef OUTLIVE_STAND_H
#define OUTLIVE_STAND_H

#include <stdnoreturn.h>

#include "child.h"

/* Where relays find the ferry; relative to the container's folder, in which `outlive-runner stand` works. */
#define FERRY_SOCKET "run/ferry.sock"

/* Become the stand-in of a command, once `go` says so: a process that ends as the command inside does. What is moved and
   said meanwhile is moved and said by a child of it, the relay. `control` leads to the minder. */
noreturn void stand_in(struct beginnings *from, int control);

/* Be the relay. `mirror` leads to the stand-in. (relay.c) */
noreturn void relay(struct beginnings *from, int control, int mirror);

/* `outlive-runner ferry SOCKET`. (ferry.c) */
int ferry(const char *path);

#endif
