/* From `spawn` to the program: descriptors are taken, the record begun, a child made; it waits for `go`. */
#include "command_start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/spec.h"
#include "child.h"

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
static bool take(struct container_shim *shim, struct packet *packet, const char *letters, struct ends *ends)
{
    size_t count = strcspn(letters, " ");
    const char *listener = memchr(letters, 'L', count);

    for (size_t index = 0; index < sizeof OWN_LETTERS - 1; index++)
        ends->fds[index] = -1;
    if (!are_letters_good(packet, letters, count) || memchr(letters, 'P', count) == NULL ||
        memchr(letters, 'X', count) == NULL || (listener != NULL && !is_listener(packet->fds[listener - letters])) ||
        (memchr(letters, 'O', count) == NULL && shim->terminal < 0 && shim->terminal_error == 0))
        return false;
    for (size_t index = 0; index < count; index++) {
        int fd = packet->fds[index];
        packet->fds[index] = -1;
        if (letters[index] == 'L')
            shim->listener = fd;
        else if (letters[index] == 'P')
            shim->record.fd = fd;
        else if (end_of(ends, letters[index]) != NULL)
            *end_of(ends, letters[index]) = fd;
        else
            hold_descriptor(shim, letters[index], fd);
    }
    if (shim->listener >= 0)
        fcntl(shim->listener, F_SETFL, fcntl(shim->listener, F_GETFL) | O_NONBLOCK);
    return true;
}

static void close_pair(int *ends)
{
    close(ends[0]);
    close(ends[1]);
}

/* Make the child, which waits. Returns 0 or an errno. */
static int make_child(struct container_shim *shim, struct ends *ends)
{
    int go[2], report[2], pidfd, error;

    if (pipe2(go, O_CLOEXEC) != 0)
        return errno;
    if (pipe2(report, O_CLOEXEC) != 0) {
        error = errno;
        close_pair(go);
        return error;
    }
    shim->oom_kills = oom_kills();
    pid_t child = fork_with_pidfd(&pidfd);
    if (child == 0) {
        close(go[1]); /* else our end would not be the last, and its death no end of file */
        close(report[0]);
        struct beginnings from = {
            .spec = *end_of(ends, 'X'),
            .secrets = *end_of(ends, 'S'),
            .script = *end_of(ends, 'F'),
            .terminal = shim->terminal,
            .input = *end_of(ends, 'I'),
            .output = *end_of(ends, 'O'),
            .errors = *end_of(ends, 'E'),
            .go = go[0],
            .report = report[1],
        };
        become_command(&from);
    }
    error = errno;
    close(go[0]);
    close(report[1]);
    if (child < 0) {
        close(go[1]);
        close(report[0]);
        return error;
    }
    shim->child = child;
    shim->go = go[1];
    shim->report = report[0];
    if (pidfd >= 0)
        hold_descriptor(shim, 'p', pidfd);
    return 0;
}

static void report_birth(struct container_shim *shim)
{
    char words[] = "born -\0";
    int fds[2];
    int count = 0;

    for (const char *letter = "pm"; *letter != '\0'; letter++) {
        int fd = held_under(shim, *letter);
        if (fd < 0)
            continue;
        words[strlen("born ") + (size_t)count] = *letter;
        fds[count++] = fd;
    }
    if (shim->link >= 0)
        send_packet(shim->link, words, fds, count);
}

void start_command(struct container_shim *shim, struct packet *packet, const char *letters)
{
    struct ends ends;

    if (shim->is_spawned)
        return;
    if (!take(shim, packet, letters, &ends)) {
        report_to_supervisor(shim, "failed %d spec", EINVAL);
        return;
    }
    shim->is_spawned = true;
    peer_of(shim->link, &shim->owner);
    const char *place = "terminal";
    int error = shim->terminal_error;
    if (error == 0) {
        place = "pid";
        error = begin_record(&shim->record);
    }
    if (error == 0) {
        place = "program";
        error = make_child(shim, &ends);
    }
    for (size_t index = 0; index < sizeof OWN_LETTERS - 1; index++)
        close_fd(&ends.fds[index]);
    close_fd(&shim->terminal);
    if (error != 0)
        command_never_ran(shim, error, place);
    else
        report_birth(shim);
}

/* Tell whether a line can be a record, and remember the numbers it begins with. */
static bool take_line(struct container_shim *shim, const char *line)
{
    unsigned long long *numbers[] = {&shim->pid, &shim->ticks, &shim->started_ns};
    const char *rest = line;

    if (strlen(line) >= LINE_BYTES - 1)
        return false;
    for (const char *byte = line; *byte != '\0'; byte++)
        if (*byte < ' ' || *byte > '~')
            return false;
    for (size_t index = 0; index < 3; index++)
        if (!take_number(&rest, numbers[index]))
            return false;
    snprintf(shim->line, sizeof shim->line, "%s", line);
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
        shim->has_executed = true;
        add_record(&shim->record, shim->line);
        report_to_supervisor(shim, "spawned %llu %llu %llu", shim->pid, shim->ticks, shim->started_ns);
    }
}
