/* The copier is no stage of the shell's: it must not be noticed. It holds nothing but its two pipes and the log; when the
   filter is gone it goes, and its own pipe breaks for the writer as the filter's would have; SIGPIPE may kill it. */
#include "copier.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
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
    PAGE = 4096,          /* holes begin and end at the blocks of the file system */
    STEP_BYTES = 8 << 20, /* released by one call: punching is slow (keeper/supervisor/output/limits.py) */
    PIECE = 64 << 10,
};

bool open_kept_log(struct kept_log *log, const char *folder, long long limit)
{
    char path[PATH_MAX];

    *log = (struct kept_log){.limit = (off_t)limit};
    if (snprintf(log->folder, sizeof log->folder, "%s/unfiltered", folder) >= (int)sizeof log->folder - 16)
        return false;
    if (mkdir(log->folder, 0700) != 0 && errno != EEXIST)
        return false;
    /* What an earlier pipeline of this command has left; a reader that has it open keeps what it sees. */
    for (const char *const *name = (const char *const[]){"gaps", "out", NULL}; *name != NULL; name++) {
        snprintf(path, sizeof path, "%.*s/%s", (int)sizeof path - 16, log->folder, *name);
        unlink(path);
    }
    log->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (log->fd >= 0) /* as long as the copier lives: the shell does not wait for it, a reader does (store/unfiltered.py) */
        flock(log->fd, LOCK_EX | LOCK_NB);
    return log->fd >= 0;
}

/* Record the hole before it is made: a reader must not take zeros for output. */
static bool record_gap(const struct kept_log *log, off_t begin, off_t end)
{
    char path[PATH_MAX], made[PATH_MAX], line[64];

    snprintf(path, sizeof path, "%.*s/gaps", (int)sizeof path - 16, log->folder);
    snprintf(made, sizeof made, "%.*s/gaps.new", (int)sizeof made - 16, log->folder);
    int length = snprintf(line, sizeof line, "%lld %lld 0 0\n", (long long)begin, (long long)end);
    int fd = open(made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return false;
    bool is_written = write(fd, line, (size_t)length) == length;
    close(fd);
    return is_written && rename(made, path) == 0;
}

/* Half of the limit is for the first bytes, half for the last ones. */
static void release_middle(struct kept_log *log)
{
    off_t begin = log->limit / 2 / PAGE * PAGE, end = (log->offset - log->limit / 2) / PAGE * PAGE;
    off_t from = log->released_to > 0 ? log->released_to : begin;
    off_t step = log->limit / 8 < STEP_BYTES ? log->limit / 8 : STEP_BYTES;

    if (log->offset <= log->limit || end - from < (step < PAGE ? PAGE : step))
        return;
    int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (!record_gap(log, begin, end) || fallocate(log->fd, mode, from, end - from) != 0)
        log->is_over = true; /* without holes the file would grow for ever */
    log->released_to = end;
}

/* Read bytes that are not kept. */
static bool discard(int pipe, size_t count)
{
    char piece[PIECE];

    while (count > 0) {
        ssize_t got = read(pipe, piece, count < sizeof piece ? count : sizeof piece);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        count -= (size_t)got;
    }
    return true;
}

/* Take `count` bytes out of a pipe and keep them, as long as that is possible. Returns false when they cannot be taken
   out. */
static bool keep_bytes(struct kept_log *log, int pipe, size_t count)
{
    while (count > 0 && !log->is_over) {
        ssize_t moved = splice(pipe, NULL, log->fd, &log->offset, count, SPLICE_F_MOVE);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved > 0)
            count -= (size_t)moved;
        else
            log->is_over = true;
        release_middle(log);
    }
    return discard(pipe, count);
}

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
