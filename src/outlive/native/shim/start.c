/* How a shim starts its command: what Python's shim does with posix_spawn(3). */
#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/memory.h"
#include "../common/spec.h"
#include "failpoints.h"
#include "pid_file.h"

enum {
    STACK_BYTES = 16384, /* of the child until it executes; it is the parent's memory */
    NOT_EXECUTED = 127,
    MOST_LINE = 192,
};

static const char HELD_LETTERS[] = "oeimrwp";
static const char OWN_LETTERS[] = "IOETS";
enum own { INPUT, OUTPUT, ERRORS, TERMINAL, SECRETS, OWN_COUNT };

/* A start on its way. The child runs in our memory, and we stand still until it executes or exits (vfork): so it can
   leave here what went wrong. What it writes is volatile, for the compiler sees no call that changes it. */
struct start {
    struct command command;
    int ends[OWN_COUNT];
    bool is_batch_scheduled; /* the shim; its command is not */
    int64_t before_ns; /* `boottime_ns` before the child was made, */
    volatile int64_t born_ns; /* and as soon as it ran */
    volatile int error;
    const char *volatile place;
};

static bool are_letters_good(const struct packet *packet, const char *letters, size_t count)
{
    if (count != (size_t)packet->count || count >= MOST_HELD + OWN_COUNT)
        return false;
    for (size_t index = 0; index < count; index++) {
        bool is_known = letters[index] == 'L' || strchr(HELD_LETTERS, letters[index]) != NULL ||
                        strchr(OWN_LETTERS, letters[index]) != NULL;
        if (!is_known || memchr(letters, letters[index], index) != NULL)
            return false;
        if (letters[index] == 'L' && !is_listener(packet->fds[index]))
            return false;
    }
    return true;
}

/* Move the descriptors of a packet to their places. */
static void keep(struct shim *shim, struct packet *packet, const char *letters, size_t count, int *ends)
{
    for (size_t index = 0; index < count; index++) {
        const char *own = strchr(OWN_LETTERS, letters[index]);
        if (letters[index] == 'L')
            shim->listener = packet->fds[index];
        else if (own != NULL)
            ends[own - OWN_LETTERS] = packet->fds[index];
        else {
            shim->letters[shim->held_count] = letters[index];
            shim->held[shim->held_count++] = packet->fds[index];
        }
        packet->fds[index] = -1;
    }
    shim->letters[shim->held_count] = '\0';
}

void shim_keep(struct shim *shim, struct packet *packet, const char *letters)
{
    size_t count = strlen(letters);

    if (shim->serving == SERVES_NOTHING || count + (size_t)shim->held_count >= MOST_HELD ||
        strspn(letters, HELD_LETTERS) != count || strcspn(letters, shim->letters) != count ||
        !are_letters_good(packet, letters, count))
        return;
    keep(shim, packet, letters, count, NULL);
    hit("shim.kept");
    shim_say(shim, "kept %s", letters);
}

/* The child's way. It shares our memory until it executes, but has its own descriptors, signals, folder and session:
   these it may change. */
__attribute__((no_sanitize("address"))) static int become(void *argument)
{
    struct start *start = argument;
    int terminal = start->ends[TERMINAL];
    int input = start->ends[INPUT] >= 0 ? start->ends[INPUT] : terminal;
    int output = terminal >= 0 ? terminal : start->ends[OUTPUT];
    int errors = terminal < 0 && start->ends[ERRORS] >= 0 ? start->ends[ERRORS] : output;

    start->born_ns = boottime_ns();
    setsid();
    /* The scheduling policy survives execve(2), and a command must not wait behind others because its shim may. */
    if (start->is_batch_scheduled)
        set_batch_scheduling(false);
    begin_as(&start->command);
    start->place = "cwd";
    if (chdir(start->command.cwd) == 0) {
        start->place = "program";
        if ((terminal < 0 || ioctl(terminal, TIOCSCTTY, 0) == 0) && dup2(input, 0) >= 0 && dup2(output, 1) >= 0 &&
            dup2(errors, 2) >= 0) {
            block_all_signals(false);
            execve(start->command.program, start->command.argv, start->command.env);
        }
    }
    start->error = errno;
    _exit(NOT_EXECUTED);
}

