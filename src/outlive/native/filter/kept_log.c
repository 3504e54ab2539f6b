/* The log of one stream, with a hole in the middle once there is more than the limit. */
#include "kept_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
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

bool keep_bytes(struct kept_log *log, int pipe, size_t count)
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
