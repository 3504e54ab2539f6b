/* The process that stands in, on this machine, for a command in a container that no socket reaches. */
#ifndef OUTLIVE_TUNNEL_PROXY_PROCESS_H
#define OUTLIVE_TUNNEL_PROXY_PROCESS_H

#include <stdnoreturn.h>

#include "../runner/child.h"

/* Become the proxy of a command, once `go` says so: a process that ends as the command inside does. Bytes and messages are
   moved meanwhile by a child of it, the tunnel endpoint. `control` leads to the shim. */
noreturn void run_proxy_process(struct beginnings *from, int control);

#endif
