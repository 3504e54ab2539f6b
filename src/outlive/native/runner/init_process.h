/* The duties of a container's first process: it prepares itself, reaps what has lost its parent, and ends the rest. */
#ifndef OUTLIVE_RUNNER_INIT_PROCESS_H
#define OUTLIVE_RUNNER_INIT_PROCESS_H

#include <stdbool.h>

/* Prepare this process. Returns a signalfd(2) of SIGCHLD, SIGTERM, SIGINT; -1 after a complaint. */
int begin_serving(void);

/* Read the signals that came: whether one of them says that it is over. */
bool has_end_signal(int wake);

/* TERM to all, KILL to what is left. */
void end_all_processes(void);

#endif
