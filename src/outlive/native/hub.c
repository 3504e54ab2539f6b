#include "hub.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "packets.h"

enum { WATCHED_PER_TASK = 4, WATCHED_BESIDES = 6, RETRY_MS = 50 };

void hub_begin(struct hub *hub)
{
    *hub = (struct hub){.stream = {.in = -1, .out = -1}, .ferry = -1, .candidate = -1};
}

void hub_meet(struct hub *hub, int link)
{
    if (hub->candidate >= 0)
        close(hub->candidate);
    hub->candidate = link;
}

/* Nobody is outside any more: what was said is said again to whoever comes. */
static void lose_ferry(struct hub *hub)
{
    stream_close(&hub->stream);
    if (hub->ferry >= 0)
        close(hub->ferry);
    hub->ferry = -1;
    for (struct task *task = hub->tasks; task != NULL; task = task->next) {
        task->is_bound = false;
        task->says = 0;
    }
}

/* A new ferry takes the place of the old one: outside, the old one's stream was cut. */
static void take_ferry(struct hub *hub)
{
    struct packet packet;
    enum heard heard = receive_packet(hub->candidate, &packet);

    if (heard == HEARD_NOTHING)
        return;
    int link = hub->candidate;
    hub->candidate = -1;
    struct stream stream;
    if (heard != HEARD_PACKET || packet.count != 2 || !stream_open(&stream, packet.fds[0], packet.fds[1])) {
        close_packet(&packet);
        close(link);
        return;
    }
    packet.count = 0;
    lose_ferry(hub);
    hub->stream = stream;
    hub->ferry = link;
    hub->is_listing = true;
    hub->key_next = hub->tasks;
    hub->owes_pong = false;
}

/* Say which commands are kept: those whose owner is gone are abandoned then. */
static void list_keys(struct hub *hub)
{
    while (hub->is_listing) {
        const char *key = hub->key_next == NULL ? "" : hub->key_next->key;
        if (!stream_put(&hub->stream, KEY, 0, key, strlen(key), NULL, 0))
            return;
        hub->is_listing = hub->key_next != NULL;
        if (hub->key_next != NULL)
            hub->key_next = hub->key_next->next;
    }
}

static void say_all(struct hub *hub)
{
    bool again = hub->stream.in >= 0;

    while (again) { /* a piece of each in turn: none of them waits for another one's */
        again = false;
        list_keys(hub);
        if (hub->owes_pong && stream_put(&hub->stream, PONG, 0, NULL, 0, NULL, 0))
            hub->owes_pong = false;
        for (struct task *task = hub->tasks; task != NULL; task = task->next)
            again |= task->is_bound && task_say(hub, task);
        if (!stream_flush(&hub->stream)) {
            lose_ferry(hub);
            return;
        }
    }
}

static void hear_outside(struct hub *hub)
{
    struct frame frame;
    int got;

    if (!stream_fill(&hub->stream)) {
        lose_ferry(hub);
        return;
    }
    while ((got = stream_next(&hub->stream, &frame)) > 0) {
        if (frame.type == PING)
            hub->owes_pong = true;
        else if (!task_hear(hub, &frame))
            got = -1;
        if (got < 0)
            break;
    }
    if (got < 0)
        lose_ferry(hub);
}

static void watch_task(struct pollfd *watched, const struct task *task)
{
    bool has_input = task->taken.next < task->taken.end;
    short wanted = 0;

    watched[0] = (struct pollfd){.fd = task->minder, .events = POLLIN};
    for (int index = 0; index < OUTPUTS; index++) {
        const struct output *output = &task->outputs[index];
        wanted = window_free(&output->window) > 0 ? POLLIN : 0;
        if (index == 0 && task->is_pty && has_input)
            wanted |= POLLOUT;
        watched[1 + index] = (struct pollfd){.fd = wanted != 0 ? output->fd : -1, .events = wanted};
    }
    watched[3] = (struct pollfd){.fd = task->input, .events = has_input ? POLLOUT : 0}; /* and whether anybody reads */
}

static void serve_task(struct pollfd *watched, struct task *task)
{
    if (watched[0].revents != 0)
        task_hear_minder(task);
    if (task->is_pty && (watched[1].revents & POLLOUT) != 0)
        task_write_input(task);
    for (int index = 0; index < OUTPUTS; index++)
        if ((watched[1 + index].revents & ~POLLOUT) != 0 && window_free(&task->outputs[index].window) > 0)
            task_read_output(task, index);
    if (watched[3].revents != 0)
        task_write_input(task);
}

static void serve_tasks(struct hub *hub, struct pollfd *watched)
{
    struct task *next;

    for (struct task *task = hub->tasks; task != NULL; task = next, watched += WATCHED_PER_TASK) {
        next = task->next;
        serve_task(watched, task);
        if (task->is_abandoned && (task->minder < 0 || (task->is_empty && (task->has_ended || task->has_failed))))
            task_forget(hub, task);
    }
}

void hub_turn(struct hub *hub, int wake, int listener, int patience_ms, short *wake_events, short *listener_events)
{
    static struct pollfd *watched;
    static size_t space;
    size_t count = WATCHED_BESIDES;
    bool has_to_send = hub->stream.sending_begin < hub->stream.sending_end;

    for (struct task *task = hub->tasks; task != NULL; task = task->next) {
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
    watched[2] = (struct pollfd){.fd = hub->stream.in, .events = POLLIN};
    watched[3] = (struct pollfd){.fd = has_to_send ? hub->stream.out : -1, .events = POLLOUT};
    watched[4] = (struct pollfd){.fd = hub->ferry, .events = POLLIN};
    watched[5] = (struct pollfd){.fd = hub->candidate, .events = POLLIN};
    count = WATCHED_BESIDES;
    for (struct task *task = hub->tasks; task != NULL; task = task->next, count += WATCHED_PER_TASK)
        watch_task(watched + count, task);
    *wake_events = *listener_events = 0;
    if (poll(watched, count, patience_ms) < 0)
        return;
    *wake_events = watched[0].revents;
    *listener_events = watched[1].revents;
    serve_tasks(hub, watched + WATCHED_BESIDES); /* first: what follows may add some */
    if (watched[4].revents != 0)
        lose_ferry(hub);
    else if (watched[2].revents != 0)
        hear_outside(hub);
    if (watched[5].revents != 0)
        take_ferry(hub);
    say_all(hub);
}
