/* The process that a shim takes for its supervisor: the one that holds the record lock of the state folder.

   Any command of the user can connect to the shim's socket, and a state folder can be moved or copied while commands run. So
   the lock that counts is the file that was there when the shim began, wherever it lies now. */
#include "supervisor.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "lock_proof.h"

#define LOCK_NAME "/supervisor.pid"
#define IDENTITY_NAME "/identity"

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

/* By the lock that was there when we began, wherever its folder lies now. What lies in its place counts only
   while no process holds that one: else a command could put a lock of its own there. */
static enum proof is_supervisor(struct shim *shim, int link)
{
    enum proof proof = shim->state.lock < 0 ? NO_HOLDER : holds_lock(link, shim->state.lock);
    bool is_free = shim->state.lock < 0 || !is_held(shim->state.lock);
    int lock = proof == NO_HOLDER && is_free && is_same_folder(shim) ? open_lock(shim) : -1;

    if (lock >= 0) {
        proof = holds_lock(link, lock);
        close(lock);
    }
    return proof;
}

/* Take the next connection, or the one whose proof could not be had. Returns -1 when there is none. */
static int accept_one(struct shim *shim, bool is_hung_up)
{
    int link = shim->unproven;

    shim->unproven = -1;
    return link >= 0 ? link : accept_peer(&shim->state, is_hung_up);
}

/* The link is for the process that holds the supervisor's record lock: any command can connect, and has our uid. */
void meet_supervisor(struct shim *shim, bool is_hung_up)
{
    int link = accept_one(shim, is_hung_up);
    enum proof proof = link < 0 ? NO_HOLDER : is_supervisor(shim, link);

    if (proof == CANNOT_TELL) {
        shim->unproven = link;
        shim->state.is_listener_resting = true;
    } else if (proof == NO_HOLDER && link >= 0)
        close(link);
    if (proof != IS_HOLDER)
        return;
    take_link(&shim->state, link);
    send_state(&shim->state, shim->serving == OWNS);
}