/* Start the child, which copies nothing, and return when it executes or has failed. Returns 0 or an errno.

   posix_spawn(3) has no action for TIOCSCTTY (Python's shim opens the terminal by its name instead), and fork(2) would
   copy page tables: hence clone(2) as vfork(2) does it, with a stack of the child's own, so that it cannot overwrite the
   frames to which we return. */
static int execute(struct shim *shim, struct start *start)
{
    _Alignas(16) char stack[STACK_BYTES];

    start->before_ns = boottime_ns();
    pid_t pid = clone(become, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, start);
    if (pid < 0)
        return errno;
    if (start->error == 0)
        shim->pid = pid;
    else
        waitpid(pid, NULL, 0);
    return start->error;
}

static int read_spec(struct shim *shim, struct start *start)
{
    int spec = open(shim_path(shim, "/spec"), O_RDONLY | O_CLOEXEC);
    if (spec < 0)
        return errno;
    int error = read_command(spec, start->ends[SECRETS], &start->command);
    close(spec);
    return error;
}

static void fail(struct shim *shim, int number, const char *place)
{
    char line[MOST_LINE];

    shim->ending = HAS_FAILED;
    shim->number = number;
    shim->ended_ns = now_ns();
    shim->is_empty = true;
    snprintf(line, sizeof line, "failed %d %lld %s\n", number, (long long)shim->ended_ns, place);
    shim_add_line(shim, line);
    shim_say(shim, "failed %d %s", number, place);
}

/* Record the command's pid and start time, and report them; where the disk is full the command runs all the same. */
static void record_start(struct shim *shim, const struct start *start, int record)
{
    char line[MOST_LINE];

    hit("shim.spawned");
    shim->ticks = start_ticks_between(shim->pid, start->before_ns, start->born_ns);
    int64_t now = now_ns();
    snprintf(line, sizeof line, "%d %llu %lld %lld %d %s\n", (int)shim->pid, shim->ticks, (long long)now,
             (long long)boottime_ns(), (int)getpid(), shim->boot_id);
    if (write_line(record, line) != 0)
        now = now_ns();
    close(record);
    hit("shim.recorded");
    shim_say(shim, "spawned %d %llu %lld", (int)shim->pid, shim->ticks, (long long)now);
}

static void start_child(struct shim *shim, struct start *start)
{
    const char *place = "spec";
    int record = -1;
    int error = read_spec(shim, start);

    if (start->command.step_count > 0) { /* it must not run without them */
        place = "sandbox:start";
        error = ENOSYS;
    }
    if (error == 0) {
        place = "pid";
        record = open_record(shim);
        error = record < 0 ? errno : write_line(record, "starting\n");
    }
    if (error == 0) {
        hit("shim.starting");
        error = execute(shim, start);
        place = start->place != NULL ? start->place : "program";
    }
    forget_claims();
    for (int index = 0; index < OWN_COUNT; index++)
        if (start->ends[index] >= 0)
            close(start->ends[index]);
    if (error == 0) {
        record_start(shim, start, record);
        return;
    }
    if (record >= 0)
        close(record);
    fail(shim, error, place);
}

void shim_take(struct shim *shim, struct packet *packet, char *rest, bool spawns)
{
    struct start start = {.ends = {-1, -1, -1, -1, -1}, .is_batch_scheduled = shim->is_batch_scheduled};
    size_t count = strcspn(rest, " ");
    const char *folder = rest[count] == ' ' ? rest + count + 1 : rest + count;

    shim_release(shim);
    if (strlen(folder) >= PATH_MAX || memchr(rest, 'L', count) == NULL || !are_letters_good(packet, rest, count)) {
        if (spawns)
            shim_say(shim, "failed %d spec", EINVAL);
        return;
    }
    shim->folder_length = strlen(folder);
    memcpy(shim->folder, folder, shim->folder_length + 1);
    keep(shim, packet, rest, count, start.ends);
    shim->serving = spawns ? OWNS : HOLDS;
    if (!spawns) {
        shim->is_empty = true;
        for (int index = 0; index < OWN_COUNT; index++)
            if (start.ends[index] >= 0)
                close(start.ends[index]);
        return;
    }
    hit("shim.received");
    start_child(shim, &start);
}
