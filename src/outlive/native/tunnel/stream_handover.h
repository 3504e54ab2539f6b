/* `outlive-runner ferry SOCKET`: brings the tunnel's stream to the multiplexer. */
#ifndef OUTLIVE_TUNNEL_STREAM_HANDOVER_H
#define OUTLIVE_TUNNEL_STREAM_HANDOVER_H


/* Hand our standard input and output to the multiplexer that listens on `path`, and wait until it lets go of them.
   Returns the exit code of the program. */
int hand_streams_over(const char *path);

#endif
