/* The proof that a peer is the supervisor, by its process: it has our uid, lives, and the kernel names it as the holder
   of the record lock. Pids are reused, so what was asked by number is confirmed once more at the end. */
#include "lock_proof.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/packets.h"
#include "../common/failpoints.h"

#define MARK "NoNewPrivs:\t"

enum {
    PEER_PIDFD = 77, /* SO_PEERPIDFD (asm-generic/socket.h), Linux 6.5; older headers lack it */
};

/* Return the pid of the process that holds a record lock: 0 when none does, -1 for one that the kernel does not name. */
static pid_t holder_of(int lock)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (fcntl(lock, F_GETLK, &whole) != 0)
        return -1;
    if (whole.l_type == F_UNLCK)
        return 0;
    return whole.l_pid > 0 ? whole.l_pid : -1;
}

bool is_held(int lock)
{
    return holder_of(lock) != 0;
}

static bool has_exited(int pidfd)
{
    struct pollfd polled = {.fd = pidfd, .events = POLLIN};

    return poll(&polled, 1, 0) != 0;
}

static bool is_want(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM;
}

/* Return whether a process may gain privileges if we may (NoNewPrivs, proc_pid_status(5)), or /proc hides it. */
static enum proof is_as_free_as_we(pid_t pid)
{
    char path[32], line[256];
    enum proof proof = NO_HOLDER; /* also of a process that ends meanwhile */

    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        return IS_HOLDER;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return is_want(errno) ? CANNOT_TELL : IS_HOLDER;
    /* Of a line that is too long the rest comes as a line of its own: the groups, which are numbers. */
    while (proof == NO_HOLDER && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, MARK, sizeof MARK - 1) == 0) {
            if (line[sizeof MARK - 1] == '0')
                proof = IS_HOLDER;
            break;
        }
    fclose(file);
    return proof;
}

enum proof holds_lock(int link, int lock)
{
    uid_t uid = 0;
    int pidfd = -1;
    socklen_t size = sizeof pidfd;
    pid_t pid = peer_of(link, &uid);

    /* First what needs no descriptor: a process that has exhausted them must not make the holder's proof
       wait for others'. */
    if (pid <= 0 || uid != getuid() || holder_of(lock) != pid)
        return NO_HOLDER;
    if (!lacks("peer_pidfd") && getsockopt(link, SOL_SOCKET, PEER_PIDFD, &pidfd, &size) != 0) {
        if (errno != ENOPROTOOPT)
            return is_want(errno) ? CANNOT_TELL : NO_HOLDER; /* it has exited */
        pidfd = -1;
    }
    enum proof proof = is_as_free_as_we(pid);
    /* Last and once more: what was asked by number was about the process that connected, if it lives and holds the lock. */
    if (proof == IS_HOLDER && ((pidfd < 0 ? kill(pid, 0) != 0 : has_exited(pidfd)) || holder_of(lock) != pid))
        proof = NO_HOLDER;
    if (pidfd >= 0)
        close(pidfd);
    return proof;
}
