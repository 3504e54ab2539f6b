/* What a shim serves, and when it lets go of it. shim_loop.h says what a shim is. */
#include "shim.h"

#include <stdio.h>
#include <sys/prctl.h>
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
    struct shim_state kept = shim->state;
    shim->state = (struct shim_state){.link = kept.link, .wake = kept.wake, .listener = -1, .lock = kept.lock};
}

void shim_leave_if_forsaken(struct shim *shim)
{
    const struct shim_state *state = &shim->state;

    /* The lock has gone with its folder: to one that was moved a supervisor will come. */
    if (state->link < 0 && state->is_empty && is_deleted(state->lock) && access(shim_path(shim, ""), F_OK) != 0)
        shim_release(shim);
}
