/* splice: the floor of streaming, a server that does nothing but splice(2) a command's pipe to a socket.
 *
 * Listens on a free loopback port and prints it. Per connection: one line with a shell command comes in,
 * its standard output goes out, then the connection is closed. No log, no frames, no second client. */
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include "ws.h"

extern char **environ;

static pid_t start(const char *command, int output) {
    const char *shell = access("/bin/bash", X_OK) ? "/bin/sh" : "/bin/bash";
    char *const words[] = {(char *)shell, "-c", (char *)command, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output, 1);
    if ((errno = posix_spawn(&pid, shell, &actions, NULL, words, environ))) die("posix_spawn");
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static void serve(int client) {
    char command[65536];
    size_t used = 0;
    int pipes[2], one = 1;
    while (!used || command[used - 1] != '\n') {
        ssize_t n = read(client, command + used, sizeof command - used);
        if (n <= 0) return;
        used += (size_t)n;
    }
    command[used - 1] = 0;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (pipe2(pipes, O_CLOEXEC)) die("pipe2");
    fcntl(pipes[0], F_SETPIPE_SZ, 1 << 20); /* as large as an ordinary user may ask for */
    pid_t pid = start(command, pipes[1]);
    close(pipes[1]);
    while (splice(pipes[0], NULL, client, NULL, 1 << 20, SPLICE_F_MOVE) > 0) {
    }
    close(pipes[0]);
    shutdown(client, SHUT_WR);
    waitpid(pid, NULL, 0);
}

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 64)) die("listen");
    getsockname(listener, (struct sockaddr *)&address, &length);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0) die("accept");
        serve(client);
        close(client);
    }
}
