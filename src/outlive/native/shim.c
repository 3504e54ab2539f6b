#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failpoints.h"
#include "holder.h"
#include "kernel.h"

#define LOCK_NAME "/supervisor.pid"
#define IDENTITY_NAME "/identity"

enum {
    WORDS_BYTES = 256,
    RETRY_MS = 50, /* a full disk, a full table of descriptors */
};

void shim_say(const struct shim *shim, const char *format, ...)
{
    char words[WORDS_BYTES];
    va_list values;

    if (shim->link < 0)
        return;
    va_start(values, format);
    vsnprintf(words, sizeof words, format, values);
    va_end(values);
    /* A dead or deaf supervisor is no reason to stop: its successor asks for the state. */
    send_packet(shim->link, words, NULL, 0);
}

const char *shim_path(struct shim *shim, const char *suffix)
{
    snprintf(shim->folder + shim->folder_length, SUFFIX_BYTES, "%s", suffix);
    return shim->folder;
}

static void close_held(struct shim *shim, const char *letters)
{
    int kept = 0;

    for (int index = 0; index < shim->held_count; index++) {
        if (letters == NULL || strchr(letters, shim->letters[index]) != NULL) {
            close(shim->held[index]);
            continue;
        }
        shim->letters[kept] = shim->letters[index];
        shim->held[kept++] = shim->held[index];
    }
    shim->letters[kept] = '\0';
    shim->held_count = kept;
}

void shim_release(struct shim *shim)
{
    close_held(shim, NULL);
    if (shim->listener >= 0)
        close(shim->listener);
    shim->listener = -1;
    if (shim->unproven >= 0)
        close(shim->unproven);
    shim->unproven = -1;
    shim->serving = SERVES_NOTHING;
    shim->pid = 0;
    shim->ticks = 0;
    shim->ending = RUNS;
    shim->number = 0;
    shim->ended_ns = 0;
    shim->is_empty = false;
}

/* Whether the lock is gone, as with its folder: to one that was moved a supervisor will come. */
static bool is_deleted(int lock)
{
    struct stat about;

    return lock < 0 || fstat(lock, &about) != 0 || about.st_nlink == 0;
}

void shim_leave_if_forsaken(struct shim *shim)
{
    if (shim->link < 0 && shim->is_empty && is_deleted(shim->lock) && access(shim_path(shim, ""), F_OK) != 0)
        shim_release(shim);
}

static void tell_state(const struct shim *shim)
{
    static const char *const kinds[] = {"-", "exited", "signaled", "failed"};
    char words[WORDS_BYTES];

    snprintf(words, sizeof words, "state %s %s %d %llu %s %d %d %lld", shim->serving == OWNS ? "own" : "hold",
             shim->held_count > 0 ? shim->letters : "-", (int)shim->pid, shim->ticks, kinds[shim->ending], shim->number,
             shim->is_empty, (long long)shim->ended_ns);
    send_packet(shim->link, words, shim->held, shim->held_count);
}

