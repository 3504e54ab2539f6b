/* What a tunnel endpoint receives from the multiplexer, and from the tunnel itself. */
#include "endpoint_events.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../runner/container_shim.h"
#include "endpoint.h"

/* A pipe of the second size takes all that can be on its way from a command that writes no more. */
enum { PIPE_BYTES = 1 << 20 };

/* The container does not know the command: it was started anew, or is gone, and everything in it was killed. */
static void lose_command(struct endpoint *endpoint)
{
    if (!endpoint->is_settled) {
        endpoint_not_started(endpoint, ECANCELED, "container");
        return;
    }
    if (!endpoint->has_ended) {
        endpoint->kind = SIGNALED;
        endpoint->number = SIGKILL;
    }
    endpoint->has_ended = endpoint->is_empty = true;
    for (int index = 0; index < 2; index++) {
        struct written *output = &endpoint->outputs[index];
        output->has_end = true;
        output->end = output->window.end;
        endpoint->ended_at[index] = output->window.first; /* what came is still written */
    }
}

static void hear_state(struct endpoint *endpoint, const struct frame *frame)
{
    if (frame->size != 17)
        return;
    uint64_t taken = get_number(frame->bytes, 8), heard = get_number(frame->bytes + 8, 8);
    int kept = 0;

    for (int index = 0; index < endpoint->word_count; index++)
        if (endpoint->words[index].number > heard)
            endpoint->words[kept++] = endpoint->words[index];
    endpoint->word_count = kept;
    if (endpoint->is_known)
        return; /* it only says which orders have arrived */
    endpoint->is_known = true;
    endpoint->said_number = heard;
    endpoint->is_input_end_said = false;
    if (taken >= endpoint->input_window.first && taken <= endpoint->input_window.end)
        endpoint->input_window.next = taken;
    endpoint->must_begin = frame->bytes[16] == 0;
    endpoint->is_start_said = !endpoint->must_begin;
    endpoint->part = 0;
    endpoint->part_at = 0;
}

static void hear_output(struct endpoint *endpoint, const struct frame *frame)
{
    if (frame->size < 9 || frame->bytes[0] > 1)
        return;
    struct written *output = &endpoint->outputs[frame->bytes[0]];
    uint64_t offset = get_number(frame->bytes + 1, 8);
    if (frame->type == OUTPUT_END) {
        output->has_end = true;
        output->end = offset;
    } else if (output->fd >= 0) {
        flow_window_add(&output->window, offset, frame->bytes + 9, frame->size - 9);
    }
}

/* The command has ended. That must be reported even where its output is not read for now, as with a full pipe that no
   process empties: so the pipes are made large enough for all that is on its way. */
static void make_room(struct endpoint *endpoint)
{
    if (endpoint->ending_at == 0)
        endpoint->ending_at = now_ms();
    for (int index = 0; index < 2; index++)
        if (endpoint->outputs[index].fd >= 0)
            fcntl(endpoint->outputs[index].fd, F_SETPIPE_SZ, PIPE_BYTES);
}

static void hear_ended(struct endpoint *endpoint, const struct frame *frame)
{
    if (frame->size != 22 || endpoint->has_ended)
        return;
    endpoint->has_ended = true;
    endpoint->kind = frame->bytes[0];
    endpoint->number = (int)get_number(frame->bytes + 1, 4);
    endpoint->is_oom = frame->bytes[5] != 0;
    endpoint->ended_at[0] = get_number(frame->bytes + 6, 8);
    endpoint->ended_at[1] = get_number(frame->bytes + 14, 8);
}

static void hear_not_started(struct endpoint *endpoint, const struct frame *frame)
{
    char place[40];

    if (frame->size < 4 || endpoint->is_settled)
        return;
    snprintf(place, sizeof place, "%.*s", (int)(frame->size - 4), (const char *)frame->bytes + 4);
    endpoint_not_started(endpoint, (int)get_number(frame->bytes, 4), place);
}

void endpoint_hear(struct endpoint *endpoint, const struct frame *frame)
{
    switch (frame->type) {
    case LINK_UP:
        endpoint->is_up = endpoint->must_say_hello = true;
        endpoint->is_known = false;
        break;
    case LINK_DOWN:
        endpoint->is_up = endpoint->is_known = false;
        break;
    case STATE:
        hear_state(endpoint, frame);
        break;
    case STARTED:
        endpoint->is_settled = true;
        notify_proxy(endpoint, "started");
        break;
    case NOT_STARTED:
        hear_not_started(endpoint, frame);
        break;
    case OUTPUT:
    case OUTPUT_END:
        hear_output(endpoint, frame);
        break;
    case INPUT_ACK:
        if (frame->size == 8)
            flow_window_drop(&endpoint->input_window, get_number(frame->bytes, 8));
        break;
    case INPUT_BROKEN:
        endpoint->is_input_over = endpoint->is_input_end_said = true;
        if (endpoint->input != endpoint->terminal)
            close_fd(&endpoint->input);
        break;
    case ENDING:
        make_room(endpoint);
        break;
    case ENDED:
        hear_ended(endpoint, frame);
        break;
    case EMPTY:
        endpoint->is_empty = true;
        break;
    case UNKNOWN:
        lose_command(endpoint);
        break;
    }
}
