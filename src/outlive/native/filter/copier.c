/* The copier is no stage of the shell's: it must not be noticed. It holds nothing but its two pipes and the log; when the
   filter is gone it goes, and its own pipe breaks for the writer as the filter's would have; SIGPIPE may kill it. */
#include "copier.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "../common/kernel.h"

enum {
    INPUT = 0,
    OUTPUT = 1,
    LOG = 2,
    MOST_BYTES = 1 << 20, /* in one call; a pipe holds 64 KiB, and up to this much when its owner asked for it */
    PATIENT_BYTES = 256 << 10, /* of both pipes where it does not show: more gains nothing */
    MOST_SLOTS = 16,      /* of a pipe as the shell makes it (pipe(7)) */
    /* Nanoseconds between looks at what a filter has not read yet: at first about as long as it takes to read a little, at
       last so long that looking costs nothing. */
    FIRST_REST_NS = 50 * 1000,
    LAST_REST_NS = 5 * 1000 * 1000,
};

/* Wait until `events` are true of a pipe's end, or the filter is gone. Returns whether the filter is there. */
static bool wait_for(int fd, short events)
{
    struct pollfd ends[2] = {{.fd = fd, .events = events}, {.fd = OUTPUT}};

    for (;;) {
        if (poll(ends, 2, -1) < 0) {
            if (errno == EINTR)
                continue;
            return false;
        }
        if ((ends[1].revents & POLLERR) != 0 || (fd == OUTPUT && (ends[0].revents & POLLERR) != 0))
            return false;
        if (ends[0].revents != 0)
            return true;
    }
}

/* Duplicate what lies in the input; it stays there. Returns as tee(2). */
static ssize_t duplicate(int output)
{
    for (;;) {
        ssize_t count = tee(INPUT, output, MOST_BYTES, 0);
        if (count >= 0 || errno != EINTR)
            return count;
    }
}

/* The filter reads to the end: hand on as much as its pipe takes, then move the same bytes into the log. */
static void pass_patiently(struct kept_log *log)
{
    /* Fewer turns for the same bytes; where the kernel grants no more, as they are. */
    fcntl(INPUT, F_SETPIPE_SZ, PATIENT_BYTES);
    fcntl(OUTPUT, F_SETPIPE_SZ, PATIENT_BYTES);
    while (wait_for(INPUT, POLLIN)) {
        ssize_t count = duplicate(OUTPUT);
        if (count <= 0 || !keep_bytes(log, INPUT, (size_t)count))
            return;
    }
}

/* The filter is gone, and the writer must get its SIGPIPE now: copy aside what lies in the pipe, take nothing out of it (a
   writer that waits for room would go on), and let go of it. */
static void keep_rest(struct kept_log *log)
{
    int aside[2];

    if (pipe2(aside, O_CLOEXEC) != 0)
        return;
    ssize_t count = tee(INPUT, aside[1], MOST_BYTES, SPLICE_F_NONBLOCK);
    close(INPUT);
    if (count > 0)
        keep_bytes(log, aside[0], (size_t)count);
}

static size_t bytes_in(int pipe)
{
    int count = 0;

    return ioctl(pipe, FIONREAD, &count) == 0 && count > 0 ? (size_t)count : 0;
}

/* Wait until the filter has read everything that was handed on; false when it is gone. Its pipe was full, so the kernel
   wakes us at its next read; what that leaves is looked at again and again, for nothing tells us of it, and `*slots` is
   halved. */
static bool wait_until_read(size_t *slots)
{
    struct timespec rest = {.tv_nsec = FIRST_REST_NS};
    struct pollfd filter = {.fd = OUTPUT};

    if (!wait_for(OUTPUT, POLLOUT))
        return false;
    for (bool is_first = true; bytes_in(OUTPUT) > 0; is_first = false) {
        if (is_first && *slots > 1)
            *slots /= 2;
        if (ppoll(&filter, 1, &rest, NULL) > 0)
            return false;
        if (rest.tv_nsec < LAST_REST_NS)
            rest.tv_nsec *= 2;
    }
    return true;
}

/* The filter may leave early, and how far the writer has come by then must not depend on us: a slot of the input stays
   taken until the filter has read what lies in it. So its own pipe gets just as many slots as are handed on, the next ones
   follow when it is empty, and only then are the last ones taken out of the input. The two hold what one pipe holds. */
static void pass_exactly(struct kept_log *log)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t most = MOST_SLOTS, slots = 0;

    while (wait_for(INPUT, POLLIN)) {
        /* So many bytes lie in so many slots, or in more. */
        size_t wanted = most;
        while (wanted > 1 && wanted * page > bytes_in(INPUT))
            wanted /= 2;
        if (wanted != slots && fcntl(OUTPUT, F_SETPIPE_SZ, wanted * page) < 0)
            break;
        slots = wanted;
        ssize_t count = duplicate(OUTPUT);
        if (count <= 0)
            return;
        if (!wait_until_read(&most))
            break;
        if (!keep_bytes(log, INPUT, (size_t)count))
            return;
    }
    keep_rest(log);
}

int copy_input(int output, struct kept_log *log, bool is_patient)
{
    /* The command's own descriptors would keep its pipes open. */
    if (dup2(output, OUTPUT) < 0 || dup2(log->fd, LOG) < 0)
        return 1;
    log->fd = LOG;
    close_from(LOG + 1, false);
    signal(SIGXFSZ, SIG_IGN); /* a limit of file sizes ends what is kept, not the pipeline */
    if (is_patient)
        pass_patiently(log);
    else
        pass_exactly(log);
    return 0;
}
