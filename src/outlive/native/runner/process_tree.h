/* The processes below this one, and signals to all of them.

   This process is a subreaper, so everything its command ever started is below it, daemons included. A pid is signalled
   through a pidfd after its parent was looked at, so a reused pid is never hit. */
#ifndef OUTLIVE_RUNNER_PROCESS_TREE_H
#define OUTLIVE_RUNNER_PROCESS_TREE_H

/* Send a signal to every process below us once, parents first. */
void signal_tree(int number);

#endif
