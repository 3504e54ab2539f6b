/* `outlive-runner stand`: on this machine, the process that supervisors find in the place of a container's runner. It
   keeps the program running that brings the tunnel's stream, and forks a shim for each supervisor that connects. */
#include "container_proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/init_process.h"
#include "../common/kernel.h"
#include "../common/listener.h"
#include "../common/packets.h"
#include "../runner/container_shim_loop.h"
#include "proxy_process.h"

#define SUPERVISOR_LOCK "../../supervisor.lock" /* of the container's folder, in which we work */

enum { SHORTEST_MS = 50, LONGEST_MS = 2000, LONG_MS = 10000 };

struct tunnel {
    char **program;
    pid_t pid; /* 0: it does not run */
    int64_t begun_at;
    int64_t again_at;
    int pause_ms;
};

/* Leave the process that started us: a container's proxy outlives the server. */
static void detach(void)
{
    if (fork() != 0)
        _exit(0);
    setsid();
    if (fork() != 0)
        _exit(0);
}

static bool write_init(void)
{
    char text[32];
    int size = snprintf(text, sizeof text, "%d\n", (int)getpid());
    int fd = open("init.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool is_written = fd >= 0 && write(fd, text, (size_t)size) == size;

    if (fd >= 0)
        close(fd);
    return is_written && rename("init.new", "init") == 0;
}

static void start_tunnel(struct tunnel *tunnel)
{
    tunnel->begun_at = now_ms();
    pid_t runner = getpid();
    tunnel->pid = fork();
    if (tunnel->pid != 0)
        return;
    char text[16];
    snprintf(text, sizeof text, "%d", (int)runner);
    setenv("OUTLIVE_STAND", text, 1); /* whose death it has to notice: it starts us again then */
    block_all_signals(false);
    int log = open("ferry.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log >= 0)
        dup2(log, 2);
    close_from(3, false);
    execv(tunnel->program[0], tunnel->program);
    _exit(127);
}

/* Reap; start the tunnel's program again when it died. False: it exited with 0, since the container is gone. */
static bool supervise(struct tunnel *tunnel)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != tunnel->pid)
            continue;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            return false;
        tunnel->pid = 0;
        bool lasted = now_ms() - tunnel->begun_at > LONG_MS;
        tunnel->pause_ms = lasted || tunnel->pause_ms == 0 ? SHORTEST_MS : 2 * tunnel->pause_ms;
        if (tunnel->pause_ms > LONGEST_MS)
            tunnel->pause_ms = LONGEST_MS;
        tunnel->again_at = now_ms() + tunnel->pause_ms;
    }
    if (tunnel->pid == 0 && now_ms() >= tunnel->again_at)
        start_tunnel(tunnel);
    return true;
}

static void welcome(int listener, int wake, int lock, int supervisor_lock)
{
    uid_t uid;
    int link = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (link < 0)
        return;
    if (peer_of(link, &uid) > 0 && uid == geteuid() && fork() == 0) {
        close(listener);
        close(wake);
        close(lock);
        struct beginnings from;
        int control = run_shim_of_proxy(link, supervisor_lock, &from); /* returns in a command's child alone */
        run_proxy_process(&from, control);
    }
    close(link);
}

int run_container_proxy(const char *folder, char **program, bool asks)
{
    struct tunnel tunnel = {.program = program};

    detach();
    if (chdir(folder) != 0)
        return 1;
    int wake = begin_serving();
    int lock = open("stand.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (wake < 0 || lock < 0 || flock(lock, LOCK_EX | LOCK_NB) != 0)
        return 0; /* another one stands here */
    /* Held open: where the state folder is moved to, it is the same one still. */
    int supervisor_lock = asks ? open(SUPERVISOR_LOCK, O_RDONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (asks && supervisor_lock < 0)
        return 1;
    int listener = write_init() ? listen_at("run/runner.sock") : -1;
    if (listener < 0)
        return 1;
    for (;;) {
        struct pollfd polled[] = {{.fd = wake, .events = POLLIN}, {.fd = listener, .events = POLLIN}};
        if (!supervise(&tunnel))
            break;
        poll(polled, 2, tunnel.pid == 0 ? SHORTEST_MS : -1);
        if (polled[0].revents != 0 && has_end_signal(wake)) {
            if (tunnel.pid > 0)
                kill(tunnel.pid, SIGTERM);
            break;
        }
        if (polled[1].revents != 0)
            welcome(listener, wake, lock, supervisor_lock);
    }
    unlink("run/runner.sock");
    return 0;
}
