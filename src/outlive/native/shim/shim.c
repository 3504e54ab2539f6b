/* What a shim holds, and what it reports to its supervisor. shim_loop.h says what a shim is. */
#include "shim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "failpoints.h"

enum { WORDS_BYTES = 256 };

void shim_say(const struct shim *shim, const char *format, ...)
{
    char words[WORDS_BYTES];
    va_list values;

    if (shim->link < 0)
        return;
    va_start(values, format);
    vsnprintf(words, sizeof words, format, values);
    va_end(values);
    /* A dead or deaf supervisor is no reason to stop: its successor asks for the state. */
    send_packet(shim->link, words, NULL, 0);
}

void shim_heed_link(const struct shim *shim)
{
    if (!lacks("wake"))
        wake_by(shim->link);
}

const char *shim_path(struct shim *shim, const char *suffix)
{
    snprintf(shim->folder + shim->folder_length, SUFFIX_BYTES, "%s", suffix);
    return shim->folder;
}

void shim_close(struct shim *shim, const char *letters)
{
    int kept = 0;

    for (int index = 0; index < shim->held_count; index++) {
        if (letters == NULL || strchr(letters, shim->letters[index]) != NULL) {
            close(shim->held[index]);
            continue;
        }
        shim->letters[kept] = shim->letters[index];
        shim->held[kept++] = shim->held[index];
    }
    shim->letters[kept] = '\0';
    shim->held_count = kept;
}

void shim_release(struct shim *shim)
{
    prctl(PR_SET_NAME, SHIM_NAME, 0, 0, 0);
    shim_close(shim, NULL);
    if (shim->listener >= 0)
        close(shim->listener);
    shim->listener = -1;
    if (shim->unproven >= 0)
        close(shim->unproven);
    shim->unproven = -1;
    shim->serving = SERVES_NOTHING;
    shim->pid = 0;
    shim->ticks = 0;
    shim->ending = RUNS;
    shim->number = 0;
    shim->ended_ns = 0;
    shim->is_empty = false;
}

/* Whether the lock is gone, as with its folder: to one that was moved a supervisor will come. */
static bool is_deleted(int lock)
{
    struct stat about;

    return lock < 0 || fstat(lock, &about) != 0 || about.st_nlink == 0;
}

void shim_leave_if_forsaken(struct shim *shim)
{
    if (shim->link < 0 && shim->is_empty && is_deleted(shim->lock) && access(shim_path(shim, ""), F_OK) != 0)
        shim_release(shim);
}

void shim_send_state(const struct shim *shim)
{
    static const char *const kinds[] = {"-", "exited", "signaled", "failed"};
    char words[WORDS_BYTES];

    snprintf(words, sizeof words, "state %s %s %d %llu %s %d %d %lld", shim->serving == OWNS ? "own" : "hold",
             shim->held_count > 0 ? shim->letters : "-", (int)shim->pid, shim->ticks, kinds[shim->ending], shim->number,
             shim->is_empty, (long long)shim->ended_ns);
    send_packet(shim->link, words, shim->held, shim->held_count);
}
