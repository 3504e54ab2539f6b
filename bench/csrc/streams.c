/* streams PORT PATH TEXT COUNT WARM_MS MEASURE_MS [greeting]: latency of COUNT streams at once.
 *
 * Every connection sends TEXT, whose command writes lines "T<19 digits>" (CLOCK_MONOTONIC, ns). Prints
 * "begin" when all streams have spoken and WARM_MS have passed, "end" after MEASURE_MS, then one JSON
 * line: quantiles of (time of the read - time in the line) over the lines read in between. */
#include <sys/epoll.h>

#include "ws.h"

struct samples {
    int64_t *at;
    size_t count, capacity;
};

static void add(struct samples *samples, int64_t value) {
    if (samples->count == samples->capacity) {
        samples->capacity = samples->capacity ? samples->capacity * 2 : 1 << 20;
        samples->at = realloc(samples->at, samples->capacity * sizeof *samples->at);
        if (!samples->at) die("realloc");
    }
    samples->at[samples->count++] = value;
}

/* The stamp that starts at `at` ('T' and 19 digits), or -1. */
static int64_t stamp(const char *at, const char *end) {
    int64_t value = 0;
    if (end - at < 20) return -1;
    for (int i = 1; i < 20; i++) {
        if (at[i] < '0' || at[i] > '9') return -1;
        value = value * 10 + (at[i] - '0');
    }
    return value;
}

/* Add the latency of every stamp in a frame, and return how many there were. */
static size_t collect(const struct ws_frame *frame, int64_t now, struct samples *samples) {
    const char *at = frame->payload, *end = at + frame->length;
    size_t found = 0;
    while (at && (at = memchr(at, 'T', (size_t)(end - at)))) {
        int64_t value = stamp(at, end);
        at++;
        if (value < 0) continue;
        at += 19;
        found++;
        if (samples) add(samples, now - value);
    }
    return found;
}

struct run {
    struct ws *streams;
    char *spoken;
    int count, silent, ended, poller;
    int64_t began, deadline, warm_ns, measure_ns;
    uint64_t frames;
    struct samples samples;
};

static void read_stream(struct run *run, int index) {
    struct ws *ws = &run->streams[index];
    struct ws_frame frame;
    ssize_t n = ws_fill(ws);
    if (n < 0) die("read");
    int64_t now = now_ns();
    int measuring = run->began && now >= run->began;
    if (!n) {
        epoll_ctl(run->poller, EPOLL_CTL_DEL, ws->fd, NULL);
        run->ended++;
        return;
    }
    while (ws_next(ws, &frame)) {
        size_t found = collect(&frame, now, measuring ? &run->samples : NULL);
        if (!found) check_error(&frame);
        if (measuring && found) run->frames++;
        if (!found || run->spoken[index]) continue;
        run->spoken[index] = 1;
        run->silent--;
    }
}

static void loop(struct run *run) {
    struct epoll_event events[128];
    int announced = 0;
    for (;;) {
        int n = epoll_wait(run->poller, events, 128, 100);
        for (int i = 0; i < n; i++) read_stream(run, (int)events[i].data.u32);
        int64_t now = now_ns();
        if (!run->began && !run->silent) {
            run->began = now + run->warm_ns;
            run->deadline = run->began + run->measure_ns;
        }
        if (run->began && !announced && now >= run->began) {
            announced = 1;
            puts("begin");
            fflush(stdout);
        }
        if ((run->deadline && now >= run->deadline) || run->ended == run->count) break;
    }
    puts("end");
    fflush(stdout);
}

static void report(struct run *run) {
    struct samples *s = &run->samples;
    qsort(s->at, s->count, sizeof *s->at, by_value);
    printf("{\"lines\":%zu,\"frames\":%llu,\"p50_ns\":%lld,\"p90_ns\":%lld,\"p99_ns\":%lld,\"max_ns\":%lld}\n",
           s->count, (unsigned long long)run->frames, (long long)quantile(s->at, s->count, 0.5),
           (long long)quantile(s->at, s->count, 0.9), (long long)quantile(s->at, s->count, 0.99),
           (long long)quantile(s->at, s->count, 1.0));
}

int main(int argc, char **argv) {
    if (argc < 7) return fprintf(stderr, "usage: streams PORT PATH TEXT COUNT WARM_MS MEASURE_MS [greeting]\n"), 2;
    struct run run = {.count = atoi(argv[4]), .poller = epoll_create1(EPOLL_CLOEXEC)};
    run.silent = run.count;
    run.warm_ns = atoll(argv[5]) * 1000000;
    run.measure_ns = atoll(argv[6]) * 1000000;
    run.streams = calloc((size_t)run.count, sizeof *run.streams);
    run.spoken = calloc((size_t)run.count, 1);
    for (int i = 0; i < run.count; i++) {
        ws_open(&run.streams[i], atoi(argv[1]), argv[2], WS_CAPACITY - 16, argc > 7);
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        if (epoll_ctl(run.poller, EPOLL_CTL_ADD, run.streams[i].fd, &event)) die("epoll_ctl");
    }
    for (int i = 0; i < run.count; i++) ws_send(&run.streams[i], 1, argv[3], strlen(argv[3]));
    loop(&run);
    report(&run);
    return 0;
}
