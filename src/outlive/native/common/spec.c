/* The exec block of a spec file. The file was written by the server and can be of an older version, so everything in it is
   checked, and what is unknown is refused by its name rather than left out. */
#include "spec.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "environment.h"
#include "memory.h"

/* The words of src/outlive/protocols/frames.py, which old spec files hold: they change with a version word only. */
static const char SPEC_VERSION[] = "outlive-spec-1 ";
static const char EXTENDED[] = "/dev/null/outlive-exec-2";
static const char BEGINS[] = "OUTLIVE_UMASK_NICE=";

enum { USUAL_UMASK = 022, MOST_UMASK = 0777 };
enum { FILE_BYTES = 32 << 20 }; /* execve(2) takes 6 MiB at the most; the spec's head is as long again, or longer */

/* Words that lie behind each other in memory, each ended by NUL. */
struct words {
    char **first;
    size_t count;
};

static int read_whole(int fd, char **content, size_t *size)
{
    struct stat state;

    if (fstat(fd, &state) != 0)
        return errno;
    if (!S_ISREG(state.st_mode) || state.st_size > FILE_BYTES)
        return EINVAL;
    *content = claim((size_t)state.st_size + 1);
    if (*content == NULL)
        return ENOMEM;
    for (*size = 0; *size < (size_t)state.st_size;) {
        ssize_t got = pread(fd, *content + *size, (size_t)state.st_size - *size, (off_t)*size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        if (got == 0)
            break;
        *size += (size_t)got;
    }
    (*content)[*size] = '\0';
    return 0;
}

/* Split at NUL as Python's `split` does: n of them make n + 1 words. */
static int split(char *content, size_t size, struct words *words)
{
    size_t count = 1;

    for (size_t index = 0; index < size; index++)
        count += content[index] == '\0';
    words->first = claim((count + 1) * sizeof *words->first);
    if (words->first == NULL)
        return ENOMEM;
    words->count = 0;
    for (char *word = content; words->count < count; word += strlen(word) + 1)
        words->first[words->count++] = word;
    words->first[count] = NULL;
    return 0;
}

/* Read a whole number without sign; false when the text is anything else. */
static bool read_number(const char *text, unsigned long long *number)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return *end == '\0' && errno == 0;
}

/* Skip the spec's first line and its JSON head. Returns NULL when it is no spec. */
static char *exec_block(char *content, size_t size)
{
    size_t prefix = sizeof SPEC_VERSION - 1;
    unsigned long long head;
    char *line_end = memchr(content, '\n', size);

    if (line_end == NULL || strncmp(content, SPEC_VERSION, prefix) != 0)
        return NULL;
    *line_end = '\0';
    if (!read_number(content + prefix, &head) || head > size - (size_t)(line_end + 1 - content))
        return NULL;
    return line_end + 1 + head;
}

static int add_limit(struct command *command, const char *rest)
{
    char resource[16];
    unsigned long long number, value;
    const char *space = strchr(rest, ' ');

    if (space == NULL || (size_t)(space - rest) >= sizeof resource || command->limit_count == LIMITS)
        return EINVAL;
    memcpy(resource, rest, (size_t)(space - rest));
    resource[space - rest] = '\0';
    if (!read_number(resource, &number) || !read_number(space + 1, &value) || number > RLIM_NLIMITS)
        return EINVAL;
    command->limits[command->limit_count++] = (struct limit){(int)number, (rlim_t)value};
    return 0;
}

static int refuse(struct command *command, const char *verb, size_t size, int error)
{
    size_t kept = size < VERB_BYTES - 1 ? size : VERB_BYTES - 1;

    for (size_t index = 0; index < kept; index++) { /* it becomes a word of a line */
        bool is_plain = (verb[index] >= 'a' && verb[index] <= 'z') || verb[index] == '_';
        command->refused[index] = is_plain ? verb[index] : '?';
    }
    if (kept == 0)
        command->refused[kept++] = '?';
    command->refused[kept] = '\0';
    return error;
}

