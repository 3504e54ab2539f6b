/* The bytes of a tunnel endpoint: from its flow-control windows to where the command's output belongs, and input back. */
#include "endpoint_bytes.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/packets.h"
#include "../runner/container_shim.h"

void endpoint_end_proxy(struct endpoint *endpoint)
{
    char words[WORD_BYTES];

    for (int index = 0; index < 2; index++) {
        struct written *output = &endpoint->outputs[index];
        if (output->has_end && (output->fd < 0 || output->window.first >= output->end))
            output->is_over = true;
        if (!output->is_over || output->fd < 0)
            continue;
        if (output->fd == endpoint->terminal)
            endpoint->terminal = -1;
        if (output->fd == endpoint->input) {
            endpoint->input = -1;
            endpoint->is_input_over = endpoint->is_input_end_said = true;
        }
        close_fd(&output->fd);
    }
    if (!endpoint->has_ended || endpoint->is_proxy_ended)
        return;
    /* What the command wrote before it ended is here before its end is seen: else a reader would take the output for
       whole. */
    for (int index = 0; index < 2; index++)
        if (endpoint->outputs[index].window.first < endpoint->ended_at[index] && endpoint->outputs[index].fd >= 0)
            return;
    if (endpoint->is_oom && endpoint->control >= 0)
        send_packet(endpoint->control, "oom", NULL, 0);
    snprintf(words, sizeof words, "%s %d", endpoint->kind == EXITED ? "exited" : "signaled", endpoint->number);
    notify_proxy(endpoint, words);
    endpoint->is_proxy_ended = true;
}

bool endpoint_wants_out(const struct endpoint *endpoint, int index)
{
    const struct written *output = &endpoint->outputs[index];

    return output->fd >= 0 && output->window.first < output->window.end;
}

void endpoint_give_up(struct endpoint *endpoint, int index)
{
    struct written *output = &endpoint->outputs[index];
    char words[16];

    flow_window_drop(&output->window, output->window.end);
    if (output->fd != endpoint->terminal)
        close_fd(&output->fd);
    snprintf(words, sizeof words, "deaf %d", index);
    endpoint_order(endpoint, words);
}

void endpoint_write_output(struct endpoint *endpoint, int index)
{
    struct written *output = &endpoint->outputs[index];
    const unsigned char *bytes;

    for (int piece = 0; piece < 2; piece++) { /* the window's memory is a ring: two halves */
        size_t size = flow_window_at(&output->window, output->window.first, &bytes);
        ssize_t put = size == 0 ? 0 : write(output->fd, bytes, size);
        if (put > 0)
            flow_window_drop(&output->window, output->window.first + (uint64_t)put);
        if (put >= 0)
            continue;
        if (errno == EAGAIN || errno == EINTR)
            return;
        endpoint_give_up(endpoint, index);
        return;
    }
}

void endpoint_read_input(struct endpoint *endpoint)
{
    /* A terminal that is hung up here has no end of file inside: an order hangs that one up, too. */
    ssize_t got = flow_window_read(&endpoint->input_window, endpoint->input);

    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    endpoint->is_input_over = true;
    if (endpoint->input == endpoint->terminal) { /* no process has the other side open any more */
        endpoint->is_input_end_said = true;
        endpoint_order(endpoint, "hangup");
    } else {
        close_fd(&endpoint->input);
    }
}
