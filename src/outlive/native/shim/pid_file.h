/* The process's record, its file `pid`. */
#ifndef OUTLIVE_SHIM_PID_FILE_H
#define OUTLIVE_SHIM_PID_FILE_H

#include "shim.h"

/* Empty the record, or make it. Returns its descriptor; -1 with errno. */
int open_record(struct shim *shim);

/* Write a line into a record that is open. Returns 0 or an errno. */
int write_line(int fd, const char *line);

/* Add a line to the record: whole or not at all. Returns 0 or an errno. */
int shim_add_line(struct shim *shim, const char *line);

#endif
