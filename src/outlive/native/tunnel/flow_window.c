/* A flow-control window: a ring of bytes addressed by their offsets in the endless sequence. Its memory is mapped with
   the first byte, because most commands never write to some of their streams. */
#include "flow_window.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool has_memory(struct flow_window *window)
{
    if (window->bytes == NULL) {
        void *space = mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        window->bytes = space == MAP_FAILED ? NULL : space;
    }
    return window->bytes != NULL;
}

size_t flow_window_free(const struct flow_window *window)
{
    return WINDOW_BYTES - (size_t)(window->end - window->first);
}

/* Return how many bytes fit in one piece, and where. */
static size_t hole(const struct flow_window *window, unsigned char **place)
{
    size_t index = (size_t)(window->end % WINDOW_BYTES);
    size_t fits = flow_window_free(window);

    *place = window->bytes + index;
    return fits < WINDOW_BYTES - index ? fits : WINDOW_BYTES - index;
}

ssize_t flow_window_read(struct flow_window *window, int fd)
{
    unsigned char *place;

    if (!has_memory(window)) {
        errno = EAGAIN;
        return -1;
    }
    size_t fits = hole(window, &place);
    ssize_t got = read(fd, place, fits);
    if (got > 0)
        window->end += (uint64_t)got;
    return got;
}

bool flow_window_add(struct flow_window *window, uint64_t offset, const unsigned char *bytes, size_t size)
{
    unsigned char *place;

    if (offset > window->end)
        return false;
    if (offset + size <= window->end)
        return true;
    size_t known = (size_t)(window->end - offset);
    bytes += known;
    size -= known;
    if (size > flow_window_free(window) || !has_memory(window))
        return false;
    while (size > 0) {
        size_t fits = hole(window, &place);
        fits = fits < size ? fits : size;
        memcpy(place, bytes, fits);
        window->end += fits;
        bytes += fits;
        size -= fits;
    }
    return true;
}

size_t flow_window_at(const struct flow_window *window, uint64_t offset, const unsigned char **bytes)
{
    size_t index = (size_t)(offset % WINDOW_BYTES);
    uint64_t there = window->end - offset;

    if (there == 0)
        return 0;
    *bytes = window->bytes + index;
    return there < WINDOW_BYTES - index ? (size_t)there : WINDOW_BYTES - index;
}

void flow_window_drop(struct flow_window *window, uint64_t offset)
{
    if (offset < window->first || offset > window->end)
        return;
    window->first = offset;
    if (window->next < offset)
        window->next = offset;
}

void flow_window_free_memory(struct flow_window *window)
{
    if (window->bytes != NULL)
        munmap(window->bytes, WINDOW_BYTES);
    window->bytes = NULL;
    window->first = window->next = window->end;
}
