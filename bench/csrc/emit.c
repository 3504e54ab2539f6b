/* What the measured commands run.
 *
 * emit stamps RATE COUNT [BURST]
 *                           RATE lines "T<19 digits>" a second, each in a write of its own: CLOCK_MONOTONIC ns, just
 *                           before it. BURST of them (1) follow each other at once, then it sleeps: a sleep costs some
 *                           20 us of a virtual machine's processor, and a hundred writers must not need all of it
 * emit fill BYTES WIDTH     numbered lines of WIDTH bytes, BYTES in all (a multiple of WIDTH), as fast as they
 *                           are taken */
#include "ws.h"

static void emit(const char *bytes, size_t length) {
    while (length) {
        ssize_t n = write(1, bytes, length);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) die("write");
        bytes += n;
        length -= (size_t)n;
    }
}

static void stamps(long rate, long count, long burst) {
    int64_t step = 1000000000 / rate, due = now_ns();
    char line[32];
    for (long i = 0; i < count; i++) {
        due += step;
        struct timespec t = {.tv_sec = due / 1000000000, .tv_nsec = due % 1000000000};
        if (i % burst == 0) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        int n = snprintf(line, sizeof line, "T%019lld\n", (long long)now_ns());
        emit(line, (size_t)n);
    }
}

/* Add one to the 19 decimal digits at `digits`. */
static void increment(char *digits) {
    for (int i = 18; i >= 0; i--) {
        if (digits[i]++ != '9') return;
        digits[i] = '0';
    }
}

static void fill(uint64_t total, size_t width) {
    static char block[1 << 16];
    char number[20] = "0000000000000000000";
    size_t lines = sizeof block / width;
    memset(block, '.', sizeof block);
    for (size_t i = 0; i < lines; i++) block[(i + 1) * width - 1] = '\n';
    for (uint64_t done = 0; done < total;) {
        size_t n = 0;
        for (; n < lines && done + n * width < total; n++) {
            increment(number);
            memcpy(block + n * width, number, 19);
        }
        emit(block, n * width);
        done += n * width;
    }
}

int main(int argc, char **argv) {
    if ((argc == 4 || argc == 5) && !strcmp(argv[1], "stamps")) {
        stamps(atol(argv[2]), atol(argv[3]), argc == 5 ? atol(argv[4]) : 1);
    } else if (argc == 4 && !strcmp(argv[1], "fill") && atol(argv[3]) >= 20 && atol(argv[3]) <= 65536) {
        fill(strtoull(argv[2], NULL, 10), (size_t)atol(argv[3]));
    } else {
        return fprintf(stderr, "usage: emit stamps RATE COUNT [BURST] | emit fill BYTES WIDTH\n"), 2;
    }
    return 0;
}
