/* How the first process of a container gets the socket that it listens on.

   The server binds it outside, in a folder that is not mounted, and hands it over as a descriptor. All that the container
   shares with the server for that is a read-only folder in which the server listens while it hands over: a command inside
   can neither write there nor put anything in the socket's place. */
#include "socket_handover.h"

#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/packets.h"
#include "init_process.h"
#include "listener.h"

enum { FIRST_PAUSE_MS = 10, LONGEST_PAUSE_MS = 500, ANSWERS_MS = 10000 };

/* Connect to the server, if it is there. */
static int connect_outside(const char *path)
{
    struct sockaddr_un address;
    socklen_t size = address_of(path, &address);
    uid_t uid;
    int link = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (link >= 0 && connect(link, (struct sockaddr *)&address, size) == 0 && peer_of(link, &uid) == 0)
        return link;
    if (link >= 0)
        close(link);
    return -1;
}

/* Take the one descriptor of the server's next packet; -1 without one. `asks`: whether the packet announces the lock. */
static int take_one(int link, bool *asks)
{
    struct pollfd polled = {.fd = link, .events = POLLIN};
    struct packet packet;
    int taken = -1;

    if (poll(&polled, 1, ANSWERS_MS) > 0 && receive_packet(link, &packet) == HEARD_PACKET) {
        if (packet.count == 1) {
            taken = packet.fds[0];
            packet.fds[0] = -1;
        }
        *asks = strcmp(packet.words, "listen asking") == 0;
        close_packet(&packet);
    }
    return taken;
}

static bool is_file(int fd, const struct file_id *file)
{
    struct stat about;

    return fstat(fd, &about) == 0 && about.st_dev == file->device && about.st_ino == file->inode;
}

/* Take the socket, which listens in our name: a peer reads our identity from it (SO_PEERCRED). Behind it comes the lock
   of the supervisor, unless that is too old to prove that it holds it. */
static int take_listener(int link, const struct file_id *wanted, int *lock)
{
    bool asks = false, more;
    int listener = take_one(link, &asks);

    *lock = asks ? take_one(link, &more) : -1;
    close(link);
    bool is_whole = wanted != NULL ? *lock >= 0 && is_file(*lock, wanted) : !asks || *lock >= 0;
    if (listener >= 0 && is_whole && listen(listener, BACKLOG) == 0 && is_listener(listener))
        return listener;
    close_fd(&listener);
    close_fd(lock);
    return -1;
}

int listen_handed(const char *path, int wake, const struct file_id *wanted, int *lock)
{
    struct pollfd polled = {.fd = wake, .events = POLLIN};
    int pause_ms = FIRST_PAUSE_MS;
    siginfo_t info;

    for (;;) {
        int link = connect_outside(path);
        int listener = link < 0 ? -1 : take_listener(link, wanted, lock);
        if (listener >= 0)
            return listener;
        /* A server that was killed in between is no reason to stop: the next one hands over. */
        if (poll(&polled, 1, pause_ms) > 0 && has_end_signal(wake))
            return -1;
        reap_children(0, &info);
        pause_ms = 2 * pause_ms < LONGEST_PAUSE_MS ? 2 * pause_ms : LONGEST_PAUSE_MS;
    }
}
