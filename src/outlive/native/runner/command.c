/* A command from `spawn` to its end. Descriptors are taken, the record is begun, a child made, which waits for `go`. Its end
   is recorded before it is reaped: the zombie is the durable copy until then. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/spec.h"
#include "container_shim.h"

static const char HELD_LETTERS[] = "oeirw";
static const char OWN_LETTERS[] = "IOESXFP";

/* Move the descriptors of a packet to their places. False: it is no `spawn` that could be carried out. */
static bool take(struct container_shim *shim, struct packet *packet, const char *letters, int *ends)
{
    size_t count = strcspn(letters, " ");

    for (size_t index = 0; index < OWN_COUNT; index++)
        ends[index] = -1;
    if (!are_letters_good(packet, letters, count, HELD_LETTERS, OWN_LETTERS) ||
        memchr(letters, 'P', count) == NULL || memchr(letters, 'X', count) == NULL ||
        (memchr(letters, 'O', count) == NULL && shim->terminal < 0 && shim->terminal_error == 0))
        return false;
    place_descriptors(&shim->state, packet, letters, count, OWN_LETTERS, ends);
    shim->record.fd = ends[RECORD];
    ends[RECORD] = -1;
    if (shim->state.listener >= 0)
        fcntl(shim->state.listener, F_SETFL, fcntl(shim->state.listener, F_GETFL) | O_NONBLOCK);
    return true;
}

/* Record that the command never ran, and report it. */
static void command_never_ran(struct container_shim *shim, int number, const char *place)
{
    char line[LINE_BYTES];

    note_failure(&shim->state, number, place, line);
    add_record(&shim->record, line);
    report(&shim->state, "failed %d %s", number, place);
}

static void close_pair(int *ends)
{
    close(ends[0]);
    close(ends[1]);
}

/* Make the child, which waits. Returns 0 or an errno. */
static int make_child(struct container_shim *shim, const int *ends)
{
    int go[2], told[2], pidfd, error;

    if (pipe2(go, O_CLOEXEC) != 0)
        return errno;
    if (pipe2(told, O_CLOEXEC) != 0) {
        error = errno;
        close_pair(go);
        return error;
    }
    shim->oom_kills = oom_kills();
    pid_t child = fork_with_pidfd(&pidfd);
    if (child == 0) {
        close(go[1]); /* else our end would not be the last, and its death no end of file */
        close(told[0]);
        struct beginnings from = {.ends = ends, .terminal = shim->terminal, .go = go[0], .report = told[1]};
        become_command(&from);
    }
    error = errno;
    close(go[0]);
    close(told[1]);
    if (child < 0) {
        close(go[1]);
        close(told[0]);
        return error;
    }
    shim->state.child = child;
    shim->go = go[1];
    shim->report = told[0];
    if (pidfd >= 0)
        hold(&shim->state, 'p', pidfd);
    return 0;
}

static void report_birth(struct container_shim *shim)
{
    char words[] = "born -\0";
    int fds[2];
    int count = 0;

    for (const char *letter = "pm"; *letter != '\0'; letter++) {
        int fd = held_under(&shim->state, *letter);
        if (fd < 0)
            continue;
        words[strlen("born ") + (size_t)count] = *letter;
        fds[count++] = fd;
    }
    if (shim->state.link >= 0)
        send_packet(shim->state.link, words, fds, count);
}

void start_command(struct container_shim *shim, struct packet *packet, const char *letters)
{
    int ends[OWN_COUNT];

    if (shim->is_spawned)
        return;
    if (!take(shim, packet, letters, ends)) {
        report(&shim->state, "failed %d spec", EINVAL);
        return;
    }
    shim->is_spawned = true;
    peer_of(shim->state.link, &shim->owner);
    const char *place = "terminal";
    int error = shim->terminal_error;
    if (error == 0) {
        place = "pid";
        error = begin_record(&shim->record);
    }
    if (error == 0) {
        place = "program";
        error = make_child(shim, ends);
    }
    for (size_t index = 0; index < OWN_COUNT; index++)
        close_fd(&ends[index]);
    close_fd(&shim->terminal);
    if (error != 0)
        command_never_ran(shim, error, place);
    else
        report_birth(shim);
}

/* Tell whether a line can be a record, and remember the numbers it begins with. */
static bool take_line(struct container_shim *shim, const char *line)
{
    const char *rest = line;

    if (strlen(line) >= LINE_BYTES - 1)
        return false;
    for (const char *byte = line; *byte != '\0'; byte++)
        if (*byte < ' ' || *byte > '~')
            return false;
    for (size_t index = 0; index < 3; index++)
        if (!take_number(&rest, &shim->said[index]))
            return false;
    snprintf(shim->line, sizeof shim->line, "%s\n", line);
    return true;
}

void let_execute(struct container_shim *shim, const char *line)
{
    if (shim->go < 0 || !take_line(shim, line))
        return;
    shim->may_go = true;
    if (write(shim->go, "", 1) != 1) {
        /* The child is dead and reads no more: its end is about to be reported. */
    }
    close_fd(&shim->go);
}

void hear_child_start(struct container_shim *shim)
{
    struct failure failure;

    if (shim->report < 0)
        return;
    ssize_t size = read(shim->report, &failure, sizeof failure);
    if (size < 0 && errno == EINTR)
        return;
    close_fd(&shim->report);
    close_fd(&shim->go);
    if (size == (ssize_t)sizeof failure) {
        failure.place[PLACE_BYTES - 1] = '\0';
        command_never_ran(shim, failure.number, failure.place);
    } else if (!shim->may_go) {
        command_never_ran(shim, ECANCELED, "program");
    } else { /* executed, or killed on the way: the two look alike, and both count as a start */
        shim->state.pid = shim->said[0];
        shim->state.ticks = shim->said[1];
        add_record(&shim->record, shim->line);
        report(&shim->state, "spawned %llu %llu %llu", shim->said[0], shim->said[1], shim->said[2]);
    }
}

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
