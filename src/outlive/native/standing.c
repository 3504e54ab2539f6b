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

#include "kernel.h"
#include "minder.h"
#include "packets.h"
#include "serve.h"

#define SUPERVISOR_LOCK "../../supervisor.lock" /* of the container's folder, in which we work */

enum { SHORTEST_MS = 50, LONGEST_MS = 2000, LONG_MS = 10000 };

struct ferry {
    char **program;
    pid_t pid; /* 0: it does not run */
    int64_t begun_at;
    int64_t again_at;
    int pause_ms;
};

/* Leave whoever started us: what stands for a container outlives the server. */
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

static void start_ferry(struct ferry *ferry)
{
    ferry->begun_at = now_ms();
    pid_t runner = getpid();
    ferry->pid = fork();
    if (ferry->pid != 0)
        return;
    char text[16];
    snprintf(text, sizeof text, "%d", (int)runner);
    setenv("OUTLIVE_STAND", text, 1); /* whose death it has to notice: it starts us again then */
    block_all_signals(false);
    int log = open("ferry.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log >= 0)
        dup2(log, 2);
    close_from(3, false);
    execv(ferry->program[0], ferry->program);
    _exit(127);
}

/* Reap; start the ferry again when it died. False: it says that there is nothing to stand for any more. */
static bool look_after(struct ferry *ferry)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != ferry->pid)
            continue;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            return false;
        ferry->pid = 0;
        bool lasted = now_ms() - ferry->begun_at > LONG_MS;
        ferry->pause_ms = lasted || ferry->pause_ms == 0 ? SHORTEST_MS : 2 * ferry->pause_ms;
        if (ferry->pause_ms > LONGEST_MS)
            ferry->pause_ms = LONGEST_MS;
        ferry->again_at = now_ms() + ferry->pause_ms;
    }
    if (ferry->pid == 0 && now_ms() >= ferry->again_at)
        start_ferry(ferry);
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
        mind(link, LETS_ANY_IN | STANDS_IN, supervisor_lock);
    }
    close(link);
}

int stand_for(const char *folder, char **program, bool asks)
{
    struct ferry ferry = {.program = program};

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
        if (!look_after(&ferry))
            break;
        poll(polled, 2, ferry.pid == 0 ? SHORTEST_MS : -1);
        if (polled[0].revents != 0 && was_told_to_end(wake)) {
            if (ferry.pid > 0)
                kill(ferry.pid, SIGTERM);
            break;
        }
        if (polled[1].revents != 0)
            welcome(listener, wake, lock, supervisor_lock);
    }
    unlink("run/runner.sock");
    return 0;
}
