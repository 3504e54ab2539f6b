/* Bytes on their way that may be needed again: a bounded piece of an endless sequence, known by its offsets. */
#ifndef OUTLIVE_TUNNEL_FLOW_WINDOW_H
#define OUTLIVE_TUNNEL_FLOW_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { WINDOW_BYTES = 512 << 10 };

/* first <= next <= end <= first + WINDOW_BYTES. Its memory is taken with the first byte, a page at a time. */
struct flow_window {
    unsigned char *bytes;
    uint64_t first; /* what lies before is not needed any more */
    uint64_t next;  /* what was passed on already (and may have to be again) lies before */
    uint64_t end;   /* what is here lies before */
};

/* How many more bytes fit. */
size_t flow_window_free(const struct flow_window *window);

/* Read from a descriptor into it, as read(2): at most what fits in one piece. Call only where something fits. */
ssize_t flow_window_read(struct flow_window *window, int fd);

/* Add bytes that begin at `offset`, leaving out those it has. False: they do not follow, or do not fit. */
bool flow_window_add(struct flow_window *window, uint64_t offset, const unsigned char *bytes, size_t size);

/* Return how many bytes lie in one piece from `offset` on, and where. */
size_t flow_window_at(const struct flow_window *window, uint64_t offset, const unsigned char **bytes);

/* Forget what lies before `offset`; one that cannot be does nothing. */
void flow_window_drop(struct flow_window *window, uint64_t offset);

/* Give its memory back. */
void flow_window_free_memory(struct flow_window *window);

#endif