static int open_lock(const struct shim *shim)
{
    char path[PATH_MAX + sizeof LOCK_NAME];

    snprintf(path, sizeof path, "%s" LOCK_NAME, shim->state_folder);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Read what the state folder is known by, as it is now. False: it is not there. */
static bool read_identity(const struct shim *shim, struct stat *about, char *identity)
{
    char path[PATH_MAX + sizeof IDENTITY_NAME];

    memset(identity, 0, IDENTITY_BYTES);
    snprintf(path, sizeof path, "%s" IDENTITY_NAME, shim->state_folder);
    read_small(path, identity, IDENTITY_BYTES);
    return stat(shim->state_folder, about) == 0;
}

static void remember_folder(struct shim *shim)
{
    struct stat about;

    if (!read_identity(shim, &about, shim->identity))
        return;
    shim->device = about.st_dev;
    shim->inode = about.st_ino;
}

/* A copy that lies in our folder's place is another one: by its inode, and by its identity. */
static bool is_same_folder(const struct shim *shim)
{
    char identity[IDENTITY_BYTES];
    struct stat about;

    return shim->inode != 0 && read_identity(shim, &about, identity) && about.st_ino == shim->inode &&
           about.st_dev == shim->device && memcmp(identity, shim->identity, IDENTITY_BYTES) == 0;
}

/* By the lock that was there when we began, wherever its folder lies now. What lies in its place counts only
   while no process holds that one: else a command could put a lock of its own there. */
static enum proof is_supervisor(struct shim *shim, int link)
{
    enum proof proof = shim->lock < 0 ? NO_HOLDER : holds_lock(link, shim->lock);
    bool is_free = shim->lock < 0 || !is_held(shim->lock);
    int lock = proof == NO_HOLDER && is_free && is_same_folder(shim) ? open_lock(shim) : -1;

    if (lock >= 0) {
        proof = holds_lock(link, lock);
        close(lock);
    }
    return proof;
}

/* Take the next connection, or the one whose proof could not be had. Returns -1 when there is none. */
static int accept_one(struct shim *shim, bool is_hung_up)
{
    int link = shim->unproven;

    shim->unproven = -1;
    if (link >= 0)
        return link;
    link = accept4(shim->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (link < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            shim->is_listener_resting = true;
        else if (is_hung_up || (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)) {
            close(shim->listener); /* shut down, which accept4 calls EAGAIN: it would be ready for ever */
            shim->listener = -1;
        }
    }
    return link;
}

/* The link is for the process that holds the supervisor's record lock: any command can connect, and has our uid. */
static void meet_supervisor(struct shim *shim, bool is_hung_up)
{
    int link = accept_one(shim, is_hung_up);
    enum proof proof = link < 0 ? NO_HOLDER : is_supervisor(shim, link);

    if (proof == CANNOT_TELL) {
        shim->unproven = link;
        shim->is_listener_resting = true;
    } else if (proof == NO_HOLDER && link >= 0)
        close(link);
    if (proof != IS_HOLDER)
        return;
    if (shim->link >= 0)
        close(shim->link);
    shim->link = link;
    tell_state(shim);
}

/* Do what a packet wants. False: it wants us to leave. */
static bool obey(struct shim *shim, struct packet *packet)
{
    char *verb = packet->words;
    char *rest = verb + strcspn(verb, " ");

    if (*rest == ' ')
        *rest++ = '\0';
    if (strcmp(verb, "spawn") == 0)
        shim_take(shim, packet, rest, true);
    else if (strcmp(verb, "hold") == 0)
        shim_take(shim, packet, rest, false);
    else if (strcmp(verb, "keep") == 0)
        shim_keep(shim, packet, rest);
    else if (strcmp(verb, "close") == 0)
        close_held(shim, rest);
    else if (strcmp(verb, "release") == 0) {
        shim_release(shim);
        bool patient = strcmp(rest, "patient") == 0;
        if (patient != shim->is_patient && be_patient(patient))
            shim->is_patient = patient;
    }
    return strcmp(verb, "quit") != 0;
}

/* False: we are to leave. */
static bool hear_supervisor(struct shim *shim)
{
    struct packet packet;
    bool stays = true;

    switch (receive_packet(shim->link, &packet)) {
    case HEARD_END:
        close(shim->link);
        shim->link = -1;
        shim_leave_if_forsaken(shim);
        break;
    case HEARD_PACKET:
        stays = obey(shim, &packet);
        close_packet(&packet);
        break;
    case HEARD_NOTHING:
        break;
    }
    return stays;
}

/* One turn: whatever is ready. False: it is over. */
static bool turn(struct shim *shim)
{
    struct pollfd polled[] = {
        {.fd = shim->wake, .events = POLLIN},
        {.fd = shim->link, .events = POLLIN}, /* poll(2) passes over what is negative */
        {.fd = shim->is_listener_resting ? -1 : shim->listener, .events = POLLIN},
    };
    struct signalfd_siginfo child;

    int patience_ms = shim->must_look || shim->is_listener_resting ? RETRY_MS : -1;
    shim->is_listener_resting = false;
    if (poll(polled, sizeof polled / sizeof *polled, patience_ms) < 0)
        return errno == EINTR || errno == ENOMEM;
    if (polled[0].revents != 0 && read(shim->wake, &child, sizeof child) > 0)
        shim->must_look = true;
    if (shim->must_look)
        shim_reap(shim);
    if (polled[1].revents != 0 && !hear_supervisor(shim))
        return false;
    if (shim->unproven >= 0 || (polled[2].revents != 0 && polled[2].fd == shim->listener))
        meet_supervisor(shim, (polled[2].revents & ~POLLIN) != 0);
    return shim->link >= 0 || shim->serving != SERVES_NOTHING;
}

/* Nothing reaches us but SIGCHLD: a shutdown's TERM is for commands (decision 62), which get all signals unblocked. */
static int open_wake(void)
{
    sigset_t wanted;

    reset_signals();
    block_all_signals(true);
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    return signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
}

int shim(const char *state_folder, bool is_lock_handed)
{
    static struct shim self = {.link = SHIM_LINK, .listener = -1, .unproven = -1};

    arm_failpoints();
    read_degrade();
    self.state_folder = state_folder;
    self.lock = is_lock_handed ? STDIN_FILENO : open_lock(&self);
    remember_folder(&self);
    environ = NULL; /* a command's is its spec's, and nothing else */
    prctl(PR_SET_NAME, "outlive-shim", 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* what it holds is not for commands of its user; execve opens theirs again */
    self.wake = open_wake();
    if (self.wake < 0 || chdir("/") != 0 || fcntl(SHIM_LINK, F_SETFD, FD_CLOEXEC) != 0 ||
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0 ||
        read_small("/proc/sys/kernel/random/boot_id", self.boot_id, sizeof self.boot_id) <= 0) {
        dprintf(2, "outlive-shim: it cannot begin: %s\n", strerror(errno));
        return 1;
    }
    self.boot_id[strcspn(self.boot_id, "\n")] = '\0';
    shim_say(&self, "hello %d", (int)getpid());
    while (turn(&self))
        continue;
    return 0;
}
