/* One move of one stream: taking and appending are one system call, and the record of a run comes first. */
#include "flow.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { RELAY_BYTES = 128 * 1024 }; /* with so much waiting at once, more follows soon */
static const uint64_t RUN_NS = 100000000; /* 100 ms: the precision of times in a log */

/* Places where a test may kill this process, as src/outlive/kernel/failpoints.py has them. */
static void hit(const struct flow *flow, const char *name)
{
    if (flow->armed != 0 && strcmp(name, flow->armed) == 0 && unlink(flow->token) == 0)
        kill(getpid(), SIGKILL);
}

static bool has_no_writer(int source)
{
    struct pollfd pipe = {.fd = source}; /* POLLHUP is always reported (poll(2)) */

    return poll(&pipe, 1, 0) > 0;
}

/* Return how many bytes wait in a pipe or terminal, or a negative error number. */
static int unread_bytes(int fd)
{
    int unread;

    return ioctl(fd, FIONREAD, &unread) != 0 ? -errno : unread;
}

static long splice_bytes(int source, int target, size_t most, loff_t *offset)
{
    ssize_t moved = splice(source, 0, target, offset, most, SPLICE_F_NONBLOCK);

    return moved < 0 ? -errno : moved;
}

int unread_of(const struct stream *it)
{
    int here = unread_bytes(it->source);
    int relayed = here < 0 || it->drain < 0 ? 0 : unread_bytes(it->drain);

    return here < 0 ? here : relayed < 0 ? relayed : here + relayed;
}

struct record { /* of a run, in `idx` (protocols/frames.py) */
    int64_t time_ns, start, offset, stream;
};

/* Write the record of a new run ahead of its bytes: without it they would have no time and no place among the
   streams. Return 1 if a move may follow, 0 if nothing is there, or a negative error number. */
static int begin_run(struct flow *flow, struct output *output, int index)
{
    const struct stream *it = &output->streams[index];
    struct record record = {flow->now_ns, output->streams[0].offset + output->streams[1].offset, it->offset, index};

    if (!it->is_terminal) {
        int unread = unread_of(it);

        if (unread < 0)
            return unread;
        if (unread == 0) {
            if (!has_no_writer(it->source))
                return 0; /* bytes that come after this look must come with a record of their own */
            unread = unread_of(it); /* asked again: the last writer may have written before it closed */
            if (unread <= 0)
                return unread < 0 ? unread : 1; /* the end of a stream begins no run */
        }
    }
    if (write(output->idx, &record, sizeof record) < 0)
        return -errno;
    hit(flow, "pump.run_begun");
    output->run_stream = index;
    output->run_ns = flow->now_ns;
    return 1;
}

/* Return how many bytes wait in the relay, after filling it from the source if it was empty; 0: a pipe has
   little, which is moved directly. Or a negative error number: EAGAIN of a terminal that has nothing, EIO of
   one whose other side is not open any more (pty(7)). */
static long fill_relay(const struct flow *flow, const struct stream *it)
{
    long waiting = unread_bytes(it->drain);

    if (waiting != 0)
        return waiting;
    if (it->is_terminal) {
        waiting = splice_bytes(it->source, it->fill, USUAL_PIPE_BYTES, 0);
        hit(flow, "pump.relayed");
    } else if (unread_bytes(it->source) >= RELAY_BYTES) {
        waiting = splice_bytes(it->source, it->fill, BIG_PIPE_BYTES, 0);
        hit(flow, "relay.filled");
    }
    return waiting;
}

struct report move_stream(struct flow *flow, int stream)
{
    struct output *output = &flow->outputs[stream / 2];
    struct stream *it = &output->streams[stream % 2];
    struct report report = {.stream = stream, .offset = it->offset};
    int from = it->source;
    long relayed = 0, moved, all = 0;

    if (it->log < 0) {
        bool is_over = has_no_writer(it->source); /* asked before counting: so no byte can come in between */
        int unread = unread_bytes(it->source);

        report.result = unread < 0 ? unread : unread > 0 ? NEEDS_LOG : is_over ? ENDED : 0;
        return report;
    }
    if (output->run_stream != stream % 2 || since(flow, output->run_ns) >= RUN_NS) {
        report.result = begin_run(flow, output, stream % 2);
        if (report.result <= 0)
            return report;
    }
    report.result = 0;
    if (it->drain >= 0) {
        relayed = fill_relay(flow, it);
        if (relayed < 0) {
            report.result = relayed == -EAGAIN ? 0 : (int)relayed;
            return report;
        }
        if (relayed > 0 || it->is_terminal)
            from = it->drain;
    }
    do { /* once, but where a file system takes less than the relay has */
        moved = splice_bytes(from, it->log, BIG_PIPE_BYTES, &it->offset);
        if (moved > 0) {
            hit(flow, "pump.moved");
            all += moved;
        }
    } while (moved > 0 && all < relayed);
    report.offset = it->offset;
    report.result = moved > 0 ? (int)all : moved == 0 ? ENDED : moved == -EAGAIN ? (int)all : (int)moved;
    return report;
}
