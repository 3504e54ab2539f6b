/* The multiplexer: the first process of a container that no socket reaches. It is the supervisor of its commands' shims.

   For each command it keeps what may still be needed outside: a flow-control window of each output, how much of the input
   was taken, how the command ended. The tunnel's stream, which leads outside, is brought by `outlive-runner ferry`
   (started by `docker exec`) and may be cut at any byte. After a cut the endpoint of a command sends HELLO again, with
   how much it has. */
#ifndef OUTLIVE_TUNNEL_MULTIPLEXER_H
#define OUTLIVE_TUNNEL_MULTIPLEXER_H

#include "task.h"

/* Begin without commands and without a stream. */
void multiplexer_begin(struct multiplexer *multiplexer);

/* Take a connection from outside in. `link` is ours. */
void multiplexer_take_connection(struct multiplexer *multiplexer, int link);

/* One turn after waiting for `wake` and `listener` as well: returns the events that poll(2) found for these two. */
void multiplexer_turn(struct multiplexer *multiplexer, int wake, int listener, int patience_ms, short *wake_events,
                      short *listener_events);

#endif
