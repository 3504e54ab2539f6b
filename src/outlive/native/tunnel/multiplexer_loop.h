/* `outlive-runner hold SOCKET`: the first process of a container that no socket reaches. */
#ifndef OUTLIVE_TUNNEL_MULTIPLEXER_LOOP_H
#define OUTLIVE_TUNNEL_MULTIPLEXER_LOOP_H

#include <stdbool.h>

/* Listen on SOCKET for the tunnel's stream, and keep commands, until a signal says that it is over. `lets_any_in`: processes
   inside may bring a stream, too. Returns the exit code of the program. */
int run_multiplexer(const char *path, bool lets_any_in);

#endif