static int take_step(struct command *command, const char *step)
{
    size_t verb = strcspn(step, " ");
    const char *rest = step[verb] == ' ' ? step + verb + 1 : step + verb;
    int error = ENOSYS;

    if (strncmp(step, "limit ", 6) == 0)
        error = add_limit(command, rest);
    else if (strncmp(step, "else ", 5) == 0) {
        error = command->alternative_count < ALTERNATIVES && *rest != '\0' ? 0 : EINVAL;
        if (error == 0)
            command->alternatives[command->alternative_count++] = rest;
    } else if (strcmp(step, "clear") == 0)
        error = clearenv() == 0 ? 0 : ENOMEM; /* ours: we are the child that executes next */
    else if (strncmp(step, "unset ", 6) == 0)
        error = unsetenv(rest) == 0 ? 0 : errno;
    return error != 0 ? refuse(command, step, verb, error) : 0;
}

/* An extended block has, in argv's place: the number of steps, the steps, the program, argv. */
static int take_extended(struct command *command, struct words *words)
{
    unsigned long long steps;

    if (words->count == 0 || !read_number(words->first[0], &steps) || words->count < 2 || steps > words->count - 2)
        return EINVAL;
    command->step_count = steps;
    for (size_t index = 1; index <= steps; index++) {
        int error = take_step(command, words->first[index]);
        if (error != 0)
            return error;
    }
    command->program = words->first[steps + 1];
    words->first += steps + 2;
    words->count -= steps + 2;
    return 0;
}

/* The words of argv get a NULL of their own: the environment's first word stands where it belongs. */
static int take_argv(struct command *command, const struct words *words)
{
    command->argv = claim((words->count + 2) * sizeof *command->argv);
    if (command->argv == NULL)
        return ENOMEM;
    memcpy(command->argv, words->first, words->count * sizeof *words->first);
    command->argv[words->count] = NULL;
    if (words->count == 0) { /* execve(2) would make one of "" and complain in the kernel's log */
        command->argv[0] = command->program;
        command->argv[1] = NULL;
    }
    return 0;
}

/* The last word of the environment, if it is the one that says umask and niceness ("-": it does not). True: it is none of
   the command's. */
static bool take_begins(struct command *command, const char *word)
{
    size_t prefix = sizeof BEGINS - 1;
    char *end;

    if (strncmp(word, BEGINS, prefix) != 0)
        return false;
    unsigned long mask = strtoul(word + prefix, &end, 8);
    if (end != word + prefix && mask <= MOST_UMASK)
        command->umask = (unsigned)mask;
    const char *nice = strchr(word, ' ');
    long wanted = nice == NULL ? 0 : strtol(nice, &end, 10);
    command->has_nice = nice != NULL && end != nice && wanted >= -20 && wanted <= 19;
    command->nice = (int)wanted;
    return true;
}

void begin_as(const struct command *command)
{
    if (command->has_nice)
        setpriority(PRIO_PROCESS, 0, command->nice); /* refused: it keeps ours */
    umask((mode_t)command->umask);
}

int read_command(int spec, int secrets, struct command *command)
{
    char *content, *hidden = NULL;
    size_t size, hidden_size = 0;
    struct words all, more = {NULL, 0};
    unsigned long long argc;

    *command = (struct command){.umask = USUAL_UMASK};
    int error = read_whole(spec, &content, &size);
    if (error == 0 && secrets >= 0)
        error = read_whole(secrets, &hidden, &hidden_size);
    if (error != 0)
        return error;
    char *block = exec_block(content, size);
    if (block == NULL)
        return EINVAL;
    error = split(block, size - (size_t)(block - content), &all);
    if (error == 0 && hidden != NULL)
        error = split(hidden, hidden_size, &more);
    if (error != 0)
        return error;
    if (all.count < 3 || !read_number(all.first[2], &argc) || argc > all.count - 3)
        return EINVAL;
    if (all.count > 3 + argc && take_begins(command, all.first[all.count - 1]))
        all.count--;
    command->program = all.first[0];
    command->cwd = all.first[1];
    struct words argv = {all.first + 3, (size_t)argc};
    if (strcmp(command->program, EXTENDED) == 0)
        error = take_extended(command, &argv);
    if (error == 0)
        error = take_argv(command, &argv);
    if (error != 0)
        return error;
    command->env = overlaid(all.first + 3 + argc, all.count - 3 - (size_t)argc, more.first, more.count);
    return command->env == NULL ? ENOMEM : 0;
}
