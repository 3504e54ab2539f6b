/* How a filter's stage begins. Whatever is not certain here, the filter gets its input as if this program were not there. */
#include "filter_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "copier.h"

enum { NOT_FOUND = 127, NOT_EXECUTED = 126 };

static const char *const FILTERS[] = {"tail", "head", "grep", "egrep", "fgrep", NULL};

bool is_filter(const char *name)
{
    for (const char *const *known = FILTERS; *known != NULL; known++)
        if (strcmp(name, *known) == 0)
            return true;
    return false;
}

/* Letters of grep(1) without a value with which it reads on to the end. Not q, m, l and L, which let it leave early, nor r
   and R, with which it reads files. */
static const char GREP_LETTERS[] = "EFGPincvwxhHobsaTUyZ";
static const char DIGITS[] = "0123456789";

static bool is_number(const char *word)
{
    return *word != '\0' && strspn(word, DIGITS) == strlen(word);
}

/* `tail`, `tail -5`, `tail -n 5`, `tail -n5`, `tail -n +5`, and the same with -c. */
static bool tail_reads_all(char *const *argv)
{
    for (int place = 1; argv[place] != NULL; place++) {
        const char *word = argv[place];
        if (*word == '-' && is_number(word + 1))
            continue;
        if (strncmp(word, "-n", 2) != 0 && strncmp(word, "-c", 2) != 0)
            return false;
        const char *value = word[2] != '\0' ? word + 2 : argv[++place];
        if (value == NULL || !is_number(value + (*value == '+' || *value == '-')))
            return false;
    }
    return true;
}

/* Plain letters, -A, -B, -C, -e with a value, --color; and one pattern, no file. */
static bool grep_reads_all(char *const *argv)
{
    int patterns = 0, words = 0;

    for (int place = 1; argv[place] != NULL; place++) {
        const char *word = argv[place];
        if (*word != '-') {
            words++;
            continue;
        }
        if (strncmp(word, "--color", 7) == 0 || is_number(word + 1))
            continue;
        word += 1 + strspn(word + 1, GREP_LETTERS);
        if (*word == '\0' && word > argv[place] + 1)
            continue;
        if (*word == '\0' || strchr("ABCe", *word) == NULL)
            return false;
        patterns += *word == 'e';
        if (word[1] == '\0' && argv[++place] == NULL)
            return false;
    }
    return patterns > 0 ? words == 0 : words == 1;
}

/* Whether it is certain that the filter reads its input to the end: then how much lies in pipes shows nowhere. "No" is
   always right. */
static bool reads_to_the_end(char *const *argv)
{
    if (strcmp(argv[0], "tail") == 0)
        return tail_reads_all(argv);
    return strcmp(argv[0], "head") != 0 && grep_reads_all(argv);
}

static bool is_same_file(const struct stat *one, const struct stat *other)
{
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

/* Whether we are the last stage of a pipeline which the command's own shell has made, and no stage within a subshell, a
   loop's body or a substitution: the shell leads the session (its shim has made one for it); what it reads is not what we
   read; and it writes where we write. */
static bool is_last_stage(void)
{
    char path[64];
    struct stat input, output, shells;
    pid_t shell = getppid();

    if (shell != getsid(0) || fstat(0, &input) != 0 || fstat(1, &output) != 0 || !S_ISFIFO(input.st_mode))
        return false;
    snprintf(path, sizeof path, "/proc/%d/fd/0", (int)shell);
    if (stat(path, &shells) != 0 || is_same_file(&input, &shells))
        return false;
    snprintf(path, sizeof path, "/proc/%d/fd/1", (int)shell);
    return stat(path, &shells) == 0 && is_same_file(&output, &shells);
}

/* Find the process's folder, and how many bytes are kept: the first word of `filter`, which the shell's prelude wrote. */
static bool find_folder(char *folder, size_t size, long long *limit)
{
    char path[PATH_MAX], text[32], *end;
    const char *root = getenv("OUTLIVE_STATE_DIR"), *id = getenv("OUTLIVE_PROCESS_ID");

    if (root == NULL || id == NULL || strchr(id, '/') != NULL)
        return false;
    if (snprintf(folder, size, "%s/processes/%s", root, id) >= (int)size ||
        snprintf(path, sizeof path, "%s/filter", folder) >= (int)sizeof path || read_small(path, text, sizeof text) <= 0)
        return false;
    *limit = strtoll(text, &end, 10);
    return *limit > 0 && *end == ',';
}

/* Put the copier between the pipe and us. Without enough of anything nothing has changed. */
static void begin_copy(char **argv)
{
    char folder[PATH_MAX - 32];
    struct kept_log log;
    long long limit;
    int ends[2];

    if (!is_last_stage() || !find_folder(folder, sizeof folder, &limit) || pipe2(ends, O_CLOEXEC) != 0)
        return;
    if (!open_kept_log(&log, folder, limit)) {
        close(ends[0]);
        close(ends[1]);
        return;
    }
    /* Before the copier is there, so that it has no other name at any time; the filter gets its own. */
    prctl(PR_SET_NAME, COPIER_NAME);
    pid_t copier = fork();
    if (copier == 0)
        _exit(copy_input(ends[1], &log, reads_to_the_end(argv)));
    if (copier > 0)
        dup2(ends[0], 0);
    close(ends[0]);
    close(ends[1]);
    close(log.fd);
}

/* Execute the filter as bash would: the first file of its name in PATH. bash says in `_` which one. */
static int become_filter(char **argv)
{
    char path[PATH_MAX];
    const char *folders = getenv("PATH");

    while (folders != NULL && *folders != '\0') {
        size_t length = strcspn(folders, ":");
        const char *name = length == 0 ? "." : folders;
        int written = snprintf(path, sizeof path, "%.*s/%s", length == 0 ? 1 : (int)length, name, argv[0]);
        struct stat state;
        if (written < (int)sizeof path && access(path, X_OK) == 0 && stat(path, &state) == 0 &&
            S_ISREG(state.st_mode)) {
            setenv("_", path, 1);
            execv(path, argv);
            break;
        }
        folders += length + (folders[length] == ':');
    }
    execvp(argv[0], argv); /* what is no program of the kernel's is a script to a shell */
    return errno == ENOENT ? NOT_FOUND : NOT_EXECUTED;
}

int run_filter_stage(char **argv)
{
    begin_copy(argv);
    return become_filter(argv);
}
