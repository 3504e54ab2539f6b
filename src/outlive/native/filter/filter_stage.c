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
#include "filter_words.h"
#include "kept_log.h"

enum { NOT_FOUND = 127, NOT_EXECUTED = 126 };

static const char *const FILTERS[] = {"tail", "head", "grep", "egrep", "fgrep", NULL};

bool is_filter(const char *name)
{
    for (const char *const *known = FILTERS; *known != NULL; known++)
        if (strcmp(name, *known) == 0)
            return true;
    return false;
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
