/* `outlive-runner hold`: the first process of a container that no socket reaches. It is the multiplexer, and reaps. */
#include "multiplexer_loop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/init_process.h"
#include "../common/kernel.h"
#include "../common/listener.h"
#include "../common/packets.h"
#include "multiplexer.h"

/* The process that brings the stream is started by the daemon: its parent is outside, and the kernel numbers that 0 here. No
   process that was started inside has such a parent. */
static bool comes_from_outside(int link)
{
    uid_t uid;
    char path[32];
    struct stat_line line;
    pid_t pid = peer_of(link, &uid);

    if (pid == 0)
        return true;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    return pid > 1 && read_stat(path, &line) && line.parent == 0;
}

static void welcome(struct multiplexer *multiplexer, int listener, bool lets_any_in)
{
    int link = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (link < 0)
        return;
    if (lets_any_in || comes_from_outside(link))
        multiplexer_take_connection(multiplexer, link);
    else
        close(link);
}

int run_multiplexer(const char *path, bool lets_any_in)
{
    static struct multiplexer multiplexer;
    short woken, called;
    bool has_more = false;
    int wake = begin_serving();
    int listener = wake < 0 ? -1 : listen_at(path);

    if (listener < 0)
        return 1;
    signal(SIGPIPE, SIG_IGN); /* a command need not read its input; it gets the default back */
    multiplexer_begin(&multiplexer);
    for (;;) {
        multiplexer_turn(&multiplexer, wake, listener, has_more ? 0 : -1, &woken, &called);
        if (woken != 0 && has_end_signal(wake)) {
            close(listener);
            if (*path != '@')
                unlink(path);
            end_all_processes();
            return 0;
        }
        has_more = reap_children() == REAPED_SOME;
        if (called != 0)
            welcome(&multiplexer, listener, lets_any_in);
    }
}
