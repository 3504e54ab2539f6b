/* sink PORT PATH TEXT [raw] [greeting] [paced]: send one request, read its whole answer at full speed.
 *
 * Prints one JSON line: elapsed_ns from request to end, first_ns to the first output, bytes on the
 * wire, frames. With `raw` there is no WebSocket: TEXT and a newline go out, everything up to
 * end-of-file comes back (the splice floor, read by the same loop). */
#include "ws.h"

static void report(int64_t began, int64_t first, uint64_t bytes, uint64_t frames) {
    printf("{\"elapsed_ns\":%lld,\"first_ns\":%lld,\"wire_bytes\":%llu,\"frames\":%llu}\n",
           (long long)(now_ns() - began), (long long)(first - began), (unsigned long long)bytes,
           (unsigned long long)frames);
}

static void run_raw(int port, const char *text) {
    static char buffer[WS_CAPACITY];
    int fd = tcp_connect(port);
    uint64_t bytes = 0;
    int64_t first = 0, began = now_ns();
    write_all(fd, text, strlen(text));
    write_all(fd, "\n", 1);
    for (;;) {
        ssize_t n = read(fd, buffer, sizeof buffer);
        if (n < 0) die("read");
        if (!first) first = now_ns();
        if (!n) break;
        bytes += (uint64_t)n;
    }
    report(began, first, bytes, 0);
}

static int is_output(const struct ws_frame *frame, int greeting) {
    /* Long frames are skipped unread, and only output is that long; peers without a greeting send nothing else. */
    return !frame->payload || frame->opcode == 2 || (frame->opcode == 1 && !greeting) ||
           frame_has(frame, "\"process.output\"");
}

static void run_ws(int port, const char *path, const char *text, int greeting, int paced) {
    struct ws ws;
    struct ws_frame frame, last;
    int64_t first = 0;
    ws_open(&ws, port, path, 4096, greeting);
    int64_t began = now_ns();
    ws_send(&ws, 1, text, strlen(text));
    for (int ended = 0; !ended;) {
        ssize_t n = ws_fill(&ws);
        if (n < 0 && errno != ECONNRESET) die("read");
        if (n <= 0) break;
        last = (struct ws_frame){0};
        while (ws_next(&ws, &frame)) {
            if (frame.opcode <= 8) last = frame;
            if (first) continue;
            check_error(&frame);
            if (is_output(&frame, greeting)) first = now_ns();
        }
        /* Only the last frame of a read can end the stream: nothing follows a completion. */
        ended = frame_ends(&last);
        if (!ended && paced) pace(n);
    }
    report(began, first ? first : now_ns(), ws.received, ws.frames);
}

int main(int argc, char **argv) {
    int raw = 0, greeting = 0, paced = 0;
    if (argc < 4) return fprintf(stderr, "usage: sink PORT PATH TEXT [raw] [greeting] [paced]\n"), 2;
    for (int i = 4; i < argc; i++) {
        raw |= !strcmp(argv[i], "raw");
        greeting |= !strcmp(argv[i], "greeting");
        paced |= !strcmp(argv[i], "paced");
    }
    if (raw)
        run_raw(atoi(argv[1]), argv[3]);
    else
        run_ws(atoi(argv[1]), argv[2], argv[3], greeting, paced);
    return 0;
}
