/* calls PORT PATH TOOL ARGUMENTS WANTED TOTAL: MCP tool calls over one keep-alive connection, one after the other.
 *
 * Does the handshake of revision 2025-11-25, then calls TOOL with ARGUMENTS (a JSON object) TOTAL times. Takes both
 * kinds of answers, JSON and server-sent events. A call has taken until its response is there, whole; the end of an
 * event stream that comes after it is waited for, not timed. Prints one JSON line: elapsed_ns of all, quantiles of
 * one, and how many answers were errors or had no WANTED in them. */
#include <strings.h>

#include "ws.h"

#define CAPACITY (1u << 20)

struct http {
    int fd, port;
    const char *path;
    char session[256];
    char buffer[CAPACITY];
    size_t length;      /* bytes read of this response */
    int64_t answered;   /* when the response message was there */
};

static void fill(struct http *http) {
    if (http->length == CAPACITY - 1) die("response longer than the buffer");
    ssize_t n;
    do n = read(http->fd, http->buffer + http->length, CAPACITY - 1 - http->length);
    while (n < 0 && errno == EINTR);
    if (n <= 0) die("the server closed the connection");
    http->length += (size_t)n;
    http->buffer[http->length] = 0;
}

/* The value of a header in the head that ends at `end`; NULL without one. */
static const char *header(const struct http *http, const char *end, const char *name) {
    for (const char *line = strstr(http->buffer, "\r\n"); line && line < end; line = strstr(line + 2, "\r\n"))
        if (!strncasecmp(line + 2, name, strlen(name)) && line[2 + strlen(name)] == ':') {
            const char *value = line + 3 + strlen(name);
            return value + strspn(value, " ");
        }
    return NULL;
}

/* The first event with a response in it is there, to its blank line. Notifications have no result. */
static int has_response_event(const char *body) {
    const char *result = strstr(body, "\"result\":");
    if (!result) result = strstr(body, "\"error\":");
    return result && (strstr(result, "\r\n\r\n") || strstr(result, "\n\n"));
}

/* Read the one response that is due; returns its status. The body begins at *body. */
static int receive(struct http *http, const char **body) {
    char *end;
    http->length = 0, http->answered = 0, http->buffer[0] = 0;
    while (!(end = strstr(http->buffer, "\r\n\r\n"))) fill(http);
    int status = atoi(http->buffer + strlen("HTTP/1.1 "));
    const char *session = header(http, end, "mcp-session-id"), *size = header(http, end, "content-length");
    const char *encoding = header(http, end, "transfer-encoding"), *type = header(http, end, "content-type");
    int has_events = type && !strncasecmp(type, "text/event-stream", 17);
    if (session) snprintf(http->session, sizeof http->session, "%.*s", (int)strcspn(session, "\r"), session);
    size_t start = (size_t)(end + 4 - http->buffer);
    *body = http->buffer + start;
    if (size) {
        while (http->length < start + strtoul(size, NULL, 10)) fill(http);
    } else if (encoding && !strncasecmp(encoding, "chunked", 7)) {
        /* The last chunk has no bytes (RFC 9112, section 7.1). What comes before it ends with a brace or blank lines. */
        while (http->length < start + 5 || memcmp(http->buffer + http->length - 5, "0\r\n\r\n", 5)) {
            if (has_events && !http->answered && has_response_event(*body)) http->answered = now_ns();
            fill(http);
        }
    }
    if (!http->answered) http->answered = now_ns();
    return status;
}

static void post(struct http *http, const char *body) {
    char request[8192];
    int n = snprintf(request, sizeof request,
                     "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                     "Accept: application/json, text/event-stream\r\n%s%s%sContent-Length: %zu\r\n\r\n%s",
                     http->path, http->port, http->session[0] ? "MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: " : "",
                     http->session, http->session[0] ? "\r\n" : "", strlen(body), body);
    if (n >= (int)sizeof request) die("request longer than the buffer");
    write_all(http->fd, request, (size_t)n);
}

static void shake_hands(struct http *http) {
    const char *body;
    post(http, "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\","
               "\"capabilities\":{},\"clientInfo\":{\"name\":\"calls\",\"version\":\"1\"}}}");
    if (receive(http, &body) != 200 || !http->session[0]) {
        fprintf(stderr, "initialize refused: %s\n", http->buffer);
        exit(3);
    }
    post(http, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    if (receive(http, &body) != 202) {
        fprintf(stderr, "initialized refused: %s\n", http->buffer);
        exit(3);
    }
}

int main(int argc, char **argv) {
    if (argc < 7) return fprintf(stderr, "usage: calls PORT PATH TOOL ARGUMENTS WANTED TOTAL\n"), 2;
    static struct http http;
    int total = atoi(argv[6]), failed = 0;
    int64_t *taken = calloc((size_t)total, sizeof *taken);
    http.port = atoi(argv[1]), http.path = argv[2];
    http.fd = tcp_connect(http.port);
    shake_hands(&http);
    int64_t began = now_ns();
    for (int i = 0; i < total; i++) {
        char text[4096];
        const char *body;
        snprintf(text, sizeof text,
                 "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\",\"arguments\":%s}}",
                 i + 1, argv[3], argv[4]);
        int64_t asked = now_ns();
        post(&http, text);
        int status = receive(&http, &body);
        taken[i] = http.answered - asked;
        failed += status != 200 || strstr(body, "\"isError\":true") || !strstr(body, "\"result\":") || !strstr(body, argv[5]);
    }
    int64_t elapsed = now_ns() - began;
    if (failed) fprintf(stderr, "the last answer: %s\n", http.buffer);
    qsort(taken, (size_t)total, sizeof *taken, by_value);
    printf("{\"elapsed_ns\":%lld,\"p50_ns\":%lld,\"p99_ns\":%lld,\"failed\":%d}\n", (long long)elapsed,
           (long long)quantile(taken, (size_t)total, 0.5), (long long)quantile(taken, (size_t)total, 0.99), failed);
    return 0;
}
