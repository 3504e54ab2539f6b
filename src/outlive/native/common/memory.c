/* Memory for one command at a time. A shim waits for its command for hours, so what the start needed is given back, and what
   held secrets is wiped. */
#include "memory.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum {
    NEAR_BYTES = 16384, /* mapping pages for each command, and unmapping them, takes longer than reading its spec */
    MOST_FAR = 8,
};

static alignas(max_align_t) char near[NEAR_BYTES];
static size_t near_used;
static struct {
    void *piece;
    size_t size;
} far[MOST_FAR];
static int far_count;

void *claim(size_t size)
{
    size_t whole = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);

    if (whole >= size && whole <= NEAR_BYTES - near_used) {
        near_used += whole;
        return near + near_used - whole;
    }
    if (far_count == MOST_FAR)
        return NULL;
    far[far_count].piece = malloc(size);
    far[far_count].size = size;
    return far[far_count].piece == NULL ? NULL : far[far_count++].piece;
}

void forget_claims(void)
{
    explicit_bzero(near, near_used); /* secrets, too */
    near_used = 0;
    while (far_count > 0) {
        far_count--;
        explicit_bzero(far[far_count].piece, far[far_count].size);
        free(far[far_count].piece);
    }
}
