/* The process that a shim takes for its supervisor: the one that holds the record lock of the state folder, by the kernel's
   word. Pids are reused, so what was asked by number is confirmed once more at the end.

   Any command of the user can connect to the shim's socket, and a state folder can be moved or copied while commands run. So
   the lock that counts is the file that was there when the shim began, wherever it lies now. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/failpoints.h"
#include "../common/kernel.h"
#include "shim.h"

#define LOCK_NAME "/supervisor.pid"
#define IDENTITY_NAME "/identity"
#define MARK "NoNewPrivs:\t"

enum {
    PEER_PIDFD = 77, /* SO_PEERPIDFD (asm-generic/socket.h), Linux 6.5; older headers lack it */
};

int open_lock(const struct shim *shim)
{
    char path[PATH_MAX + sizeof LOCK_NAME];

    snprintf(path, sizeof path, "%s" LOCK_NAME, shim->state_folder);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Read what the state folder is known by, as it is now. False: it is not there. */
static bool read_identity(const struct shim *shim, struct stat *about, char *identity)
{
    char path[PATH_MAX + sizeof IDENTITY_NAME];

    memset(identity, 0, IDENTITY_BYTES);
    snprintf(path, sizeof path, "%s" IDENTITY_NAME, shim->state_folder);
    read_small(path, identity, IDENTITY_BYTES);
    return stat(shim->state_folder, about) == 0;
}

void remember_folder(struct shim *shim)
{
    struct stat about;

    if (!read_identity(shim, &about, shim->identity))
        return;
    shim->device = about.st_dev;
    shim->inode = about.st_ino;
}

/* A copy that lies in our folder's place is another one: by its inode, and by its identity. */
static bool is_same_folder(const struct shim *shim)
{
    char identity[IDENTITY_BYTES];
    struct stat about;

    return shim->inode != 0 && read_identity(shim, &about, identity) && about.st_ino == shim->inode &&
           about.st_dev == shim->device && memcmp(identity, shim->identity, IDENTITY_BYTES) == 0;
}

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

/* Return whether the process that connected is of our user, holds the record lock of the open file `lock`, may gain
   privileges if we may, and lives. The reasons are in src/outlive/kernel/lock_proof.py. */
static enum proof holds_lock(int link, int lock)
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

/* By the lock that was there when we began, wherever its folder lies now. What lies in its place counts only
   while no process holds that one: else a command could put a lock of its own there. */
static enum proof is_supervisor(struct shim *shim, int link)
{
    enum proof proof = shim->state.lock < 0 ? NO_HOLDER : holds_lock(link, shim->state.lock);
    bool is_free = shim->state.lock < 0 || holder_of(shim->state.lock) == 0;
    int lock = proof == NO_HOLDER && is_free && is_same_folder(shim) ? open_lock(shim) : -1;

    if (lock >= 0) {
        proof = holds_lock(link, lock);
        close(lock);
    }
    return proof;
}

/* The link is for the process that holds the supervisor's record lock: any command can connect, and has our uid. */
void meet_supervisor(struct shim *shim, bool is_hung_up)
{
    int link = shim->unproven >= 0 ? shim->unproven : accept_peer(&shim->state, is_hung_up);
    enum proof proof = link < 0 ? NO_HOLDER : is_supervisor(shim, link);

    shim->unproven = proof == CANNOT_TELL ? link : -1;
    if (proof == CANNOT_TELL)
        shim->state.is_listener_resting = true;
    else if (proof == NO_HOLDER && link >= 0)
        close(link);
    if (proof != IS_HOLDER)
        return;
    take_link(&shim->state, link);
    send_state(&shim->state, shim->serving == OWNS);
}
