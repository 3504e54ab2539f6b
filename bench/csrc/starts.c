/* starts PORT PATH TEXT CONNECTIONS TOTAL: execute -> process.completed, CONNECTIONS at a time.
 *
 * Each connection sends TEXT again as soon as its process has completed, until TOTAL have. Prints one
 * JSON line: elapsed_ns of all, quantiles of one, and how many did not end with exit code 0. */
#include <sys/epoll.h>

#include "ws.h"

struct lane {
    struct ws ws;
    int64_t began;
};

/* 1 when the frame carries "exit_code": 0. */
static int succeeded(const struct ws_frame *frame) {
    const char *key = "\"exit_code\":", *end = frame->payload + frame->length;
    const char *at = memmem(frame->payload, frame->length, key, strlen(key));
    if (!at) return 0;
    at += strlen(key);
    while (at < end && *at == ' ') at++;
    return end - at >= 2 && at[0] == '0' && (at[1] < '0' || at[1] > '9');
}

static void send_next(struct lane *lane, const char *text, int *unsent) {
    if (*unsent <= 0) return;
    --*unsent;
    lane->began = now_ns();
    ws_send(&lane->ws, 1, text, strlen(text));
}

int main(int argc, char **argv) {
    if (argc < 6) return fprintf(stderr, "usage: starts PORT PATH TEXT CONNECTIONS TOTAL\n"), 2;
    int count = atoi(argv[4]), total = atoi(argv[5]), unsent = total, done = 0, failed = 0;
    int poller = epoll_create1(EPOLL_CLOEXEC);
    struct lane *lanes = calloc((size_t)count, sizeof *lanes);
    int64_t *taken = calloc((size_t)total, sizeof *taken);
    for (int i = 0; i < count; i++) {
        ws_open(&lanes[i].ws, atoi(argv[1]), argv[2], WS_CAPACITY - 16, 1);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &lanes[i]};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, lanes[i].ws.fd, &event)) die("epoll_ctl");
    }
    int64_t began = now_ns();
    for (int i = 0; i < count; i++) send_next(&lanes[i], argv[3], &unsent);
    while (done < total) {
        struct epoll_event events[64];
        int n = epoll_wait(poller, events, 64, -1);
        for (int i = 0; i < n; i++) {
            struct lane *lane = events[i].data.ptr;
            struct ws_frame frame;
            if (ws_fill(&lane->ws) <= 0) die("read");
            while (ws_next(&lane->ws, &frame)) {
                check_error(&frame);
                if (!frame_has(&frame, "\"process.completed\"")) continue;
                taken[done++] = now_ns() - lane->began;
                failed += !succeeded(&frame);
                send_next(lane, argv[3], &unsent);
            }
        }
    }
    int64_t elapsed = now_ns() - began;
    qsort(taken, (size_t)total, sizeof *taken, by_value);
    printf("{\"elapsed_ns\":%lld,\"p50_ns\":%lld,\"p99_ns\":%lld,\"failed\":%d}\n", (long long)elapsed,
           (long long)quantile(taken, (size_t)total, 0.5), (long long)quantile(taken, (size_t)total, 0.99), failed);
    return 0;
}
