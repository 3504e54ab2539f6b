/* Moves output from pipes and terminals into logs, for the supervisor's loop: a library that Python loads.

   splice(2) takes and appends in one system call, so a SIGKILL cannot fall between the two. Python calls
   `flow_turn` when the descriptor of `flow_new` is readable, and hears what it must know; what that means
   (limits, doorbells, ends, full disks) is decided there (keeper/supervisor/output/pump.py). No thread, no
   allocation, no clock but for the length of a turn.

   A stream is watched in one of two epoll objects. An eager one is moved as soon as it brings something:
   terminals, and streams that were silent for a while. A stream that brings something all the time is busy:
   busy streams are moved together, and after each turn they rest, for half a millisecond or, where many were
   moved, a little longer. So turns, and doorbells that follow, have a bound however many writes there are, and
   the first bytes after quiet wait for nothing.

   Some streams have a relay, a second pipe between source and log that the shim holds as well. A terminal
   always has one: splice(2) does not move from a terminal into a file. A pipe gets one when it brings very
   much (decision 130): while splice copies from a pipe into a file it holds the pipe's lock, on which a writer
   spins; from pipe to pipe it moves whole pages in no time, and the copying happens while the writer writes.
   Bytes in a relay are older than those in its source. No event tells of them, so a move leaves none there,
   unless it fails.

   It is linked with no C library: the one that Python runs on has what is called here, be it glibc or musl. */
#include "flow.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    VERSION = 1,
    MOST_EVENTS = 256,
    BUSY_AFTER = 16, /* moves in a row, none after a silence: then a stream is busy */
    MUCH_BYTES = 32 * 1024, /* half a usual pipe in one move: the pipe is made bigger */
    REST_NS = 500000, /* far below what a person could notice */
    FEW = 8,
    REST_EACH_NS = 25000, /* for each stream beyond a few that was moved: a server takes 10 us for each of its lines */
    MOST_REST_NS = 4000000,
};
static const uint64_t SILENCE_NS = 20000000; /* a stream that was silent for so long is not busy any more */
static const int64_t TURN_NS = 2000000; /* then the rest of the loop has its turn */

enum { NOWHERE, EAGER, BUSY }; /* how a stream is watched; the eager ones' epoll object holds the other one */
enum { TIMER = -1, BUSY_ONES = -2 }; /* what its events tell of, beside streams */

static struct stream *stream_of(struct flow *flow, int stream)
{
    return &flow->outputs[stream / 2].streams[stream % 2];
}

static int64_t monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Return 0, or a negative error number: the stream is watched as before, or was closed while watched. */
static int set_place(struct flow *flow, int stream, int place)
{
    struct stream *it = stream_of(flow, stream);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint32_t)stream};
    int before = it->place;

    if (before == place)
        return 0;
    /* First watched anew: a kernel that refuses leaves the stream where it is. */
    if (place != NOWHERE && epoll_ctl(flow->watched[place], EPOLL_CTL_ADD, it->source, &event) != 0)
        return -errno;
    it->place = place;
    return before == NOWHERE || epoll_ctl(flow->watched[before], EPOLL_CTL_DEL, it->source, 0) == 0 ? 0 : -errno;
}

/* Note what a stream brought, and decide how it is watched from now on. */
static void note(struct flow *flow, int stream, int moved)
{
    struct stream *it = stream_of(flow, stream);
    bool was_silent = since(flow, it->last_ns) >= SILENCE_NS;

    it->last_ns = flow->now_ns;
    if (it->is_terminal)
        return;
    if (moved >= MUCH_BYTES && it->pipe_bytes == USUAL_PIPE_BYTES) {
        int grown = fcntl(it->source, F_SETPIPE_SZ, BIG_PIPE_BYTES);

        it->pipe_bytes = grown > 0 ? grown : USUAL_PIPE_BYTES - 1; /* refused (pipe-user-pages-soft): asked once */
    }
    flow->is_urgent |= moved > it->pipe_bytes / 2;
    it->moves = was_silent ? 0 : it->moves < BUSY_AFTER ? it->moves + 1 : BUSY_AFTER;
    if (it->place == EAGER && it->moves == BUSY_AFTER)
        set_place(flow, stream, BUSY);
}

