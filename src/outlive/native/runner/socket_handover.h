/* The socket that the first process of a container is handed by the server. */
#ifndef OUTLIVE_RUNNER_SOCKET_HANDOVER_H
#define OUTLIVE_RUNNER_SOCKET_HANDOVER_H

/* What a file is known by, whatever its name: the daemon says it, so that no other process can hand over another one. */
struct file_id {
    unsigned long long device, inode;
};

/* Listen on a socket that is handed over by the server at `path`, outside of our PID namespace: the socket's name lies where
   nothing inside can reach it. `lock` becomes the supervisor's lock, if that is handed over, too; where one is `wanted`
   nothing else is taken. Waits for that; -1 when a signal says that it is over. */
int listen_handed(const char *path, int wake, const struct file_id *wanted, int *lock);

#endif
