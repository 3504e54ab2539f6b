/* The bytes of a tunnel endpoint. */
#ifndef OUTLIVE_TUNNEL_ENDPOINT_BYTES_H
#define OUTLIVE_TUNNEL_ENDPOINT_BYTES_H

#include <stdbool.h>

#include "endpoint.h"

/* Whether there is output that was not written yet. */
bool endpoint_wants_out(const struct endpoint *endpoint, int index);

/* Move bytes here. */
void endpoint_write_output(struct endpoint *endpoint, int index);
void endpoint_read_input(struct endpoint *endpoint);

/* No process reads an output here, and none will: the command shall notice it. */
void endpoint_give_up(struct endpoint *endpoint, int index);

/* Report to the proxy process how to end, once everything was written that came before. */
void endpoint_end_proxy(struct endpoint *endpoint);

#endif
