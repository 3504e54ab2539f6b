/* What a tunnel endpoint receives. */
#ifndef OUTLIVE_TUNNEL_ENDPOINT_EVENTS_H
#define OUTLIVE_TUNNEL_ENDPOINT_EVENTS_H

#include "endpoint.h"
#include "frames.h"

/* Take in a frame of the multiplexer or of the tunnel. */
void endpoint_hear(struct endpoint *endpoint, const struct frame *frame);

#endif
