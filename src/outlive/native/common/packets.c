/* Packets of a SEQPACKET Unix socket. Peers are not trusted: what is too long or no text arrives as empty words, and
   descriptors that were not asked for are closed. */
#include "packets.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void take_descriptors(struct msghdr *message, struct packet *packet)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t index = 0; index < count && packet->count < PACKET_FDS; index++)
            memcpy(&packet->fds[packet->count++], CMSG_DATA(part) + index * sizeof(int), sizeof(int));
    }
}

enum heard receive_packet(int link, struct packet *packet)
{
    union {
        char bytes[CMSG_SPACE(PACKET_FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec space = {packet->words, PACKET_BYTES};
    struct msghdr message;
    ssize_t size;

    packet->count = 0;
    for (int tried = 0;; tried++) {
        message = (struct msghdr){
            .msg_iov = &space, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
        size = recvmsg(link, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (size >= 0)
            break;
        if (errno == EAGAIN || errno == EINTR)
            return HEARD_NOTHING;
        /* ECONNRESET: the peer died before it had read all of our words. The kernel reports that once, ahead of the packets
           that the peer had sent, and these still count. */
        if (errno != ECONNRESET || tried > 0)
            return HEARD_END;
    }
    take_descriptors(&message, packet);
    if (size == 0) {
        close_packet(packet);
        return HEARD_END;
    }
    packet->words[size] = '\0';
    if ((message.msg_flags & MSG_TRUNC) != 0 || memchr(packet->words, '\0', (size_t)size) != NULL)
        packet->words[0] = '\0';
    return HEARD_PACKET;
}

void close_packet(struct packet *packet)
{
    for (int index = 0; index < packet->count; index++)
        if (packet->fds[index] >= 0)
            close(packet->fds[index]);
    packet->count = 0;
}

bool send_packet(int link, const char *words, const int *fds, int count)
{
    union {
        char bytes[CMSG_SPACE(PACKET_FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec text = {(void *)words, strlen(words)};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1};

    if (count > 0) {
        size_t bytes = (size_t)count * sizeof(int);
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(bytes);
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(part), fds, bytes);
    }
    return sendmsg(link, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

pid_t peer_of(int link, uid_t *uid)
{
    struct ucred peer;
    socklen_t size = sizeof peer;

    if (getsockopt(link, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return -1;
    *uid = peer.uid;
    return peer.pid;
}

bool is_listener(int fd)
{
    int listens = 0, domain = 0, kind = 0;
    socklen_t size = sizeof(int);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
           getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &size) == 0 && kind == SOCK_SEQPACKET;
}
