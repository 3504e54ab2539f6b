/* How a shim's command ends: recorded before it is reaped, for the zombie is the durable copy until then. */
#include "exit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "../common/kernel.h"
#include "failpoints.h"
#include "pid_file.h"

enum { MOST_LINE = 128 };

/* False: it cannot be recorded yet. */
static bool record_exit(struct shim *shim, const siginfo_t *info)
{
    char line[MOST_LINE];
    bool has_exited = info->si_code == CLD_EXITED;
    const char *kind = has_exited ? "exited" : "signaled";
    int64_t ended_ns = now_ns();

    hit("shim.exiting");
    snprintf(line, sizeof line, "%s %d %lld \n", kind, info->si_status, (long long)ended_ns);
    int error = shim_add_line(shim, line);
    /* ENOENT: the folder was deleted, and no place for the line will come. EROFS: the supervisor writes it once it can. */
    if (error != 0 && error != ENOENT && error != EROFS)
        return false;
    hit("shim.exit_written");
    shim->ending = has_exited ? HAS_EXITED : WAS_SIGNALED;
    shim->number = info->si_status;
    shim->ended_ns = ended_ns;
    reap_one(shim->pid);
    hit("shim.reaped");
    siginfo_t other;
    shim->is_empty = !find_ended(&other);
    shim_say(shim, "exited %s %d %d %lld", kind, shim->number, shim->is_empty, (long long)ended_ns);
    shim_leave_if_forsaken(shim);
    return true;
}

static void become_empty(struct shim *shim)
{
    if (shim->ending == RUNS || shim->is_empty)
        return;
    shim->is_empty = true;
    shim_say(shim, "empty");
    shim_leave_if_forsaken(shim);
}

void shim_reap(struct shim *shim)
{
    siginfo_t info;

    shim->must_look = false;
    for (;;) {
        if (!find_ended(&info)) {
            become_empty(shim);
            return;
        }
        if (info.si_pid == 0)
            return;
        if (info.si_pid != shim->pid || shim->ending != RUNS)
            reap_one(info.si_pid);
        else if (!record_exit(shim, &info)) {
            shim->must_look = true;
            return;
        } else if (shim->is_empty || shim->serving == SERVES_NOTHING)
            return;
    }
}
