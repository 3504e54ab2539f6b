/* `outlive-runner serve`: the first process of a container. */
#ifndef OUTLIVE_RUNNER_SERVER_H
#define OUTLIVE_RUNNER_SERVER_H

/* Serve as the words behind `serve` say until a signal says that it is over. Returns the program's exit code, -1 where the
   words make no sense:

     --handed --lock=DEVICE:INODE SOCKET   in a container, by the daemon
     --any-peer [LOCK]                     outside of one, for tests, by the socket that is the standard input */
int run_server(int count, char **words);

#endif
