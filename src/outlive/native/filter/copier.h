/* Between a pipe and the filter that reads it: passes every byte on, and keeps a copy. */
#ifndef OUTLIVE_FILTER_COPIER_H
#define OUTLIVE_FILTER_COPIER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#define COPIER_NAME "outlive-copier" /* keeper/supervisor/endings/tree_control.py does not count what is named so */

/* What is kept of a stream: its first bytes and its last ones, in the format of an output log (store/output_log.py), with a
   hole in the middle once there is more than the limit. `released_to` is 0 until something was released. Positions in the
   file are positions in the stream. */
struct kept_log {
    char folder[PATH_MAX];
    int fd;
    bool is_over; /* the disk took no more */
    off_t offset, limit, released_to;
};

/* Make the log in `unfiltered` in a process's folder, in the place of an earlier one. Returns whether it is there. */
bool open_kept_log(struct kept_log *log, const char *folder, long long limit);

/* Pass descriptor 0 on to `output` and keep what passes; returns when there is no writer or no reader any more.
   `is_patient`: the filter reads to the end, so that it matters to nothing how many bytes wait in pipes. */
int copy_input(int output, struct kept_log *log, bool is_patient);

#endif
