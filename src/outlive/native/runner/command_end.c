/* The ends of children. The command's is recorded before it is reaped: the zombie is the durable copy until then. */
#include "command_end.h"

#include <signal.h>

#include "../common/kernel.h"
#include "command_start.h"

/* Whether the memory of its container ran out meanwhile. */
static bool was_oom(const struct container_shim *shim)
{
    return shim->oom_kills >= 0 && oom_kills() > shim->oom_kills;
}

static void note_end(struct container_shim *shim, const siginfo_t *info)
{
    char line[LINE_BYTES];

    shim->is_ending = true;
    shim->state.number = info->si_status;
    shim->state.ended_ns = now_ns();
    bool is_oom = info->si_code != CLD_EXITED && info->si_status == SIGKILL && was_oom(shim);
    write_end(line, info, shim->state.ended_ns, is_oom ? "oom" : "");
    add_record(&shim->record, line);
}

/* The command has ended. False: its end cannot be recorded yet. */
static bool end_command(struct container_shim *shim, const siginfo_t *info)
{
    hear_child_start(shim); /* whether it executed is known for certain now */
    if (shim->state.ending == HAS_FAILED) {
        reap_one(shim->state.child);
        shim->state.child = 0;
        return true;
    }
    if (!shim->is_ending)
        note_end(shim, info);
    if (!flush_record(&shim->record))
        return false;
    report_end(&shim->state, info, shim->state.ended_ns);
    return true;
}

void reap_ended(struct container_shim *shim)
{
    siginfo_t info;
    enum reaped reaped;

    do
        reaped = reap_children(shim->state.child, &info);
    while (reaped == COMMAND_ENDED && end_command(shim, &info));
    shim->must_reap = reaped == REAPED_SOME;
    if (reaped == NO_CHILD_LEFT)
        become_empty(&shim->state);
}
