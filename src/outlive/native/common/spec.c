/* A command, from the exec block of a spec file: its memory, its environment, its words. The file was written by the server,
   and may be damaged, so everything in it is checked, and what is unknown is refused by its name rather than left out. */
#include "spec.h"

#include <errno.h>
#include <limits.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The words of src/outlive/protocols/frames.py, which old spec files hold: they change with a version word
   only. */
static const char SPEC_VERSION[] = "outlive-spec-1 ";
static const char EXTENDED[] = "/dev/null/outlive-exec-2";
static const char BEGINS[] = "OUTLIVE_UMASK_NICE=";

enum { USUAL_UMASK = 022, MOST_UMASK = 0777 };
enum { FILE_BYTES = 32 << 20 }; /* execve(2) takes 6 MiB at the most; the spec's head is as long again, or longer */

/* Memory for one command at a time. A shim waits for its command for hours, so what the start needed is given back, and what
   held secrets is wiped. */
enum {
    NEAR_BYTES = 16384, /* mapping pages for each command, and unmapping them, takes longer than reading its spec */
    MOST_FAR = 8,
};

static alignas(max_align_t) char near[NEAR_BYTES];
static size_t near_used;
static struct {
    void *piece;
    size_t size;
} far[MOST_FAR];
static int far_count;

void *claim(size_t size)
{
    size_t whole = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);

    if (whole >= size && whole <= NEAR_BYTES - near_used) {
        near_used += whole;
        return near + near_used - whole;
    }
    if (far_count == MOST_FAR)
        return NULL;
    far[far_count].piece = malloc(size);
    far[far_count].size = size;
    return far[far_count].piece == NULL ? NULL : far[far_count++].piece;
}

void forget_claims(void)
{
    explicit_bzero(near, near_used); /* secrets, too */
    near_used = 0;
    while (far_count > 0) {
        far_count--;
        explicit_bzero(far[far_count].piece, far[far_count].size);
        free(far[far_count].piece);
    }
}

/* The environment of a command. Its size is bounded only by execve(2): names are looked up in a table of hashes. */
struct table {
    char **words; /* in the order of their names' first appearance */
    size_t count;
    size_t *places; /* index into `words` plus 1, 0 is free */
    size_t mask;
};

static size_t name_length(const char *word)
{
    return strcspn(word, "=");
}

static size_t hash_of(const char *name, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */

    for (size_t index = 0; index < length; index++)
        hash = (hash ^ (unsigned char)name[index]) * 0x100000001b3;
    return (size_t)(hash ^ hash >> 32);
}

static void put(struct table *table, char *word)
{
    size_t length = name_length(word);

    if (length == 0)
        return;
    for (size_t place = hash_of(word, length);; place++) {
        size_t *found = &table->places[place & table->mask];
        if (*found == 0) {
            table->words[table->count++] = word;
            *found = table->count;
            return;
        }
        char *other = table->words[*found - 1];
        if (name_length(other) == length && memcmp(other, word, length) == 0) {
            table->words[*found - 1] = word;
            return;
        }
    }
}

/* Return our own environment with the words put over it in their order: NAME=VALUE sets, NAME alone removes.
   The last word for a name counts. Ends with NULL; NULL when there is no memory. The words themselves are not
   copied; the array is claimed. */
static char **overlaid(char **words, size_t count, char **secrets, size_t secret_count)
{
    size_t own = 0, size = 1;

    while (environ != NULL && environ[own] != NULL)
        own++;
    while (size < 2 * (own + count + secret_count + 1)) /* half empty: a search ends */
        size *= 2;
    struct table table = {
        .words = claim((own + count + secret_count + 1) * sizeof *table.words),
        .places = claim(size * sizeof *table.places),
        .mask = size - 1,
    };
    if (table.words == NULL || table.places == NULL)
        return NULL;
    memset(table.places, 0, size * sizeof *table.places);
    for (size_t index = 0; index < own; index++)
        put(&table, environ[index]);
    for (size_t index = 0; index < count; index++)
        put(&table, words[index]);
    for (size_t index = 0; index < secret_count; index++)
        put(&table, secrets[index]);
    size_t kept = 0;
    for (size_t index = 0; index < table.count; index++)
        if (table.words[index][name_length(table.words[index])] == '=')
            table.words[kept++] = table.words[index];
    table.words[kept] = NULL;
    return table.words;
}

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

bool take_number(const char **words, unsigned long long *number)
{
    char *end;

    if (**words < '0' || **words > '9')
        return false;
    errno = 0;
    *number = strtoull(*words, &end, 10);
    *words = *end == ' ' ? end + 1 : end;
    return errno == 0 && (*end == ' ' || *end == '\0');
}

bool read_number(const char *text, unsigned long long *number)
{
    return take_number(&text, number) && *text == '\0' && text[-1] != ' ';
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

const char *after_verb(const char *step, const char *verb)
{
    size_t size = strlen(verb);

    if (strncmp(step, verb, size) != 0 || (step[size] != ' ' && step[size] != '\0'))
        return NULL;
    return step[size] == ' ' ? step + size + 1 : step + size;
}

int set_limit(const char *rest)
{
    char *end;
    unsigned long resource = strtoul(rest, &end, 10);
    unsigned long long value;
    struct rlimit now;

    if (end == rest || *end != ' ' || resource > INT_MAX || !read_number(end + 1, &value))
        return EINVAL;
    if (getrlimit((int)resource, &now) != 0)
        return errno;
    if (value < now.rlim_max) /* above the hard limit: what is allowed (RLIM_INFINITY is the largest) */
        now.rlim_max = value;
    now.rlim_cur = now.rlim_max;
    return setrlimit((int)resource, &now) == 0 ? 0 : errno;
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

/* Take a step of a command in a container: those about its environment. A limit, and another program to try,
   are taken later. */
static int take_step(struct command *command, const char *step)
{
    const char *name = after_verb(step, "unset");
    int error = ENOSYS;

    if (after_verb(step, "limit") != NULL || after_verb(step, "else") != NULL)
        error = 0;
    else if (strcmp(step, "clear") == 0)
        error = clearenv() == 0 ? 0 : ENOMEM; /* ours: we are the child that executes next */
    else if (name != NULL)
        error = unsetenv(name) == 0 ? 0 : errno;
    return error != 0 ? refuse(command, step, strcspn(step, " "), error) : 0;
}

/* An extended block has, in argv's place: the number of steps, the steps, the program, argv. */
static int take_extended(struct command *command, struct words *words)
{
    unsigned long long steps;

    if (words->count == 0 || !read_number(words->first[0], &steps) || words->count < 2 || steps > words->count - 2)
        return EINVAL;
    command->steps = words->first + 1;
    command->step_count = (size_t)steps;
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

/* The last word of the environment, if it is the one that says umask and niceness ("-": it does not). True:
   it is none of the command's. */
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

void begin_with_niceness(const struct command *command)
{
    if (command->has_nice)
        setpriority(PRIO_PROCESS, 0, command->nice); /* refused: it keeps ours */
}

int read_command(int spec, int secrets, bool is_in_container, struct command *command)
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
    for (size_t index = 0; is_in_container && error == 0 && index < command->step_count; index++)
        error = take_step(command, command->steps[index]);
    if (error == 0)
        error = take_argv(command, &argv);
    if (error != 0)
        return error;
    command->env = overlaid(all.first + 3 + argc, all.count - 3 - (size_t)argc, more.first, more.count);
    return command->env == NULL ? ENOMEM : 0;
}
