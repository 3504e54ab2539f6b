/* The multiplexer's turn: it polls the tunnel's stream and, for each command, its shim, outputs and input. Each is served a
   bounded piece, so that no command waits for another one's output. */
#include "multiplexer.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/packets.h"
#include "task_bytes.h"
#include "task_events.h"
#include "task_frames.h"

enum { WATCHED_PER_TASK = 4, WATCHED_BESIDES = 6, RETRY_MS = 50 };

void multiplexer_begin(struct multiplexer *multiplexer)
{
    *multiplexer = (struct multiplexer){.stream = {.in = -1, .out = -1}, .tunnel = -1, .candidate = -1};
}

void multiplexer_take_connection(struct multiplexer *multiplexer, int link)
{
    if (multiplexer->candidate >= 0)
        close(multiplexer->candidate);
    multiplexer->candidate = link;
}

/* The stream is gone: everything has to be sent again, to each endpoint that says HELLO on the next one. */
static void lose_tunnel(struct multiplexer *multiplexer)
{
    stream_close(&multiplexer->stream);
    if (multiplexer->tunnel >= 0)
        close(multiplexer->tunnel);
    multiplexer->tunnel = -1;
    for (struct task *task = multiplexer->tasks; task != NULL; task = task->next) {
        task->is_bound = false;
        task->says = 0;
    }
}

/* A new stream replaces the old one: it would not have been brought if the old one had not been cut outside. */
static void take_tunnel(struct multiplexer *multiplexer)
{
    struct packet packet;
    enum heard heard = receive_packet(multiplexer->candidate, &packet);

    if (heard == HEARD_NOTHING)
        return;
    int link = multiplexer->candidate;
    multiplexer->candidate = -1;
    struct stream stream;
    if (heard != HEARD_PACKET || packet.count != 2 || !stream_open(&stream, packet.fds[0], packet.fds[1])) {
        close_packet(&packet);
        close(link);
        return;
    }
    packet.count = 0;
    lose_tunnel(multiplexer);
    multiplexer->stream = stream;
    multiplexer->tunnel = link;
    multiplexer->is_listing = true;
    multiplexer->key_next = multiplexer->tasks;
    multiplexer->owes_pong = false;
}

/* Send the keys of all commands: outside, those without an endpoint are abandoned then. */
static void list_keys(struct multiplexer *multiplexer)
{
    while (multiplexer->is_listing) {
        const char *key = multiplexer->key_next == NULL ? "" : multiplexer->key_next->key;
        if (!stream_put(&multiplexer->stream, KEY, 0, key, strlen(key), NULL, 0))
            return;
        multiplexer->is_listing = multiplexer->key_next != NULL;
        if (multiplexer->key_next != NULL)
            multiplexer->key_next = multiplexer->key_next->next;
    }
}

static void say_all(struct multiplexer *multiplexer)
{
    bool again = multiplexer->stream.in >= 0;

    while (again) { /* a piece of each in turn: none of them waits for another one's */
        again = false;
        list_keys(multiplexer);
        if (multiplexer->owes_pong && stream_put(&multiplexer->stream, PONG, 0, NULL, 0, NULL, 0))
            multiplexer->owes_pong = false;
        for (struct task *task = multiplexer->tasks; task != NULL; task = task->next)
            again |= task->is_bound && task_say(multiplexer, task);
        if (!stream_flush(&multiplexer->stream)) {
            lose_tunnel(multiplexer);
            return;
        }
    }
}

static void hear_outside(struct multiplexer *multiplexer)
{
    struct frame frame;
    int got;

    if (!stream_fill(&multiplexer->stream)) {
        lose_tunnel(multiplexer);
        return;
    }
    while ((got = stream_next(&multiplexer->stream, &frame)) > 0) {
        if (frame.type == PING)
            multiplexer->owes_pong = true;
        else if (!task_hear(multiplexer, &frame))
            got = -1;
        if (got < 0)
            break;
    }
    if (got < 0)
        lose_tunnel(multiplexer);
}

