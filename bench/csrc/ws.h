/* A small WebSocket client (RFC 6455) for the measuring programs: blocking connect, masked sends,
 * and a reader that looks at frame headers only. It must never be what limits a measurement, so it
 * copies nothing but the tail of a frame that a read has cut. */
#ifndef BENCH_WS_H
#define BENCH_WS_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WS_CAPACITY (1u << 20)

struct ws {
    int fd;
    char *buffer;
    size_t start, end;   /* unread bytes lie in buffer[start..end) */
    size_t keep;         /* frames with a longer payload are skipped, not held */
    uint64_t skip;       /* payload bytes of a skipped frame still to come */
    uint64_t received;   /* bytes read from the socket after the handshake */
    uint64_t frames;     /* frames seen, skipped ones included */
};

struct ws_frame {
    int opcode;
    const char *payload; /* NULL for a skipped frame; valid until the next ws_fill */
    uint64_t length;
};

static inline void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "unexpected");
    exit(2);
}

static inline int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void write_all(int fd, const void *bytes, size_t length) {
    const char *at = bytes;
    while (length) {
        ssize_t sent = send(fd, at, length, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR) continue;
            die("send");
        }
        at += sent;
        length -= (size_t)sent;
    }
}

static inline int tcp_connect(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* Read once; returns what read(2) did. The buffer is moved only when a cut frame leaves no room. */
static inline ssize_t ws_fill(struct ws *ws) {
    if (ws->start == ws->end) {
        ws->start = ws->end = 0;
    } else if (ws->end > WS_CAPACITY / 2) {
        memmove(ws->buffer, ws->buffer + ws->start, ws->end - ws->start);
        ws->end -= ws->start;
        ws->start = 0;
    }
    if (ws->end == WS_CAPACITY) {
        errno = EMSGSIZE;
        die("frame longer than the buffer");
    }
    ssize_t n;
    do n = read(ws->fd, ws->buffer + ws->end, WS_CAPACITY - ws->end);
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        ws->end += (size_t)n;
        ws->received += (uint64_t)n;
    }
    return n;
}

/* Let a little more arrive after a short read. A reader that wakes for every frame takes the processor from
 * the very server it measures: on two cores that made websocketd 3.1x and the naive server 1.5x slower. Reads
 * longer than this do not wait, so a fast server is never held up. */
static inline void pace(ssize_t bytes) {
    if (bytes < 65536) usleep(300);
}

/* Send one masked frame. The mask is zero bytes: a legal mask, and no work that distorts a measurement. */
static inline void ws_send(struct ws *ws, int opcode, const char *payload, size_t length) {
    char header[14] = {(char)(0x80 | opcode)};
    size_t used = 2;
    if (length < 126) {
        header[1] = (char)(0x80 | length);
    } else if (length < 65536) {
        header[1] = (char)(0x80 | 126);
        header[2] = (char)(length >> 8), header[3] = (char)length;
        used = 4;
    } else {
        header[1] = (char)(0x80 | 127);
        for (int i = 0; i < 8; i++) header[2 + i] = (char)((uint64_t)length >> (56 - 8 * i));
        used = 10;
    }
    used += 4;
    char *frame = malloc(used + length); /* one send: a header alone would cost the server a wake-up */
    if (!frame) die("malloc");
    memcpy(frame, header, used);
    memcpy(frame + used, payload, length);
    write_all(ws->fd, frame, used + length);
    free(frame);
}

/* Take the next whole frame out of the buffer; 0 when more bytes are needed first. */
static inline int ws_next(struct ws *ws, struct ws_frame *frame) {
    if (ws->skip) {
        uint64_t have = ws->end - ws->start, take = ws->skip < have ? ws->skip : have;
        ws->start += take;
        ws->skip -= take;
        if (ws->skip) return 0;
    }
    const unsigned char *at = (const unsigned char *)ws->buffer + ws->start;
    size_t have = ws->end - ws->start, header = 2;
    if (have < 2) return 0;
    uint64_t length = at[1] & 127;
    if (length == 126) {
        if (have < 4) return 0;
        length = (uint64_t)at[2] << 8 | at[3];
        header = 4;
    } else if (length == 127) {
        if (have < 10) return 0;
        length = 0;
        for (int i = 2; i < 10; i++) length = length << 8 | at[i];
        header = 10;
    }
    if (length <= ws->keep && have < header + length) return 0;
    *frame = (struct ws_frame){at[0] & 15, (const char *)at + header, length};
    ws->start += header;
    ws->frames++;
    if (length > ws->keep) {
        frame->payload = NULL;
        ws->skip = length;
        return 1;
    }
    ws->start += length;
    if (frame->opcode == 9) ws_send(ws, 10, frame->payload, length);
    return 1;
}

static inline int frame_has(const struct ws_frame *frame, const char *text) {
    return frame->payload && memmem(frame->payload, frame->length, text, strlen(text)) != NULL;
}

/* The process of this connection has ended. Quotes inside output are escaped, so output never matches. */
static inline int frame_ends(const struct ws_frame *frame) {
    return frame->opcode == 8 || frame_has(frame, "\"process.completed\"") ||
           frame_has(frame, "\"process.closed\"");
}

/* Leave with the frame on stderr when it is an error response. */
static inline void check_error(const struct ws_frame *frame) {
    if (!frame_has(frame, "\"error\":{") && !frame_has(frame, "\"error\": {")) return;
    fprintf(stderr, "the server refused: %.*s\n", (int)frame->length, frame->payload);
    exit(3);
}

/* Connect, shake hands, and wait for the greeting notification when the server sends one. */
static inline void ws_open(struct ws *ws, int port, const char *path, size_t keep, int greeting) {
    char request[512];
    memset(ws, 0, sizeof *ws);
    ws->fd = tcp_connect(port);
    ws->keep = keep;
    ws->buffer = malloc(WS_CAPACITY);
    if (!ws->buffer) die("malloc");
    int n = snprintf(request, sizeof request,
                     "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
                     path, port);
    write_all(ws->fd, request, (size_t)n);
    char *end = NULL;
    while (!end) {
        if (ws_fill(ws) <= 0) die("handshake");
        end = memmem(ws->buffer, ws->end, "\r\n\r\n", 4);
    }
    if (strncmp(ws->buffer, "HTTP/1.1 101", 12)) {
        fprintf(stderr, "handshake refused: %.*s\n", (int)ws->end, ws->buffer);
        exit(3);
    }
    ws->start = (size_t)(end + 4 - ws->buffer);
    struct ws_frame frame;
    while (greeting && !ws_next(ws, &frame))
        if (ws_fill(ws) <= 0) die("greeting");
    if (greeting) check_error(&frame);
    ws->received = ws->frames = 0;
}

static inline int by_value(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* The value below which `share` of the sorted samples lie; 0 without samples. */
static inline int64_t quantile(const int64_t *sorted, size_t count, double share) {
    return count ? sorted[(size_t)(share * (double)(count - 1))] : 0;
}

#endif
