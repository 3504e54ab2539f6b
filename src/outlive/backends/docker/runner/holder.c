#include "holder.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernel.h"
#include "packets.h"

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#endif
enum {
    PEER_PIDFD = 77, /* SO_PEERPIDFD (asm-generic/socket.h), Linux 6.5; older headers lack it */
    FIRST_BYTES = 32,
    LINE_BYTES = 64, /* of a lock file: a pid's line, and behind it the pid and its start ticks (keeper/locks.py) */
};

static bool lacks_peer_pidfd;

void read_degrade(void)
{
    const char *missing = getenv("OUTLIVE_DEGRADE");

    lacks_peer_pidfd = missing != NULL && strstr(missing, "peer_pidfd") != NULL;
}

/* Read who holds a lock: false when no process does. 0 stands for what is not told. */
static bool read_holder(int lock, long *pid, unsigned long long *ticks)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char line[LINE_BYTES + 1], *end;

    if (fcntl(lock, F_OFD_GETLK, &whole) != 0 || whole.l_type == F_UNLCK)
        return false;
    ssize_t size = pread(lock, line, LINE_BYTES, 0);
    if (size <= 0)
        return false;
    line[size] = '\0';
    *pid = isdigit((unsigned char)line[0]) ? strtol(line, NULL, 10) : 0;
    *ticks = 0;
    if (size > FIRST_BYTES && isdigit((unsigned char)line[FIRST_BYTES]) &&
        strtol(line + FIRST_BYTES, &end, 10) == *pid)
        *ticks = strtoull(end, NULL, 10);
    return true;
}

/* Where /proc hides the start time (hidepid), the pid alone counts. */
static bool began_at(pid_t pid, unsigned long long ticks)
{
    unsigned long long found = ticks == 0 ? 0 : start_ticks(pid);

    return found == 0 || found == ticks;
}

static bool has_exited(int pidfd)
{
    struct pollfd polled = {.fd = pidfd, .events = POLLIN};

    return poll(&polled, 1, 0) != 0;
}

enum proof holds_lock(int link, int lock)
{
    unsigned long long ticks;
    long held_by;
    uid_t uid = 0;
    int pidfd = -1;
    socklen_t size = sizeof pidfd;
    pid_t pid = peer_of(link, &uid);

    /* First what needs no descriptor: whoever has exhausted them must not make the holder's proof wait for others'. */
    if (pid <= 0 || uid != getuid() || !read_holder(lock, &held_by, &ticks) || held_by != pid)
        return NO_HOLDER;
    errno = ENOPROTOOPT;
    if (!lacks_peer_pidfd && getsockopt(link, SOL_SOCKET, PEER_PIDFD, &pidfd, &size) == 0) {
        bool is_holder = began_at(pid, ticks) && !has_exited(pidfd);
        close(pidfd);
        return is_holder ? IS_HOLDER : NO_HOLDER;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
        return CANNOT_TELL;
    if (errno != ENOPROTOOPT)
        return NO_HOLDER; /* it has exited */
    return began_at(pid, ticks) && kill(pid, 0) == 0 ? IS_HOLDER : NO_HOLDER;
}