static void watch_task(struct pollfd *watched, const struct task *task)
{
    bool has_input = task->taken.next < task->taken.end;
    short wanted = 0;

    watched[0] = (struct pollfd){.fd = task->shim, .events = POLLIN};
    for (int index = 0; index < OUTPUTS; index++) {
        const struct output *output = &task->outputs[index];
        wanted = flow_window_free(&output->window) > 0 ? POLLIN : 0;
        if (index == 0 && task->is_pty && has_input)
            wanted |= POLLOUT;
        watched[1 + index] = (struct pollfd){.fd = wanted != 0 ? output->fd : -1, .events = wanted};
    }
    watched[3] = (struct pollfd){.fd = task->input, .events = has_input ? POLLOUT : 0}; /* and whether a process reads it */
}

static void serve_task(struct pollfd *watched, struct task *task)
{
    if (watched[0].revents != 0)
        task_hear_shim(task);
    if (task->is_pty && (watched[1].revents & POLLOUT) != 0)
        task_write_input(task);
    for (int index = 0; index < OUTPUTS; index++)
        if ((watched[1 + index].revents & ~POLLOUT) != 0 && flow_window_free(&task->outputs[index].window) > 0)
            task_read_output(task, index);
    if (watched[3].revents != 0)
        task_write_input(task);
}

static void serve_tasks(struct multiplexer *multiplexer, struct pollfd *watched)
{
    struct task *next;

    for (struct task *task = multiplexer->tasks; task != NULL; task = next, watched += WATCHED_PER_TASK) {
        next = task->next;
        serve_task(watched, task);
        if (task->is_abandoned && (task->shim < 0 || (task->is_empty && (task->has_ended || task->has_failed))))
            task_forget(multiplexer, task);
    }
}

void multiplexer_turn(struct multiplexer *multiplexer, int wake, int listener, int patience_ms, short *wake_events,
                      short *listener_events)
{
    static struct pollfd *watched;
    static size_t space;
    size_t count = WATCHED_BESIDES;
    bool has_to_send = multiplexer->stream.sending_begin < multiplexer->stream.sending_end;

    for (struct task *task = multiplexer->tasks; task != NULL; task = task->next) {
        if (task_pursue(task) && (patience_ms < 0 || patience_ms > RETRY_MS))
            patience_ms = RETRY_MS;
        count += WATCHED_PER_TASK;
    }
    if (count > space) {
        struct pollfd *more = realloc(watched, 2 * count * sizeof *more);
        if (more == NULL)
            return; /* tried again, for ever */
        watched = more;
        space = 2 * count;
    }
    watched[0] = (struct pollfd){.fd = wake, .events = POLLIN};
    watched[1] = (struct pollfd){.fd = listener, .events = POLLIN};
    watched[2] = (struct pollfd){.fd = multiplexer->stream.in, .events = POLLIN};
    watched[3] = (struct pollfd){.fd = has_to_send ? multiplexer->stream.out : -1, .events = POLLOUT};
    watched[4] = (struct pollfd){.fd = multiplexer->tunnel, .events = POLLIN};
    watched[5] = (struct pollfd){.fd = multiplexer->candidate, .events = POLLIN};
    count = WATCHED_BESIDES;
    for (struct task *task = multiplexer->tasks; task != NULL; task = task->next, count += WATCHED_PER_TASK)
        watch_task(watched + count, task);
    *wake_events = *listener_events = 0;
    if (poll(watched, count, patience_ms) < 0)
        return;
    *wake_events = watched[0].revents;
    *listener_events = watched[1].revents;
    serve_tasks(multiplexer, watched + WATCHED_BESIDES); /* first: what follows may add some */
    if (watched[4].revents != 0)
        lose_tunnel(multiplexer);
    else if (watched[2].revents != 0)
        hear_outside(multiplexer);
    if (watched[5].revents != 0)
        take_tunnel(multiplexer);
    say_all(multiplexer);
}
