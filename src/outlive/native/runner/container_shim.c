/* What the shim of a container's command holds, and what it reports to its supervisor. The files that act on it, from the
   loop down, are described in container_shim_loop.h. */
#include "container_shim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/packets.h"

void report_to_supervisor(struct container_shim *shim, const char *format, ...)
{
    char words[LINE_BYTES];
    va_list values;

    if (shim->link < 0)
        return;
    va_start(values, format);
    vsnprintf(words, sizeof words, format, values);
    va_end(values);
    /* A dead or deaf supervisor is no reason to stop: its successor gets the state. */
    send_packet(shim->link, words, NULL, 0);
}

bool hold_descriptor(struct container_shim *shim, char letter, int fd)
{
    if (shim->held_count == HELD - 1) { /* the letters end with NUL */
        close(fd);
        return false;
    }
    shim->letters[shim->held_count] = letter;
    shim->held[shim->held_count++] = fd;
    return true;
}

int held_under(const struct container_shim *shim, char letter)
{
    for (int index = 0; index < shim->held_count; index++)
        if (shim->letters[index] == letter)
            return shim->held[index];
    return -1;
}

void release_descriptor(struct container_shim *shim, char letter)
{
    for (int index = 0; index < shim->held_count; index++) {
        if (shim->letters[index] != letter)
            continue;
        close(shim->held[index]);
        int behind = --shim->held_count - index;
        memmove(&shim->letters[index], &shim->letters[index + 1], (size_t)behind + 1);
        memmove(&shim->held[index], &shim->held[index + 1], (size_t)behind * sizeof(int));
        shim->letters[shim->held_count] = '\0';
        return;
    }
}

void command_never_ran(struct container_shim *shim, int number, const char *place)
{
    char line[LINE_BYTES];

    shim->fate = FAILED;
    shim->number = number;
    shim->ended_ns = now_ns();
    shim->is_empty = true;
    snprintf(line, sizeof line, "failed %d %lld %s", number, (long long)shim->ended_ns, place);
    add_record(&shim->record, line);
    report_to_supervisor(shim, "failed %d %s", number, place);
}