/* Move a stream that the kernel has named, and before it the other one of its process if that one rests: its
   bytes are older, mostly. Where a pipe's last writer is gone, and that was all, it ends. Return how many
   reports there are now: at most two for each. */
static int take(struct flow *flow, const struct epoll_event *event, struct report *reports, int count)
{
    int stream = (int)(uint32_t)event->data.u64;
    struct stream *it = stream_of(flow, stream);
    struct report report;

    if (it->place == EAGER && stream_of(flow, stream ^ 1)->place == BUSY) {
        struct epoll_event other = {.data.u64 = (uint32_t)(stream ^ 1)};

        count = take(flow, &other, reports, count);
    }
    if (flow->outputs[stream / 2].waits)
        return count; /* the kernel names it again in the next turn */
    report = move_stream(flow, stream);
    flow->outputs[stream / 2].waits = report.result == NEEDS_LOG;
    if (report.result != 0)
        reports[count++] = report;
    if (report.result > 0)
        note(flow, stream, report.result);
    if (report.result > 0 && event->events & EPOLLHUP && !it->is_terminal && unread_of(it) == 0)
        reports[count++] = (struct report){.stream = stream, .result = ENDED, .offset = it->offset};
    return count;
}

/* Take the ready streams of one epoll object. Return how many reports there are now. */
static int take_all(struct flow *flow, const struct epoll_event *events, int ready, struct report *reports, int count)
{
    for (int i = 0; i < ready; i++) {
        if ((int)(uint32_t)events[i].data.u64 < 0)
            continue; /* TIMER or BUSY_ONES */
        count = take(flow, &events[i], reports, count);
        if (count > 0 && reports[count - 1].result >= MUCH_BYTES && monotonic_ns() > flow->until_ns) {
            flow->is_urgent = true; /* the others are still ready, and are named again */
            break;
        }
    }
    return count;
}

static void arm_busy_ones(const struct flow *flow)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = (uint32_t)BUSY_ONES};

    epoll_ctl(flow->watched[EAGER], EPOLL_CTL_MOD, flow->watched[BUSY], &event);
}

/* Watch busy streams that have become silent as eager ones again: their next bytes wait for nothing. */
static void sweep(struct flow *flow)
{
    flow->swept_ns = flow->now_ns;
    for (int stream = 0; stream < 2 * flow->used; stream++) {
        struct stream *it = stream_of(flow, stream);

        if (it->place == BUSY && since(flow, it->last_ns) >= SILENCE_NS) {
            it->moves = 0;
            set_place(flow, stream, EAGER);
        }
    }
}

EXPORT int flow_version(void) { return VERSION; }

/* Make a flow for at most so many processes at a time; NULL if the kernel refuses. The words stay the caller's. */
EXPORT struct flow *flow_new(int most, const char *armed, const char *token)
{
    struct epoll_event timer = {.events = EPOLLIN | EPOLLET, .data.u64 = (uint32_t)TIMER};
    struct epoll_event busy = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = (uint32_t)BUSY_ONES};
    /* Pages are given when they are touched, and low numbers are used first. */
    struct flow *flow = mmap(0, sizeof *flow + (size_t)most * sizeof flow->outputs[0], PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (flow == MAP_FAILED)
        return 0;
    flow->most = most;
    flow->free = -1;
    flow->armed = armed;
    flow->token = token;
    flow->watched[EAGER] = epoll_create1(EPOLL_CLOEXEC);
    flow->watched[BUSY] = epoll_create1(EPOLL_CLOEXEC);
    flow->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (epoll_ctl(flow->watched[EAGER], EPOLL_CTL_ADD, flow->timer, &timer) != 0 ||
        epoll_ctl(flow->watched[EAGER], EPOLL_CTL_ADD, flow->watched[BUSY], &busy) != 0)
        return 0;
    return flow;
}

