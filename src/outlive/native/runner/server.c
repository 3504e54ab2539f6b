/* `outlive-runner serve`: the first process of a container. It listens, forks a shim for each supervisor's connection, and
   reaps whatever has lost its parent. */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/packets.h"
#include "container_shim.h"
#include "init_process.h"
#include "listener.h"
#include "socket_handover.h"

enum { REST_MS = 50 }; /* out of descriptors or processes */

/* Fork a shim for the next connection. False: none can be forked now. */
static bool welcome(int listener, int wake, bool lets_any_in, int lock)
{
    uid_t uid;
    int link = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (link < 0)
        return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    pid_t pid = peer_of(link, &uid);
    pid_t shim = -1;
    /* The kernel translates a pid of another PID namespace to 0: anything else comes from inside the container. */
    bool is_welcome = pid == 0 || (pid > 0 && lets_any_in);
    if (is_welcome) {
        raise_oom_score(true); /* the shim's, too: it has hardly any memory, and cannot open its own file any more */
        shim = fork();
        if (shim != 0)
            raise_oom_score(false);
        if (shim == 0) {
            close(listener);
            close(wake);
            run_container_shim(link, lets_any_in, lock);
        }
    }
    close(link);
    return !is_welcome || shim > 0;
}

/* What is served, and where. */
struct way {
    const char *path;
    bool is_handed, lets_any_in;
    const char *lock_path;        /* of the supervisor's lock, NULL: as it is handed over */
    const struct file_id *wanted; /* which has to be this one, if not NULL */
};

/* Serve until a signal says that it is over. */
static int serve(const struct way *way)
{
    const char *path = way->path;
    bool is_handed = way->is_handed, lets_any_in = way->lets_any_in;
    int wake = begin_serving();
    int lock = way->lock_path == NULL ? -1 : open(way->lock_path, O_RDONLY | O_CLOEXEC);
    if (way->lock_path != NULL && lock < 0) {
        complain(way->lock_path);
        return 1;
    }
    int listener = wake < 0 ? -1 : is_handed ? listen_handed(path, wake, way->wanted, &lock) : listen_at(path);

    if (listener < 0)
        return wake < 0 || !is_handed;
    bool rests = false, has_more = false;
    siginfo_t info;
    for (;;) {
        struct pollfd polled[] = {{.fd = wake, .events = POLLIN}, {.fd = rests ? -1 : listener, .events = POLLIN}};
        poll(polled, 2, has_more ? 0 : rests ? REST_MS : -1);
        rests = false;
        if ((polled[0].revents & POLLIN) != 0 && has_end_signal(wake)) {
            close(listener);
            if (!is_handed)
                unlink(path);
            end_all_processes();
            return 0;
        }
        has_more = reap_children(0, &info) == REAPED_SOME;
        if (polled[1].revents != 0)
            rests = !welcome(listener, wake, lets_any_in, lock);
    }
}

int run_server(int count, char **words)
{
    struct file_id lock;
    struct way way = {.path = words[count - 1]};

    if (count == 1)
        return serve(&way);
    if (strcmp(words[0], "--handed") == 0) {
        way.is_handed = true;
        way.wanted = count == 3 ? &lock : NULL;
        if (count == 3 && sscanf(words[1], "--lock=%llu:%llu", &lock.device, &lock.inode) != 2)
            return -1;
        return serve(&way);
    }
    if (strcmp(words[0], "--any-peer") != 0)
        return -1;
    way.path = words[1];
    way.lock_path = words[2]; /* NULL without one */
    way.lets_any_in = getpid() != 1; /* in a container no process inside is let in, whatever was asked for */
    return serve(&way);
}
