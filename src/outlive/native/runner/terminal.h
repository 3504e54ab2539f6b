/* A pseudoterminal of the container: its slave's side has a name there. */
#ifndef OUTLIVE_RUNNER_TERMINAL_H
#define OUTLIVE_RUNNER_TERMINAL_H

/* Open one of the given size; both descriptors are close-on-exec, the master does not block. Returns 0 or an errno. */
int open_terminal(unsigned short rows, unsigned short cols, int *master, int *slave);

#endif
