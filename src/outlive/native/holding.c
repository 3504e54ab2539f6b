#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hub.h"
#include "kernel.h"
#include "packets.h"
#include "serve.h"

/* A ferry is started by the daemon: its parent is outside, which is 0 here. Nothing that was started inside has that. */
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

static void welcome(struct hub *hub, int listener, bool lets_any_in)
{
    int link = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (link < 0)
        return;
    if (lets_any_in || comes_from_outside(link))
        hub_meet(hub, link);
    else
        close(link);
}

int hold_all(const char *path, bool lets_any_in)
{
    static struct hub hub;
    short woken, called;
    bool has_more = false;
    int wake = begin_serving();
    int listener = wake < 0 ? -1 : listen_at(path);

    if (listener < 0)
        return 1;
    signal(SIGPIPE, SIG_IGN); /* a command need not read its input; it gets the default back */
    hub_begin(&hub);
    for (;;) {
        hub_turn(&hub, wake, listener, has_more ? 0 : -1, &woken, &called);
        if (woken != 0 && was_told_to_end(wake)) {
            close(listener);
            if (*path != '@')
                unlink(path);
            end_everybody();
            return 0;
        }
        has_more = reap_children() == REAPED_SOME;
        if (called != 0)
            welcome(&hub, listener, lets_any_in);
    }
}
