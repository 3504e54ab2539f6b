/* How a shim starts its command. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/failpoints.h"
#include "../common/kernel.h"
#include "../common/spec.h"
#include "confine.h"
#include "shim.h"
#include "shim_loop.h"

enum {
    STACK_BYTES = 16384, /* of the child until it executes; it is the parent's memory */
    NOT_EXECUTED = 127,
    MOST_PLACE = 64,
    NEVER_RAN = 125, /* exit codes as shells and env(1) have them */
    SIGNALED = 128,
    NAME_BYTES = 16, /* prctl(2), PR_SET_NAME */
    SHORT_NAME = 6,  /* characters of a process id by which people know it */
    MOST_LENT = 64,  /* as cli/foreground/start.py packs at most */
};

static const char HELD_LETTERS[] = "oeimrwp";
static const char OWN_LETTERS[] = "IOETSD";
enum own { INPUT, OUTPUT, ERRORS, TERMINAL, SECRETS, DESCRIPTORS, OWN_COUNT };

/* A start on its way. We stand still until the child executes or exits (vfork): so it can leave in `outcome`
   what went wrong. What it writes is volatile, for the compiler sees no call that changes it. */
struct start {
    struct command command;
    int ends[OWN_COUNT];
    bool is_batch_scheduled; /* the shim; its command is not */
    int64_t before_ns;       /* `boottime_ns` before the child was made */
    volatile struct outcome *outcome; /* where the child writes it: into what follows, or into a page that both have */
    struct outcome read;
};

void shim_keep(struct shim *shim, struct packet *packet, const char *letters)
{
    size_t count = strlen(letters);

    if (shim->serving == SERVES_NOTHING || strcspn(letters, shim->state.letters) != count ||
        strchr(letters, 'L') != NULL || !are_letters_good(packet, letters, count, HELD_LETTERS, ""))
        return;
    place_descriptors(&shim->state, packet, letters, count, "", NULL);
    hit("shim.kept");
    report(&shim->state, "kept %s", letters);
}

/* Begin a POSIX session with the command's own descriptors, and with no signal blocked. Returns 0 or an
   errno. */
__attribute__((no_sanitize("address"))) static int take_streams(const int *ends)
{
    int terminal = ends[TERMINAL];
    int input = ends[INPUT] >= 0 ? ends[INPUT] : terminal;
    int output = terminal >= 0 ? terminal : ends[OUTPUT];
    int errors = terminal < 0 && ends[ERRORS] >= 0 ? ends[ERRORS] : output;

    setsid();
    if ((terminal >= 0 && ioctl(terminal, TIOCSCTTY, 0) != 0) || dup2(input, 0) < 0 || dup2(output, 1) < 0 ||
        dup2(errors, 2) < 0)
        return errno;
    block_all_signals(false);
    return 0;
}

/* Each profile of a sandbox has this step; limits alone have not (keeper/sandbox/steps.py). */
static bool is_sandboxed(const struct command *command)
{
    for (size_t index = 0; index < command->step_count; index++)
        if (strcmp(command->steps[index], "no_new_privileges") == 0)
            return true;
    return false;
}

/* Give the command the descriptors above 2 that were lent, each at the number that its packet says. What cannot be there is
   left out. All descriptors of ours are closed on execve, so that any number may be taken but that of `lent` itself. */
