/* The duties of a first process: prepare itself, reap what has lost its parent, notice that it is over, and end the rest. */
#include "init_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "listener.h"
#include "container_shim.h"

enum {
    TERM_MS = 1250, /* the patience of a command's shim and a little: it records what it has to kill */
    KILL_MS = 3000,
    LOOK_MS = 20,
};

/* A descriptor below 3 that is closed would be taken by one of ours, and be a command's stream. */
static void fill_streams(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR); /* the commands do not get these: theirs are put over them */
    while (fd >= 0 && fd < 3);
    close_from(3, false);
}

static void signal_all_processes(int number)
{
    if (getpid() == 1)
        kill(-1, number); /* all of the container, not only what we started (kill(2): never PID 1 itself) */
    else
        signal_tree(number);
}

/* TERM to all, KILL to what is left: the shims record how their commands end. */
void end_all_processes(void)
{
    int64_t begun = now_ms();
    siginfo_t info;

    signal_all_processes(SIGTERM);
    while (reap_children(0, &info) != NO_CHILD_LEFT) {
        int64_t passed = now_ms() - begun;
        if (passed > KILL_MS)
            return;
        if (passed > TERM_MS)
            signal_all_processes(SIGKILL);
        poll(NULL, 0, LOOK_MS);
    }
}

int begin_serving(void)
{
    sigset_t wanted;

    fill_streams();
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    open_oom_score();
    /* A fork has our memory until it executes, and commands of our user must not look into it. execve(2) makes a process
       dumpable again, so commands are not affected. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
        complain("PR_SET_DUMPABLE");
        return -1;
    }
    /* An emulator refuses this. Without it what a command leaves behind could not be found: so nothing starts. */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
        complain("PR_SET_CHILD_SUBREAPER");
        return -1;
    }
    int wake = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (wake < 0)
        complain("signalfd");
    return wake;
}

bool has_end_signal(int wake)
{
    struct signalfd_siginfo heard;
    bool is_over = false, is_first = getpid() == 1;

    /* In a container a command inside must not end all others: only a sender that the kernel cannot number here (0) is
       outside, as the daemon is. */
    while (read(wake, &heard, sizeof heard) == (ssize_t)sizeof heard)
        is_over |= heard.ssi_signo != SIGCHLD && (!is_first || heard.ssi_pid == 0);
    return is_over;
}
