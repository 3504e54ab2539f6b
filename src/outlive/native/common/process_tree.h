/* The processes below this one, and signals to all of them, to a fixpoint.

   This process is a subreaper, so everything its command ever started is below it, daemons included. A pid is signalled
   through a pidfd after its parent was looked at, so a reused pid is never hit. */
#ifndef OUTLIVE_COMMON_PROCESS_TREE_H
#define OUTLIVE_COMMON_PROCESS_TREE_H

#include <stdbool.h>
#include <sys/types.h>

enum { SIGNALS_AT_ONCE = 8 };

/* Send signals to every process below us once, parents first; `group` other than 0 leaves all others of them out. */
void signal_tree(const int *numbers, int count, pid_t group);

/* Stop (SIGSTOP) everything below us until two walks find no process running. False: it did not settle in time. */
bool freeze_tree(void);

#endif
