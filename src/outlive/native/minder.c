#include "minder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "kernel.h"
#include "tree.h"

enum {
    RETRY_MS = 50,       /* a full disk, a full table of descriptors */
    LEAVE_MS = 1000,     /* between the runner's TERM and the KILL to what is left */
    LEAVE_LOOK_MS = 20,
    ASKED_FROM = 4, /* where those that were asked begin among what is polled */
};

void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void say(struct minder *minder, const char *format, ...)
{
    char words[LINE_BYTES];
    va_list values;

    if (minder->link < 0)
        return;
    va_start(values, format);
    vsnprintf(words, sizeof words, format, values);
    va_end(values);
    /* A dead or deaf supervisor is no reason to stop: its successor is told the state. */
    send_packet(minder->link, words, NULL, 0);
}

bool hold(struct minder *minder, char letter, int fd)
{
    if (minder->held_count == HELD - 1) { /* the letters end with NUL */
        close(fd);
        return false;
    }
    minder->letters[minder->held_count] = letter;
    minder->held[minder->held_count++] = fd;
    return true;
}

int held_under(const struct minder *minder, char letter)
{
    for (int index = 0; index < minder->held_count; index++)
        if (minder->letters[index] == letter)
            return minder->held[index];
    return -1;
}

void let_fall(struct minder *minder, char letter)
{
    for (int index = 0; index < minder->held_count; index++) {
        if (minder->letters[index] != letter)
            continue;
        close(minder->held[index]);
        int behind = --minder->held_count - index;
        memmove(&minder->letters[index], &minder->letters[index + 1], (size_t)behind + 1);
        memmove(&minder->held[index], &minder->held[index + 1], (size_t)behind * sizeof(int));
        minder->letters[minder->held_count] = '\0';
        return;
    }
}

/* Nobody is there, nothing lives, and nobody can come: the record was deleted, or there is no socket to connect to. */
static bool is_forsaken(const struct minder *minder)
{
    if (minder->link >= 0)
        return false;
    if (!minder->is_spawned)
        return true;
    return minder->is_empty && minder->record.size == 0 &&
           (minder->listener < 0 || is_record_deleted(&minder->record));
}

/* The runner was told to end: the command has had its TERM; what is left after a second gets KILL. */
static bool has_left(struct minder *minder)
{
    static const int kill[] = {SIGKILL};

    if (minder->leave_at == 0)
        return false;
    if (!minder->is_spawned || minder->is_empty)
        return true;
    if (now_ms() >= minder->leave_at)
        signal_tree(kill, 1, 0);
    return false;
}

static void hear_signals(struct minder *minder)
{
    struct signalfd_siginfo signals[8];
    ssize_t size = read(minder->wake, signals, sizeof signals);

    for (ssize_t index = 0; index < size / (ssize_t)sizeof *signals; index++) {
        /* From the runner only: a command that signals everybody it may must not end its keeper. */
        bool is_end = signals[index].ssi_signo == SIGTERM && signals[index].ssi_pid == (uint32_t)minder->runner;
        if (is_end && minder->leave_at == 0)
            minder->leave_at = now_ms() + LEAVE_MS;
    }
    minder->must_reap = true;
}

static bool hear_supervisor(struct minder *minder)
{
    struct packet packet;
    bool stays = true;

    switch (receive_packet(minder->link, &packet)) {
    case HEARD_END:
        close_fd(&minder->link);
        break;
    case HEARD_PACKET:
        stays = obey(minder, &packet);
        close_packet(&packet);
        break;
    case HEARD_NOTHING:
        break;
    }
    return stays;
}

static int patience(const struct minder *minder)
{
    if (minder->must_reap)
        return 0;
    if (minder->leave_at != 0)
        return LEAVE_LOOK_MS;
    return minder->record.size > 0 || minder->is_listener_resting ? RETRY_MS : -1;
}

/* One turn: a bounded piece of everything that waits. False: it is over. */
static bool turn(struct minder *minder)
{
    struct pollfd polled[] = {
        {.fd = minder->wake, .events = POLLIN},
        {.fd = minder->report, .events = POLLIN}, /* poll(2) passes over what is negative */
        {.fd = minder->is_listener_resting ? -1 : minder->listener, .events = POLLIN},
        {.fd = minder->link, .events = POLLIN},
        [ASKED_FROM + ASKED_AT_ONCE - 1] = {.fd = -1},
    };

    for (int index = 0; index < ASKED_AT_ONCE; index++)
        polled[ASKED_FROM + index] = (struct pollfd){.fd = minder->asked[index].link, .events = POLLIN};
    int patience_ms = patience(minder);
    minder->is_listener_resting = false;
    if (poll(polled, sizeof polled / sizeof *polled, patience_ms) < 0 && errno != EINTR && errno != ENOMEM)
        return false;
    if (polled[0].revents != 0)
        hear_signals(minder);
    if (polled[1].revents != 0)
        hear_child(minder);
    if (minder->record.size > 0 && flush_record(&minder->record))
        minder->must_reap = true;
    if (minder->must_reap)
        reap(minder);
    if (polled[3].revents != 0 && !hear_supervisor(minder))
        return false;
    if (polled[2].revents != 0)
        meet_peer(minder, (polled[2].revents & ~POLLIN) != 0);
    for (int index = 0; index < ASKED_AT_ONCE; index++)
        if (polled[ASKED_FROM + index].revents != 0)
            hear_asked(minder, index);
    return !has_left(minder) && !is_forsaken(minder);
}

noreturn void mind(int link, unsigned how, int lock)
{
    sigset_t wanted;
    struct minder minder = {
        .link = link,
        .lock = lock,
        .listener = -1,
        .lets_any_in = (how & LETS_ANY_IN) != 0,
        .stands_in = (how & STANDS_IN) != 0,
        .control = -1,
        .runner = getppid(),
        .terminal = -1,
        .go = -1,
        .report = -1,
        .record = {.fd = -1},
    };

    block_all_signals(true);
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    sigaddset(&wanted, SIGTERM);
    minder.wake = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (minder.wake < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        _exit(1); /* that its memory is closed to commands it has from the runner */
    setsid(); /* a terminal's keys are for commands */
    for (int index = 0; index < ASKED_AT_ONCE; index++)
        minder.asked[index].link = -1;
    if (lock >= 0 && !proves_itself(link, lock, minder.wake))
        _exit(0);
    say(&minder, "hello %d", (int)getpid());
    while (turn(&minder))
        continue;
    _exit(0);
}
