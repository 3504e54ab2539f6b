/* The ends of children. The command's is recorded before it is reaped: the zombie is the durable copy until then. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "kernel.h"
#include "minder.h"

enum { AT_ONCE = 256 }; /* of a storm of children, before anything else gets its turn */

static bool has_no_child(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
}

void never_ran(struct minder *minder, int number, const char *place)
{
    char line[LINE_BYTES];

    minder->fate = FAILED;
    minder->number = number;
    minder->ended_ns = now_ns();
    minder->is_empty = true;
    snprintf(line, sizeof line, "failed %d %lld %s", number, (long long)minder->ended_ns, place);
    add_record(&minder->record, line);
    say(minder, "failed %d %s", number, place);
}

/* Whether the memory of its container ran out meanwhile; one that runs elsewhere is known by what its relay has said. */
static bool was_oom(const struct minder *minder)
{
    struct packet packet;

    if (minder->control < 0)
        return minder->oom_kills >= 0 && oom_kills() > minder->oom_kills;
    if (receive_packet(minder->control, &packet) != HEARD_PACKET)
        return false;
    close_packet(&packet);
    return strcmp(packet.words, "oom") == 0;
}

static void note_end(struct minder *minder, const siginfo_t *info)
{
    char line[LINE_BYTES];

    minder->is_ending = true;
    minder->coming = info->si_code == CLD_EXITED ? EXITED : SIGNALED;
    minder->number = info->si_status;
    minder->ended_ns = now_ns();
    bool is_oom = minder->coming == SIGNALED && minder->number == SIGKILL && was_oom(minder);
    snprintf(line, sizeof line, "%s %d %lld %s", minder->coming == EXITED ? "exited" : "signaled", minder->number,
             (long long)minder->ended_ns, is_oom ? "oom" : "");
    add_record(&minder->record, line);
}

/* The command has ended. False: its end cannot be recorded yet. */
static bool end_command(struct minder *minder, const siginfo_t *info)
{
    hear_child(minder); /* whether it executed is known for certain now */
    if (minder->fate == FAILED) {
        reap_one(minder->child);
        minder->child = 0;
        return true;
    }
    if (!minder->is_ending)
        note_end(minder, info);
    if (!flush_record(&minder->record))
        return false;
    minder->fate = minder->coming;
    reap_one(minder->child);
    minder->child = 0;
    minder->is_empty = has_no_child();
    say(minder, "exited %s %d %d %lld", minder->fate == EXITED ? "exited" : "signaled", minder->number, minder->is_empty,
        (long long)minder->ended_ns);
    return true;
}

void reap(struct minder *minder)
{
    minder->must_reap = false;
    for (int count = 0; count < AT_ONCE; count++) {
        siginfo_t info;
        memset(&info, 0, sizeof info);
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
            if (errno == ECHILD && minder->fate != ALIVE && !minder->is_empty) {
                minder->is_empty = true;
                say(minder, "empty");
            }
            return;
        }
        if (info.si_pid == 0)
            return;
        if (info.si_pid != minder->child)
            reap_one(info.si_pid);
        else if (!end_command(minder, &info))
            return;
    }
    minder->must_reap = true;
}
