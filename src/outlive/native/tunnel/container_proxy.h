/* `outlive-runner stand`: the process on this machine that stands for a container which no socket reaches. */
#ifndef OUTLIVE_TUNNEL_CONTAINER_PROXY_H
#define OUTLIVE_TUNNEL_CONTAINER_PROXY_H

#include <stdbool.h>

/* Stand for the container of a folder. `program` brings the tunnel's stream and is started again when it dies. With `asks` a
   supervisor has to prove that it holds its lock. Returns the exit code of the program. */
int run_container_proxy(const char *folder, char **program, bool asks);

#endif