__attribute__((no_sanitize("address"))) static void take_lent(int lent)
{
    static struct packet packet; /* not on the child's small stack */

    for (int left = MOST_LENT; left > 0 && lent >= 0 && receive_packet(lent, &packet) == HEARD_PACKET; left--) {
        long number = strtol(packet.words, NULL, 10);
        if (number == lent)
            lent = fcntl(lent, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (packet.count == 1 && number == packet.fds[0]) {
            fcntl((int)number, F_SETFD, 0);
            continue;
        }
        if (packet.count == 1 && number > STDERR_FILENO && number <= INT_MAX)
            dup2(packet.fds[0], (int)number);
        close_packet(&packet);
    }
}

/* The child's way. A plain command's shares our memory until it executes, but has its own descriptors,
   signals, folder and session: these it may change. */
__attribute__((no_sanitize("address"))) static int become(void *argument)
{
    const struct start *start = argument;
    const struct command *command = &start->command;
    volatile struct outcome *outcome = start->outcome;
    struct confinement steps = {.steps = command->steps,
                                .count = command->step_count,
                                .terminal = start->ends[TERMINAL],
                                .outcome = outcome};

    outcome->born_ns = boottime_ns();
    /* The scheduling policy survives execve(2), and a command must not wait behind others because its shim
       may. */
    if (start->is_batch_scheduled)
        set_batch_scheduling(false);
    begin_with_niceness(command); /* before privileges are given up */
    outcome->at_folder = true;
    int error = chdir(command->cwd) == 0 ? 0 : errno;
    if (error == 0 && steps.count > 0)
        error = take_steps(&steps);
    if (error == 0) {
        outcome->at_folder = false;
        error = take_streams(start->ends);
    }
    if (error == 0) {
        if (!is_sandboxed(command))
            take_lent(start->ends[DESCRIPTORS]);
        umask((mode_t)command->umask); /* last: files that steps make keep ours */
        execve(command->program, command->argv, command->env);
        error = errno;
    }
    outcome->error = error;
    _exit(NOT_EXECUTED);
}

/* Make the child, and return when it executes or has failed. Returns its pid, or -1 with errno.

   posix_spawn(3) has no action for TIOCSCTTY, and a copy of our memory would take page tables: hence clone(2)
   as vfork(2) does it, with a stack of the child's own, so that it cannot overwrite the frames to which we
   return. With steps the child is a copy: they open its memory to others while it writes its id maps, and an
   init that stays may keep it. */
static pid_t make_child(struct start *start)
{
    _Alignas(16) char stack[STACK_BYTES];

    if (start->command.step_count == 0)
        return clone(become, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, start);
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        become(start);
    return pid;
}

/* So a supervisor can end a whole PID namespace without us. */
static void record_init(struct shim *shim, pid_t init)
{
    char line[LINE_BYTES];

    snprintf(line, sizeof line, "%d %llu\n", (int)init, start_ticks(init));
    shim_add_line(shim, "/init", line);
}

/* Start the command, and learn what came of it. Returns 0 or an errno. */
static int execute(struct shim *shim, struct start *start)
{
    bool is_copied = start->command.step_count > 0;

    start->outcome = &start->read;
    if (is_copied)
        start->outcome = mmap(NULL, sizeof start->read, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (start->outcome == MAP_FAILED)
        return errno;
    start->before_ns = boottime_ns();
    raise_oom_score(true); /* the kernel should take the command for what it has used, not the keeper or the server */
    pid_t pid = make_child(start);
    raise_oom_score(false);
    int error = pid < 0 ? errno : start->outcome->error;
    start->read = *start->outcome;
    if (is_copied)
        munmap((void *)start->outcome, sizeof start->read);
    if (pid > 0 && start->read.sealed > 0) { /* the child has only made the command, and ended; both are children of ours */
        waitpid(pid, NULL, 0);
        pid = start->read.sealed;
    }
    if (error == 0)
        shim->state.child = pid;
    else if (pid > 0)
        waitpid(pid, NULL, 0);
    return error;
}

static int read_spec(struct shim *shim, struct start *start)
{
    int spec = open(shim_path(shim, "/spec"), O_RDONLY | O_CLOEXEC);
    if (spec < 0)
        return errno;
    int error = read_command(spec, start->ends[SECRETS], false, &start->command);
    close(spec);
    return error;
}

static void fail(struct shim *shim, int number, const char *place)
{
    char line[LINE_BYTES];

    note_failure(&shim->state, number, place, line);
    shim_add_line(shim, "/pid", line);
    report(&shim->state, "failed %d %s", number, place);
}

/* Return the inode of the pipe through which the command is sent input, by which its two ends are known; 0 for none.
   Our descriptors are closed to our user; the record is not. */
static unsigned long long input_pipe(const struct shim *shim)
{
    struct stat pipe;

    return fstat(held_under(&shim->state, 'i'), &pipe) == 0 ? pipe.st_ino : 0;
}

/* Record the command's pid and start time, and its init's, and report them; where the disk is full the
   command runs all the same. */
static void record_start(struct shim *shim, const struct start *start, int record)
{
    struct shim_state *state = &shim->state;
    char line[LINE_BYTES];

    if (start->read.init > 0)
        record_init(shim, start->read.init);
    hit("shim.spawned");
    state->pid = (unsigned long long)state->child;
    state->ticks = start_ticks_between(state->child, start->before_ns, start->read.born_ns);
    /* From when its child ran: the command may have written something before this line is reached. */
    int64_t started_ns = now_ns() - (boottime_ns() - start->read.born_ns);
    snprintf(line, sizeof line, "%llu %llu %lld %lld %d %llu %s\n", state->pid, state->ticks, (long long)started_ns,
             (long long)start->read.born_ns, (int)getpid(), input_pipe(shim), shim->boot_id);
    write_line(record, line);
    close(record);
    hit("shim.recorded");
    report(state, "spawned %llu %llu %lld", state->pid, state->ticks, (long long)started_ns);
}

/* Return where the child has failed; `at_step` is room for it. */
static const char *place_of(const struct start *start, char at_step[MOST_PLACE])
{
    if (start->read.step == 0)
        return start->read.at_folder ? "cwd" : "program";
    snprintf(at_step, MOST_PLACE, "sandbox:%s", name_of_step(start->read.step));
    return at_step;
}

/* Any server of our user sees by this name, in /proc/PID/stat, that its caller lives below a shim, and below which
   (kernel/callers.py). No command can change it: only a process itself can (proc_pid_comm(5)). */
static void take_name(const struct shim *shim)
{
    size_t skipped = shim->folder_length > SHORT_NAME ? shim->folder_length - SHORT_NAME : 0;
    char name[NAME_BYTES];

    snprintf(name, sizeof name, "outlive:%.*s", SHORT_NAME, shim->folder + skipped);
    prctl(PR_SET_NAME, name, 0, 0, 0);
}

static void start_child(struct shim *shim, struct start *start)
{
    char at_step[MOST_PLACE];
    const char *place = "spec";
    int record = -1;
    int error = read_spec(shim, start);

    if (error == 0) {
        place = "pid";
        record = open_record(shim);
        error = record < 0 ? errno : write_line(record, "starting\n");
    }
    if (error == 0) {
        hit("shim.starting");
        take_name(shim);
        error = execute(shim, start);
        place = place_of(start, at_step);
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
    struct start start = {.ends = {-1, -1, -1, -1, -1, -1}, .is_batch_scheduled = shim->is_batch_scheduled};
    size_t count = strcspn(rest, " ");
    const char *folder = rest[count] == ' ' ? rest + count + 1 : rest + count;

    shim_release(shim);
    if (strlen(folder) >= PATH_MAX || memchr(rest, 'L', count) == NULL ||
        !are_letters_good(packet, rest, count, HELD_LETTERS, OWN_LETTERS)) {
        if (spawns)
            report(&shim->state, "failed %d spec", EINVAL);
        return;
    }
    shim->folder_length = strlen(folder);
    memcpy(shim->folder, folder, shim->folder_length + 1);
    place_descriptors(&shim->state, packet, rest, count, OWN_LETTERS, start.ends);
    shim->serving = spawns ? OWNS : HOLDS;
    if (!spawns) {
        shim->state.is_empty = true;
        for (int index = 0; index < OWN_COUNT; index++)
            if (start.ends[index] >= 0)
                close(start.ends[index]);
        return;
    }
    hit("shim.received");
    start_child(shim, &start);
}

int try_command(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct start start = {.ends = {null, STDOUT_FILENO, STDERR_FILENO, -1, -1, -1}};
    struct shim shim = {0};
    char at_step[MOST_PLACE];
    int status = 0;

    reset_signals(); /* an ignored SIGCHLD would leave nothing to wait for */
    read_settings_of_tests();
    const char *place = "spec";
    int error = read_command(STDIN_FILENO, -1, false, &start.command);
    if (error == 0) {
        error = execute(&shim, &start);
        place = place_of(&start, at_step);
    }
    if (error != 0) {
        dprintf(STDERR_FILENO, "failed %d %s\n", error, place);
        return NEVER_RAN;
    }
    if (waitpid(shim.state.child, &status, 0) != shim.state.child)
        return NEVER_RAN;
    return WIFEXITED(status) ? WEXITSTATUS(status) : SIGNALED + WTERMSIG(status);
}
