/* What a shim serves, and when it lets go of it. shim_loop.h says what a shim is. */
#include "shim.h"

#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/kernel.h"

const char *shim_path(struct shim *shim, const char *suffix)
{
    snprintf(shim->folder + shim->folder_length, SUFFIX_BYTES, "%s", suffix);
    return shim->folder;
}

void shim_release(struct shim *shim)
{
    prctl(PR_SET_NAME, SHIM_NAME, 0, 0, 0);
    close_held(&shim->state, NULL);
    close_fd(&shim->state.listener);
    close_fd(&shim->unproven);
    shim->serving = SERVES_NOTHING;
    shim->state.child = 0;
    shim->state.pid = shim->state.ticks = 0;
    shim->state.ending = RUNS;
    shim->state.number = 0;
    shim->state.ended_ns = 0;
    shim->state.is_empty = false;
}

/* Whether the lock is gone, as with its folder: to one that was moved a supervisor will come. */
static bool is_deleted(int lock)
{
    struct stat about;

    return lock < 0 || fstat(lock, &about) != 0 || about.st_nlink == 0;
}

void shim_leave_if_forsaken(struct shim *shim)
{
    const struct shim_state *state = &shim->state;

    if (state->link < 0 && state->is_empty && is_deleted(state->lock) && access(shim_path(shim, ""), F_OK) != 0)
        shim_release(shim);
}
