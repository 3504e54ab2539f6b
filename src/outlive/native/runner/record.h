/* The process's `pid` file, as shims write it (src/outlive/protocols/frames.py): lines, each whole or absent. */
#ifndef OUTLIVE_RUNNER_RECORD_H
#define OUTLIVE_RUNNER_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "../common/shim_state.h"

enum { PENDING_BYTES = 3 * LINE_BYTES }; /* a process has three lines at the most */

/* The file and what a full disk has kept from being written into it. */
struct record {
    int fd; /* -1: there is none, and every line counts as written */
    size_t size;
    char pending[PENDING_BYTES];
};

/* Empty the file and write its first line, "starting". Returns 0 or an errno. */
int begin_record(struct record *record);

/* Add a line behind those that wait, and try to write all. */
void add_record(struct record *record, const char *line);

/* Try to write what waits. False: the disk is still full, try again. */
bool flush_record(struct record *record);

#endif
