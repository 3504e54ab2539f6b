/* What is kept of a stream: its first bytes and its last ones, in the format of an output log (store/output_log.py). */
#ifndef OUTLIVE_FILTER_KEPT_LOG_H
#define OUTLIVE_FILTER_KEPT_LOG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* `released_to` is 0 until something was released. Positions in the file are positions in the stream. */
struct kept_log {
    char folder[PATH_MAX];
    int fd;
    bool is_over; /* the disk took no more */
    off_t offset, limit, released_to;
};

/* Make the log in `unfiltered` in a process's folder, in the place of an earlier one. Returns whether it is there. */
bool open_kept_log(struct kept_log *log, const char *folder, long long limit);

/* Take `count` bytes out of a pipe and keep them, as long as that is possible. Returns false when they cannot be taken
   out. */
bool keep_bytes(struct kept_log *log, int pipe, size_t count);

#endif
