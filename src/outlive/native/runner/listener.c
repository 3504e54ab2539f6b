/* The socket that a runner listens on where it is handed none. */
#include "listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../common/packets.h"

void complain(const char *about)
{
    dprintf(2, "outlive-runner: %s: %s\n", about, strerror(errno));
}

/* Listen under another name of the working folder, then take the right one: a peer that sees the right name
   can connect already. */
static int listen_as(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = ".outlive-runner.new"};
    struct stat state;

    if (lstat(name, &state) == 0 && !S_ISSOCK(state.st_mode)) {
        errno = EEXIST;
        return -1;
    }
    unlink(address.sun_path);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask = umask(0177);
    bool listens = listener >= 0 && bind(listener, (struct sockaddr *)&address, sizeof address) == 0 &&
                   listen(listener, BACKLOG) == 0 && rename(address.sun_path, name) == 0;
    umask(mask); /* the commands' is the container's */
    return listens ? listener : -1;
}

/* Listen on a path, mode 0600; a socket that lies there is stale. Returns -1 after a complaint. */
int listen_at(const char *path)
{
    struct sockaddr_un address;
    char folder[sizeof address.sun_path];
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;

    int here = open(".", O_PATH | O_CLOEXEC);
    if (*name == '\0' || strlen(path) >= sizeof address.sun_path) { /* it could not be connected to, either */
        errno = ENAMETOOLONG;
        complain("the socket's path");
        return -1;
    }
    snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path);
    int listener = *folder == '\0' || chdir(folder) == 0 ? listen_as(name) : -1;
    if (listener < 0)
        complain(path);
    if (here >= 0 && fchdir(here) == 0)
        close(here);
    return listener;
}
