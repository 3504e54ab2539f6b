/* The loop of the shim of a container's command: it waits for signals, its child, peers and its supervisor, and does a
   bounded piece of each. What a piece does is in the file of its name: command, terminal, peers. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/packets.h"
#include "container_shim.h"

enum {
    RETRY_MS = 50,       /* a full disk, a full table of descriptors */
    LOOK_MS = 60000,     /* whether the record was deleted: nothing tells of that */
    LEAVE_MS = 1000,     /* between the runner's TERM and the KILL to what is left */
    LEAVE_LOOK_MS = 20,
    ASKED_FROM = 4, /* where those that were asked begin among what is polled */
};

/* No supervisor is there, no process lives, and no supervisor can come: the record was deleted, or there is no socket to
   connect to. */
static bool is_forsaken(const struct container_shim *shim)
{
    if (shim->state.link >= 0)
        return false;
    if (!shim->is_spawned)
        return true;
    return shim->state.is_empty && shim->record.size == 0 &&
           (shim->state.listener < 0 || (shim->record.fd >= 0 && is_deleted(shim->record.fd)));
}

/* The runner is to end: the command has had its TERM; what is left after a second gets KILL. */
static bool must_leave(struct container_shim *shim)
{
    if (shim->leave_at == 0)
        return false;
    if (!shim->is_spawned || shim->state.is_empty)
        return true;
    if (now_ms() >= shim->leave_at)
        signal_tree(SIGKILL);
    return false;
}

static void hear_signals(struct container_shim *shim)
{
    struct signalfd_siginfo signals[8];
    ssize_t size = read(shim->state.wake, signals, sizeof signals);

    for (ssize_t index = 0; index < size / (ssize_t)sizeof *signals; index++) {
        /* From the runner only: a command that signals every process it may must not end its shim. */
        bool is_end = signals[index].ssi_signo == SIGTERM && signals[index].ssi_pid == (uint32_t)shim->runner;
        if (is_end && shim->leave_at == 0)
            shim->leave_at = now_ms() + LEAVE_MS;
    }
    shim->must_reap = true;
}

/* Do what a packet wants: `rest` stands behind its verb; what makes no sense does nothing. False: we are to leave. */
static bool carry_out(struct container_shim *shim, struct packet *packet, char *rest)
{
    const char *verb = packet->words;

    if (strcmp(verb, "release") == 0 || strcmp(verb, "quit") == 0)
        return false;
    if (strcmp(verb, "terminal") == 0)
        make_terminal(shim, rest);
    else if (strcmp(verb, "spawn") == 0)
        start_command(shim, packet, rest);
    else if (strcmp(verb, "go") == 0)
        let_execute(shim, rest);
    else if (strcmp(verb, "close") == 0)
        close_held(&shim->state, rest);
    return true;
}

static bool hear(struct container_shim *shim)
{
    struct packet packet;
    char *rest = hear_supervisor(&shim->state, &packet);

    if (rest == NULL)
        return true;
    bool stays = carry_out(shim, &packet, rest);
    close_packet(&packet);
    return stays;
}

static int patience(const struct container_shim *shim)
{
    if (shim->must_reap)
        return 0;
    if (shim->leave_at != 0)
        return LEAVE_LOOK_MS;
    if (shim->record.size > 0 || shim->state.is_listener_resting)
        return RETRY_MS;
    return shim->state.link < 0 && shim->state.is_empty ? LOOK_MS : -1;
}

/* One turn: a bounded piece of everything that waits. False: it is over. */
static bool turn(struct container_shim *shim)
{
    struct pollfd polled[] = {
        {.fd = shim->state.wake, .events = POLLIN},
        {.fd = shim->report, .events = POLLIN}, /* poll(2) passes over what is negative */
        {.fd = shim->state.is_listener_resting ? -1 : shim->state.listener, .events = POLLIN},
        {.fd = shim->state.link, .events = POLLIN},
        [ASKED_FROM + ASKED_AT_ONCE - 1] = {.fd = -1},
    };

    for (int index = 0; index < ASKED_AT_ONCE; index++)
        polled[ASKED_FROM + index] = (struct pollfd){.fd = shim->asked[index].link, .events = POLLIN};
    int patience_ms = patience(shim);
    shim->state.is_listener_resting = false;
    if (poll(polled, sizeof polled / sizeof *polled, patience_ms) < 0 && errno != EINTR && errno != ENOMEM)
        return false;
    if (polled[0].revents != 0)
        hear_signals(shim);
    if (polled[1].revents != 0)
        hear_child_start(shim);
    if (shim->record.size > 0 && flush_record(&shim->record))
        shim->must_reap = true;
    if (shim->must_reap)
        reap_ended(shim);
    if (polled[3].revents != 0 && !hear(shim))
        return false;
    if (polled[2].revents != 0)
        meet_peer(shim, (polled[2].revents & ~POLLIN) != 0);
    for (int index = 0; index < ASKED_AT_ONCE; index++)
        if (polled[ASKED_FROM + index].revents != 0)
            hear_asked(shim, index);
    return !must_leave(shim) && !is_forsaken(shim);
}

/* Become the shim. `shim` needs what says how it works; the rest is set here. */
static void begin(struct container_shim *shim, int link, int lock)
{
    shim->state.link = -1;
    shim->state.lock = lock;
    shim->state.listener = shim->terminal = shim->go = shim->report = shim->record.fd = -1;
    shim->runner = getppid();
    shim->state.wake = open_wake(true);
    if (shim->state.wake < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        _exit(1); /* that its memory is closed to commands it has from the runner */
    setsid(); /* a terminal's keys are for commands */
    for (int index = 0; index < ASKED_AT_ONCE; index++)
        shim->asked[index].link = -1;
    if (lock >= 0 && !proves_itself(link, lock, shim->state.wake))
        _exit(0);
    take_link(&shim->state, link);
    report(&shim->state, "hello %d", (int)getpid());
}

noreturn void run_container_shim(int link, bool lets_any_in, int lock)
{
    struct container_shim shim = {.lets_any_in = lets_any_in};

    begin(&shim, link, lock);
    while (turn(&shim))
        continue;
    _exit(0);
}