/* Return the descriptor that is readable when a turn is due. */
EXPORT int flow_descriptor(const struct flow *flow) { return flow->watched[EAGER]; }

/* Return the number of a new process's output, -1 if there are too many. `idx` takes the records of runs; the
   log of each stream holds so many bytes. */
EXPORT int flow_open(struct flow *flow, int idx, int64_t out, int64_t err)
{
    int number = flow->free >= 0 ? flow->free : flow->used < flow->most ? flow->used++ : -1;
    struct output *output;

    if (number < 0)
        return -1;
    output = &flow->outputs[number];
    if (number == flow->free)
        flow->free = output->next;
    *output = (struct output){.idx = idx, .run_stream = -1};
    output->streams[0].offset = out;
    output->streams[1].offset = err;
    return number;
}

/* Set where a stream's bytes come from and go to; -1 where there is no log or no relay yet. */
EXPORT void flow_set(struct flow *flow, int stream, int source, int log, int fill, int drain, int is_terminal)
{
    struct stream *it = stream_of(flow, stream);

    flow->outputs[stream / 2].waits = false;
    it->source = source;
    it->log = log;
    it->fill = fill;
    it->drain = drain;
    it->is_terminal = is_terminal != 0;
    if (it->pipe_bytes == 0)
        it->pipe_bytes = USUAL_PIPE_BYTES;
}

/* Move a stream as soon as it brings something, or not any more: before a descriptor of it is closed. */
EXPORT int flow_watch(struct flow *flow, int stream, int is_watched)
{
    flow->outputs[stream / 2].waits = false;
    stream_of(flow, stream)->moves = 0;
    return set_place(flow, stream, is_watched ? EAGER : NOWHERE);
}

/* Let go of a process's output; its number is used again. */
EXPORT void flow_close(struct flow *flow, int number)
{
    for (int index = 0; index < 2; index++)
        set_place(flow, 2 * number + index, NOWHERE);
    flow->outputs[number].next = flow->free;
    flow->free = number;
}

/* Move what one stream has now. */
EXPORT void flow_move(struct flow *flow, int stream, int64_t now_ns, struct report *report)
{
    flow->now_ns = now_ns;
    *report = move_stream(flow, stream);
}

/* Move each ready stream once. Return how many reports were written; `reports` has room for 2048. */
EXPORT int flow_turn(struct flow *flow, int64_t now_ns, struct report *reports)
{
    struct epoll_event events[MOST_EVENTS];
    int ready = epoll_wait(flow->watched[EAGER], events, MOST_EVENTS, 0), count, busy;
    bool is_due = false;

    flow->now_ns = now_ns;
    flow->until_ns = monotonic_ns() + TURN_NS;
    flow->is_urgent = false;
    for (int i = 0; i < ready; i++)
        is_due |= (int)(uint32_t)events[i].data.u64 < 0; /* no bit above 31 is set in a stream's number */
    count = take_all(flow, events, ready, reports, 0);
    if (!is_due)
        return count;
    /* Here the busy ones are not watched: their event, which comes once, or the end of a rest led here. */
    busy = epoll_wait(flow->watched[BUSY], events, MOST_EVENTS, 0);
    count = take_all(flow, events, busy, reports, count);
    if (since(flow, flow->swept_ns) >= SILENCE_NS)
        sweep(flow);
    if (busy > 0 && !flow->is_urgent) {
        long most = REST_NS + (busy > FEW ? (long)(busy - FEW) * REST_EACH_NS : 0);
        struct itimerspec rest = {.it_value.tv_nsec = most < MOST_REST_NS ? most : MOST_REST_NS};

        timerfd_settime(flow->timer, 0, &rest, 0);
    } else {
        arm_busy_ones(flow);
    }
    return count;
}
