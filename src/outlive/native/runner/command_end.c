/* The ends of children. The command's is recorded before it is reaped: the zombie is the durable copy until then. */
#include "command_end.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "../common/kernel.h"
#include "command_start.h"

enum { AT_ONCE = 256 }; /* of a storm of children, before anything else gets its turn */

/* Whether the memory of its container ran out meanwhile. */
static bool was_oom(const struct container_shim *shim)
{
    return shim->oom_kills >= 0 && oom_kills() > shim->oom_kills;
}

static void note_end(struct container_shim *shim, const siginfo_t *info)
{
    char line[LINE_BYTES];

    shim->is_ending = true;
    shim->coming = info->si_code == CLD_EXITED ? EXITED : SIGNALED;
    shim->number = info->si_status;
    shim->ended_ns = now_ns();
    bool is_oom = shim->coming == SIGNALED && shim->number == SIGKILL && was_oom(shim);
    snprintf(line, sizeof line, "%s %d %lld %s", shim->coming == EXITED ? "exited" : "signaled", shim->number,
             (long long)shim->ended_ns, is_oom ? "oom" : "");
    add_record(&shim->record, line);
}

/* The command has ended. False: its end cannot be recorded yet. */
static bool end_command(struct container_shim *shim, const siginfo_t *info)
{
    hear_child_start(shim); /* whether it executed is known for certain now */
    if (shim->fate == FAILED) {
        reap_one(shim->child);
        shim->child = 0;
        return true;
    }
    if (!shim->is_ending)
        note_end(shim, info);
    if (!flush_record(&shim->record))
        return false;
    shim->fate = shim->coming;
    reap_one(shim->child);
    shim->child = 0;
    siginfo_t other;
    shim->is_empty = !find_ended(&other);
    report_to_supervisor(shim, "exited %s %d %d %lld", shim->fate == EXITED ? "exited" : "signaled", shim->number,
                         shim->is_empty, (long long)shim->ended_ns);
    return true;
}

void reap_ended(struct container_shim *shim)
{
    shim->must_reap = false;
    for (int count = 0; count < AT_ONCE; count++) {
        siginfo_t info;
        if (!find_ended(&info)) {
            if (shim->fate != ALIVE && !shim->is_empty) {
                shim->is_empty = true;
                report_to_supervisor(shim, "empty");
            }
            return;
        }
        if (info.si_pid == 0)
            return;
        if (info.si_pid != shim->child)
            reap_one(info.si_pid);
        else if (!end_command(shim, &info))
            return;
    }
    shim->must_reap = true;
}
