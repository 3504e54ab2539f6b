/* From `spawn` to the program: descriptors are taken, the record begun, a child made; it waits for `go`. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "child.h"
#include "kernel.h"
#include "minder.h"
#include "stand.h"

static const char HELD_LETTERS[] = "oeirw";
static const char OWN_LETTERS[] = "IOESXF";

/* The command's own ends; the child has them, and we close them. */
struct ends {
    int fds[sizeof OWN_LETTERS - 1];
};

static int *end_of(struct ends *ends, char letter)
{
    const char *found = letter != '\0' ? strchr(OWN_LETTERS, letter) : NULL;

    return found == NULL ? NULL : &ends->fds[found - OWN_LETTERS];
}

static bool are_letters_good(const struct packet *packet, const char *letters, size_t count)
{
    if (count != (size_t)packet->count)
        return false;
    for (size_t index = 0; index < count; index++) {
        if (strchr("LP", letters[index]) == NULL && strchr(HELD_LETTERS, letters[index]) == NULL &&
            strchr(OWN_LETTERS, letters[index]) == NULL)
            return false;
        if (memchr(letters, letters[index], index) != NULL)
            return false;
    }
    return true;
}

/* Move the descriptors of a packet to their places. False: it is no `spawn` that could be carried out. */
static bool take(struct minder *minder, struct packet *packet, const char *letters, struct ends *ends)
{
    size_t count = strcspn(letters, " ");
    const char *listener = memchr(letters, 'L', count);

    for (size_t index = 0; index < sizeof OWN_LETTERS - 1; index++)
        ends->fds[index] = -1;
    if (!are_letters_good(packet, letters, count) || memchr(letters, 'P', count) == NULL ||
        memchr(letters, 'X', count) == NULL || (listener != NULL && !is_listener(packet->fds[listener - letters])) ||
        (memchr(letters, 'O', count) == NULL && minder->terminal < 0 && minder->terminal_error == 0))
        return false;
    for (size_t index = 0; index < count; index++) {
        int fd = packet->fds[index];
        packet->fds[index] = -1;
        if (letters[index] == 'L')
            minder->listener = fd;
        else if (letters[index] == 'P')
            minder->record.fd = fd;
        else if (end_of(ends, letters[index]) != NULL)
            *end_of(ends, letters[index]) = fd;
        else
            hold(minder, letters[index], fd);
    }
    if (minder->listener >= 0)
        fcntl(minder->listener, F_SETFL, fcntl(minder->listener, F_GETFL) | O_NONBLOCK);
    return true;
}

static void close_pair(int *ends)
{
    close(ends[0]);
    close(ends[1]);
}

/* Make the child, which waits. Returns 0 or an errno. */
static int give_birth(struct minder *minder, struct ends *ends)
{
    int go[2], report[2], pidfd, error;

    if (pipe2(go, O_CLOEXEC) != 0)
        return errno;
    if (pipe2(report, O_CLOEXEC) != 0) {
        error = errno;
        close_pair(go);
        return error;
    }
    int control[2] = {-1, -1};
    if (minder->stands_in && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, control) != 0) {
        error = errno;
        close_pair(go);
        close_pair(report);
        return error;
    }
    minder->oom_kills = oom_kills();
    pid_t child = fork_with_pidfd(&pidfd);
    if (child == 0) {
        close(go[1]); /* else our end would not be the last, and its death no end of file */
        close(report[0]);
        struct beginnings from = {
            .spec = *end_of(ends, 'X'),
            .secrets = *end_of(ends, 'S'),
            .script = *end_of(ends, 'F'),
            .terminal = minder->terminal,
            .input = *end_of(ends, 'I'),
            .output = *end_of(ends, 'O'),
            .errors = *end_of(ends, 'E'),
            .go = go[0],
            .report = report[1],
        };
        close_fd(&control[0]);
        if (minder->stands_in)
            stand_in(&from, control[1]);
        become_command(&from);
    }
    error = errno;
    close_fd(&control[1]);
    minder->control = control[0];
    close(go[0]);
    close(report[1]);
    if (child < 0) {
        close(go[1]);
        close(report[0]);
        close_fd(&minder->control);
        return error;
    }
    minder->child = minder->group = child;
    minder->go = go[1];
    minder->report = report[0];
    if (pidfd >= 0)
        hold(minder, 'p', pidfd);
    return 0;
}

static void say_born(struct minder *minder)
{
    char words[] = "born -\0";
    int fds[2];
    int count = 0;

    for (const char *letter = "pm"; *letter != '\0'; letter++) {
        int fd = held_under(minder, *letter);
        if (fd < 0)
            continue;
        words[strlen("born ") + (size_t)count] = *letter;
        fds[count++] = fd;
    }
    if (minder->link >= 0)
        send_packet(minder->link, words, fds, count);
}

void spawn(struct minder *minder, struct packet *packet, const char *letters)
{
    struct ends ends;

    if (minder->is_spawned)
        return;
    if (!take(minder, packet, letters, &ends)) {
        say(minder, "failed %d spec", EINVAL);
        return;
    }
    minder->is_spawned = true;
    peer_of(minder->link, &minder->owner);
    const char *place = "terminal";
    int error = minder->terminal_error;
    if (error == 0) {
        place = "pid";
        error = begin_record(&minder->record);
    }
    if (error == 0) {
        place = "program";
        error = give_birth(minder, &ends);
    }
    for (size_t index = 0; index < sizeof OWN_LETTERS - 1; index++)
        close_fd(&ends.fds[index]);
    close_fd(&minder->terminal);
    if (error != 0)
        never_ran(minder, error, place);
    else
        say_born(minder);
}

/* Tell whether a line can be a record, and remember the numbers it begins with. */
static bool take_line(struct minder *minder, const char *line)
{
    unsigned long long *numbers[] = {&minder->pid, &minder->ticks, &minder->started_ns};
    const char *rest = line;

    if (strlen(line) >= LINE_BYTES - 1)
        return false;
    for (const char *byte = line; *byte != '\0'; byte++)
        if (*byte < ' ' || *byte > '~')
            return false;
    for (size_t index = 0; index < 3; index++) {
        char *end;
        if (*rest < '0' || *rest > '9')
            return false;
        errno = 0;
        *numbers[index] = strtoull(rest, &end, 10);
        if (errno != 0 || (*end != ' ' && *end != '\0'))
            return false;
        rest = *end == ' ' ? end + 1 : end;
    }
    snprintf(minder->line, sizeof minder->line, "%s", line);
    return true;
}

void let_go(struct minder *minder, const char *line)
{
    if (minder->go < 0 || !take_line(minder, line))
        return;
    minder->may_go = true;
    if (write(minder->go, "", 1) != 1) {
        /* It is dead: nobody reads any more, and its end is about to be told. */
    }
    close_fd(&minder->go);
}

void hear_child(struct minder *minder)
{
    struct failure failure;

    if (minder->report < 0)
        return;
    ssize_t size = read(minder->report, &failure, sizeof failure);
    if (size < 0 && errno == EINTR)
        return;
    close_fd(&minder->report);
    close_fd(&minder->go);
    if (size == (ssize_t)sizeof failure) {
        failure.place[PLACE_BYTES - 1] = '\0';
        never_ran(minder, failure.number, failure.place);
    } else if (!minder->may_go) {
        never_ran(minder, ECANCELED, "program");
    } else { /* executed, or killed on the way: nobody can tell these apart, nor needs to */
        minder->has_executed = true;
        add_record(&minder->record, minder->line);
        say(minder, "spawned %llu %llu %llu", minder->pid, minder->ticks, minder->started_ns);
    }
}
