/* A child between fork and execve. It reports through a pipe that execve closes: the end of file there means that the
   command runs, a `struct failure` says at which step it failed. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/spec.h"
#include "container_shim.h"

enum {
    NOT_EXECUTED = 127,
    ABOVE_THE_COMMANDS = 10, /* sources are put here first: none of them may lie where another one goes */
};

/* Report that it does not execute, and leave. */
static noreturn void fail_child(int report, int number, const char *place)
{
    struct failure failure = {.number = number};

    snprintf(failure.place, sizeof failure.place, "%s", place);
    if (write(report, &failure, sizeof failure) != (ssize_t)sizeof failure)
        _exit(NOT_EXECUTED - 1);
    _exit(NOT_EXECUTED);
}

/* Wait until the command may execute; leave when the shim is gone and cannot let it any more. */
static void wait_for_go(int go)
{
    char byte;
    ssize_t got;

    do
        got = read(go, &byte, 1);
    while (got < 0 && errno == EINTR);
    if (got != 1)
        _exit(NOT_EXECUTED);
}

static void set_limits(const struct command *command, int report)
{
    for (size_t index = 0; index < command->step_count; index++) {
        const char *limit = after_verb(command->steps[index], "limit");
        int error = limit == NULL ? 0 : set_limit(limit);
        if (error != 0)
            fail_child(report, error, "sandbox:limit");
    }
}

static int lifted(int fd, int report)
{
    if (fd < 0)
        return -1;
    int higher = fcntl(fd, F_DUPFD_CLOEXEC, ABOVE_THE_COMMANDS);
    if (higher < 0)
        fail_child(report, errno, "program");
    return higher;
}

/* Put the command's own descriptors where it looks for them. Returns `report` at its new place. */
static int take_streams(const struct beginnings *from)
{
    int report = lifted(from->report, from->report);
    int terminal = lifted(from->terminal, report);
    int output = terminal >= 0 ? terminal : lifted(from->ends[OUTPUT], report);
    int errors = terminal < 0 && from->ends[ERRORS] >= 0 ? lifted(from->ends[ERRORS], report) : output;
    int input = lifted(from->ends[INPUT], report);
    int script = lifted(from->ends[SCRIPT], report); /* becomes descriptor 3 */

    if (terminal >= 0 && ioctl(terminal, TIOCSCTTY, 0) != 0)
        fail_child(report, errno, "terminal");
    if (input < 0)
        input = terminal >= 0 ? terminal : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input < 0 || dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(errors, 2) < 0)
        fail_child(report, errno, "program");
    if (script >= 0 && dup2(script, 3) < 0)
        fail_child(report, errno, "program");
    close_from(script >= 0 ? 4 : 3, true);
    return report;
}

static const char *value_of(char **env, const char *name)
{
    size_t length = strlen(name);

    for (; *env != NULL; env++)
        if (strncmp(*env, name, length) == 0 && (*env)[length] == '=')
            return *env + length + 1;
    return NULL;
}

/* Try every folder of PATH as os.execvpe does: a refusal is reported rather than that nothing was found elsewhere. */
static int search(const char *program, const struct command *command)
{
    const char *folders = value_of(command->env, "PATH");
    size_t size = strlen(program);
    int refused = 0, missing = ENOENT;

    if (folders == NULL)
        folders = "/bin:/usr/bin"; /* os.defpath */
    if (size == 0)
        return ENOENT;
    char *path = malloc(strlen(folders) + size + 3);
    if (path == NULL)
        return ENOMEM;
    for (const char *folder = folders;; folder++) {
        size_t length = strcspn(folder, ":");
        if (length == 0) /* the working folder */
            memcpy(path, ".", 1);
        else
            memcpy(path, folder, length);
        size_t end = length == 0 ? 1 : length;
        path[end] = '/';
        memcpy(path + end + 1, program, size + 1);
        execve(path, command->argv, command->env);
        if (errno == ENOENT || errno == ENOTDIR)
            missing = errno;
        else if (refused == 0)
            refused = errno;
        folder += length;
        if (*folder == '\0')
            return refused != 0 ? refused : missing;
    }
}

static int execute(const char *program, const struct command *command)
{
    if (strchr(program, '/') == NULL)
        return search(program, command);
    execve(program, command->argv, command->env);
    return errno;
}

noreturn void become_command(const struct beginnings *from)
{
    struct command command;
    char place[PLACE_BYTES];

    setsid();
    reset_signals();
    block_all_signals(false); /* what is blocked would survive execve, too */
    /* Read before `go` comes: the supervisor is busy with its own part meanwhile, so reading costs no time. */
    int error = read_command(from->ends[SPEC], from->ends[SECRETS], true, &command);
    wait_for_go(from->go);
    if (error != 0 && *command.refused != '\0') {
        snprintf(place, sizeof place, "sandbox:%s", command.refused);
        fail_child(from->report, error, place);
    }
    if (error != 0)
        fail_child(from->report, error, "spec");
    begin_with_niceness(&command);
    umask((mode_t)command.umask);
    if (chdir(command.cwd) != 0)
        fail_child(from->report, errno, "cwd");
    int report = take_streams(from);
    set_limits(&command, report);
    error = execute(command.program, &command);
    for (size_t index = 0; index < command.step_count && (error == ENOENT || error == ENOTDIR); index++) {
        char *other = (char *)after_verb(command.steps[index], "else");
        if (other == NULL)
            continue;
        command.argv[0] = other; /* a program of many names goes by this word */
        error = execute(other, &command);
    }
    fail_child(report, error, "program");
}
