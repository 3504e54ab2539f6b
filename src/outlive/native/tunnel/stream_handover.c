/* `outlive-runner ferry`: started inside by the daemon (`docker exec`), it gives its two streams to the multiplexer and
   waits, since the daemon closes the streams when this process ends. */
#include "stream_handover.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/packets.h"

enum { TRIES = 100, PAUSE_US = 20000 };

static int connect_to(const char *path)
{
    struct sockaddr_un address;
    socklen_t size = address_of(path, &address);
    int link = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (link < 0 || size == 0)
        return -1;
    for (int tried = 0; connect(link, (struct sockaddr *)&address, size) != 0; tried++) {
        if (tried == TRIES || (errno != ENOENT && errno != ECONNREFUSED && errno != EAGAIN))
            return -1;
        usleep(PAUSE_US); /* the container has just been started */
    }
    return link;
}

int hand_streams_over(const char *path)
{
    static const int streams[] = {0, 1};
    uid_t uid;
    char byte;
    int link = connect_to(path);

    /* A command may have put a socket of its own there: only the container's first process is the multiplexer. */
    if (link < 0 || peer_of(link, &uid) != 1 || !send_packet(link, "ferry", streams, 2)) {
        dprintf(2, "outlive-runner: %s: %s\n", path, strerror(errno));
        return 1;
    }
    close(0);
    close(1);
    while (recv(link, &byte, 1, 0) < 0 && errno == EINTR)
        continue;
    return 0;
}
