/* How a shim's command ends: recorded before it is reaped, for the zombie is the durable copy until then. */
#include "exit.h"

#include <errno.h>

#include "../common/kernel.h"
#include "../common/failpoints.h"
#include "pid_file.h"

/* False: nothing more is to be reaped now; the end may have to be recorded once more. */
static bool record_exit(struct shim *shim, const siginfo_t *info)
{
    char line[LINE_BYTES];
    int64_t ended_ns = now_ns();

    hit("shim.exiting");
    write_end(line, info, ended_ns, "");
    int error = shim_add_line(shim, line);
    /* ENOENT: the folder was deleted, and no place for the line will come. EROFS: the supervisor writes it once it can. */
    shim->must_look = error != 0 && error != ENOENT && error != EROFS;
    if (shim->must_look)
        return false;
    hit("shim.exit_written");
    report_end(&shim->state, info, ended_ns);
    shim_leave_if_forsaken(shim);
    return !shim->state.is_empty && shim->serving != SERVES_NOTHING;
}

void shim_reap(struct shim *shim)
{
    siginfo_t info;
    enum reaped reaped;

    shim->must_look = false;
    do
        reaped = reap_children(shim->state.child, &info);
    while (reaped == REAPED_SOME || (reaped == COMMAND_ENDED && record_exit(shim, &info)));
    if (reaped == NO_CHILD_LEFT && become_empty(&shim->state))
        shim_leave_if_forsaken(shim);
}
