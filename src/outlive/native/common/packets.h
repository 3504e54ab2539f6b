/* Packets of a SEQPACKET Unix socket: words, and descriptors beside them. */
#ifndef OUTLIVE_COMMON_PACKETS_H
#define OUTLIVE_COMMON_PACKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
    PACKET_BYTES = 8192, /* no packet of ours is longer; a longer one is dropped whole */
    PACKET_FDS = 32,     /* there are thirteen letters; the kernel closes what is beyond */
};

enum heard { HEARD_NOTHING, HEARD_PACKET, HEARD_END };

/* What is taken out of `fds` is replaced by -1; `close_packet` closes the rest. */
struct packet {
    int count;
    int fds[PACKET_FDS];
    char words[PACKET_BYTES + 1]; /* ends with NUL */
};

/* Receive one packet without waiting. A packet that is no text, or too long, arrives as empty words. */
enum heard receive_packet(int link, struct packet *packet);

/* Close the descriptors that were not taken out. */
void close_packet(struct packet *packet);

/* Send one packet without waiting. False: the peer is gone or does not read; nothing was sent. */
bool send_packet(int link, const char *words, const int *fds, int count);

/* Tell whether a descriptor listens for packets: anything that is always ready, or never accepts, would make us spin. */
bool is_listener(int fd);

/* Return the peer's pid as this PID namespace sees it (0: from outside), -1 when the kernel does not say. */
pid_t peer_of(int link, uid_t *uid);

#endif
