/* The loop of a shim: it waits for its child, its supervisor and a new one, and does what came. What it does is in the
   file of its name: start, record, supervisor. */
#include "shim_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "../common/failpoints.h"
#include "../common/kernel.h"
#include "shim.h"

enum {
    RETRY_MS = 50,     /* a full disk, a full table of descriptors */
    LOOK_MS = 60000,   /* whether the state folder is gone: nothing tells of that */
};

/* Do what a packet wants. False: it wants us to leave. */
static bool carry_out_packet(struct shim *shim, struct packet *packet, char *rest)
{
    const char *verb = packet->words;

    if (strcmp(verb, "spawn") == 0)
        shim_take(shim, packet, rest, true);
    else if (strcmp(verb, "hold") == 0)
        shim_take(shim, packet, rest, false);
    else if (strcmp(verb, "keep") == 0)
        shim_keep(shim, packet, rest);
    else if (strcmp(verb, "close") == 0)
        close_held(&shim->state, rest);
    else if (strcmp(verb, "release") == 0) {
        shim_release(shim);
        bool is_wanted = strcmp(rest, "patient") == 0;
        if (is_wanted != shim->is_batch_scheduled && set_batch_scheduling(is_wanted))
            shim->is_batch_scheduled = is_wanted;
    }
    return strcmp(verb, "quit") != 0;
}

/* False: we are to leave. */
static bool hear(struct shim *shim)
{
    struct packet packet;
    bool stays = true;
    char *rest = hear_supervisor(&shim->state, &packet);

    if (rest != NULL) {
        stays = carry_out_packet(shim, &packet, rest);
        close_packet(&packet);
    } else
        shim_leave_if_forsaken(shim);
    return stays;
}

/* How long to wait for something to happen. */
static int patience(const struct shim *shim)
{
    if (shim->must_look || shim->state.is_listener_resting)
        return RETRY_MS;
    if (shim->state.link >= 0 || !shim->state.is_empty)
        return -1;
    return lacks("minute") ? RETRY_MS : LOOK_MS; /* all is over, and only a supervisor can let us go */
}

/* One turn: whatever is ready. False: it is over. */
static bool turn(struct shim *shim)
{
    struct pollfd polled[] = {
        {.fd = shim->state.wake, .events = POLLIN},
        {.fd = shim->state.link, .events = POLLIN}, /* poll(2) passes over what is negative */
        {.fd = shim->state.is_listener_resting ? -1 : shim->state.listener, .events = POLLIN},
    };
    struct signalfd_siginfo child;

    int patience_ms = patience(shim);
    shim->state.is_listener_resting = false;
    int ready = poll(polled, sizeof polled / sizeof *polled, patience_ms);
    if (ready < 0)
        return errno == EINTR || errno == ENOMEM;
    if (ready == 0)
        shim_leave_if_forsaken(shim);
    if (polled[0].revents != 0 && read(shim->state.wake, &child, sizeof child) > 0)
        shim->must_look = true;
    if (shim->must_look)
        shim_reap(shim);
    if (polled[1].revents != 0 && !hear(shim))
        return false;
    if (shim->unproven >= 0 || (polled[2].revents != 0 && polled[2].fd == shim->state.listener))
        meet_supervisor(shim, (polled[2].revents & ~POLLIN) != 0);
    return shim->state.link >= 0 || shim->serving != SERVES_NOTHING;
}

/* Give what we start one file lock less than we were given. No kernel since Linux 2.4.25 counts them (setrlimit(2)), each
   process inherits the limit, and only root raises it: it says of a command that no shim, session or environment
   leads back from that it is one (decision 226). Where it cannot be set, the others say so. */
static void lower_limit_of_locks(void)
{
    struct rlimit locks;

    if (getrlimit(RLIMIT_LOCKS, &locks) != 0 || locks.rlim_max == 0)
        return;
    locks.rlim_max = locks.rlim_max > INT64_MAX ? INT64_MAX : locks.rlim_max - 1;
    locks.rlim_cur = locks.rlim_max;
    setrlimit(RLIMIT_LOCKS, &locks);
}

int run_shim(const char *state_folder, bool is_lock_handed)
{
    static struct shim self = {.state = {.link = -1, .listener = -1}, .unproven = -1};

    read_settings_of_tests();
    self.state_folder = state_folder;
    self.state.lock = is_lock_handed ? STDIN_FILENO : open_lock(&self);
    remember_folder(&self);
    environ = NULL; /* a command's is its spec's, and nothing else */
    prctl(PR_SET_NAME, SHIM_NAME, 0, 0, 0);
    open_oom_score();
    lower_limit_of_locks();
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* what it holds is not for commands of its user; execve opens theirs again */
    /* Nothing reaches us but SIGCHLD: a shutdown's TERM is for commands (decision 62), which get all signals unblocked. */
    reset_signals();
    self.state.wake = open_wake(false);
    if (self.state.wake < 0 || chdir("/") != 0 || fcntl(SHIM_LINK, F_SETFD, FD_CLOEXEC) != 0 ||
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0 ||
        read_small("/proc/sys/kernel/random/boot_id", self.boot_id, sizeof self.boot_id) <= 0) {
        dprintf(2, "outlive-shim: it cannot begin: %s\n", strerror(errno));
        return 1;
    }
    self.boot_id[strcspn(self.boot_id, "\n")] = '\0';
    take_link(&self.state, SHIM_LINK);
    report(&self.state, "hello %d", (int)getpid());
    while (turn(&self))
        continue;
    return 0;
}
