/* The tunnel endpoint of one command, as a process. */
#ifndef OUTLIVE_TUNNEL_ENDPOINT_LOOP_H
#define OUTLIVE_TUNNEL_ENDPOINT_LOOP_H

#include <stdnoreturn.h>

#include "../runner/child.h"

/* Where endpoints find the tunnel; relative to the container's folder, in which the container's proxy works. */
#define TUNNEL_SOCKET "run/ferry.sock"

/* Be the endpoint of the command that begins with `from`. `control` leads to the command's shim on this machine, `proxy` to
   the process that stands in for the command. */
noreturn void run_endpoint(struct beginnings *from, int control, int proxy);

#endif
