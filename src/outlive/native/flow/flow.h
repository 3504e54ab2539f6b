/* What the two files of this library share: a stream, the two of a process, all of them, and one move. */
#ifndef OUTLIVE_FLOW_FLOW_H
#define OUTLIVE_FLOW_FLOW_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    ENDED = -1000, /* results beside negative error numbers */
    NEEDS_LOG = -1001,
    USUAL_PIPE_BYTES = 65536,
    BIG_PIPE_BYTES = 1 << 20, /* the most an unprivileged process may ask for (pipe(7), pipe-max-size) */
};

struct stream {
    loff_t offset;
    int64_t last_ns;
    int source, log;
    int fill, drain; /* its relay's ends, -1 without one */
    int pipe_bytes;
    uint8_t moves; /* in a row, none after a silence */
    uint8_t place; /* how it is watched (flow.c) */
    bool is_terminal;
};

struct output { /* of one process: stdout and stderr */
    int64_t run_ns;
    int idx, run_stream;
    int next; /* the next free one, while this one is free */
    bool waits; /* for the log of one of them: the other one's later bytes must not come before it */
    struct stream streams[2];
};

struct report { /* what Python must know of a stream: 2 * n is stdout, 2 * n + 1 stderr of the n-th process */
    int32_t stream, result; /* bytes moved, or a negative error number, ENDED, NEEDS_LOG */
    int64_t offset;
};

struct flow {
    int64_t now_ns, until_ns, swept_ns;
    int watched[3]; /* epoll objects, by how their streams are watched */
    int timer;
    int used, most, free;
    const char *armed, *token; /* a failpoint and the file that it consumes, NULL without one */
    bool is_urgent; /* a pipe was more than half full, or the turn was cut short: no rest */
    struct output outputs[];
};

/* Return how long ago that was; for ever where the clock was set back. */
static inline uint64_t since(const struct flow *flow, int64_t before_ns)
{
    return (uint64_t)(flow->now_ns - before_ns);
}

/* Move what a stream has, at most a big pipe's content. */
struct report move_stream(struct flow *flow, int stream);

/* Return how many bytes wait in a stream's source and relay together, or a negative error number. */
int unread_of(const struct stream *it);

#endif
