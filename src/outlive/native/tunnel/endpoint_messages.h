/* What a tunnel endpoint sends. */
#ifndef OUTLIVE_TUNNEL_ENDPOINT_MESSAGES_H
#define OUTLIVE_TUNNEL_ENDPOINT_MESSAGES_H

#include "endpoint.h"

/* Queue whatever there is room for. */
void endpoint_say(struct endpoint *endpoint);

#endif
