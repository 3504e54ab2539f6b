/* Signals to every process below this one. A tree changes while it is walked, so one walk is never enough to be sure:
   callers repeat, and `freeze_tree` repeats by itself until two walks in a row find the same. */
#include "process_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"

enum {
    PIDS = 1 << 22, /* proc_sys_kernel(5) pid_max: no pid is larger */
    SEEN_BYTES = PIDS / 8,
    EAGER_ROUNDS = 8,
    FREEZE_MS = 50,
    ROUND_NS = 500000,
    PATH_BYTES = 64,
};

/* The pids found, parents first, and a bit for each of them and of us; only touched pages of `seen` cost memory. */
struct walk {
    pid_t *pids;
    size_t count;
    size_t space;
    unsigned char *seen;
};

static bool has(const struct walk *walk, pid_t pid)
{
    return pid > 0 && pid < PIDS && (walk->seen[pid / 8] & 1 << pid % 8) != 0;
}

static void add(struct walk *walk, pid_t pid)
{
    if (pid <= 0 || pid >= PIDS || has(walk, pid))
        return;
    if (walk->count == walk->space) {
        size_t space = walk->space != 0 ? walk->space * 2 : 256;
        pid_t *pids = realloc(walk->pids, space * sizeof *pids);
        if (pids == NULL)
            return; /* callers repeat */
        walk->pids = pids;
        walk->space = space;
    }
    walk->seen[pid / 8] |= (unsigned char)(1 << pid % 8);
    walk->pids[walk->count++] = pid;
}

static void add_children(struct walk *walk, pid_t pid, pid_t thread)
{
    char path[PATH_BYTES], text[4096];
    ssize_t size;
    pid_t child = 0;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    while ((size = read(fd, text, sizeof text)) > 0) {
        for (ssize_t index = 0; index < size; index++) { /* a number may be cut by the end of a piece */
            if (text[index] >= '0' && text[index] <= '9' && child < PIDS) {
                child = child * 10 + (text[index] - '0');
            } else {
                add(walk, child);
                child = 0;
            }
        }
    }
    add(walk, child);
    close(fd);
}

typedef bool (*thread_visit)(struct walk *walk, pid_t pid, pid_t thread);

/* Call `visit` with each thread until it returns true; returns whether it did. */
static bool any_thread(struct walk *walk, pid_t pid, thread_visit visit)
{
    char path[PATH_BYTES];
    bool found = false;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    if (threads == NULL)
        return false;
    for (struct dirent *entry; !found && (entry = readdir(threads)) != NULL;) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (thread > 0)
            found = visit(walk, pid, thread);
    }
    closedir(threads);
    return found;
}

static bool visit_children(struct walk *walk, pid_t pid, pid_t thread)
{
    add_children(walk, pid, thread);
    return false;
}

static bool stat_of(pid_t pid, pid_t thread, struct stat_line *line)
{
    char path[PATH_BYTES];

    if (thread != 0)
        snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)thread);
    else
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    return read_stat(path, line);
}

static bool begin_walk(struct walk *walk)
{
    *walk = (struct walk){0};
    walk->seen = mmap(NULL, SEEN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (walk->seen == MAP_FAILED)
        return false;
    pid_t own = getpid();
    if (own < PIDS)
        walk->seen[own / 8] |= (unsigned char)(1 << own % 8);
    add_children(walk, own, own); /* we have one thread */
    for (size_t next = 0; next < walk->count; next++) {
        struct stat_line line;
        pid_t pid = walk->pids[next];
        if (stat_of(pid, 0, &line) && line.threads > 1)
            any_thread(walk, pid, visit_children);
        else
            add_children(walk, pid, pid);
    }
    return true;
}

static void end_walk(struct walk *walk)
{
    munmap(walk->seen, SEEN_BYTES);
    free(walk->pids);
}

static void signal_member(const struct walk *walk, pid_t pid, const int *numbers, int count, pid_t group)
{
    struct stat_line line;
    int pidfd = open_pidfd(pid);

    if (pidfd < 0 && errno == ESRCH)
        return;
    bool is_ours = stat_of(pid, 0, &line) && has(walk, line.parent) && line.state != 'X' &&
                   (line.state != 'Z' || line.threads > 1) && (group == 0 || line.group == group);
    for (int index = 0; is_ours && index < count; index++) {
        /* Where pidfds are refused (an old kernel, a system call filter) the look at the parent must do. */
        if (pidfd < 0 || (signal_pidfd(pidfd, numbers[index]) != 0 && errno != ESRCH))
            kill(pid, numbers[index]);
    }
    if (pidfd >= 0)
        close(pidfd);
}

static void signal_members(const struct walk *walk, const int *numbers, int count, pid_t group)
{
    for (size_t index = 0; index < walk->count; index++)
        signal_member(walk, walk->pids[index], numbers, count, group);
}

void signal_tree(const int *numbers, int count, pid_t group)
{
    struct walk walk;

    if (!begin_walk(&walk))
        return;
    signal_members(&walk, numbers, count, group);
    end_walk(&walk);
}

static bool has_pending_stop(pid_t pid)
{
    char path[PATH_BYTES], text[4096];

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (read_small(path, text, sizeof text) <= 0)
        return true; /* gone */
    unsigned long long own = 0, shared = 0;
    char *line = strstr(text, "\nSigPnd:");
    if (line != NULL)
        own = strtoull(line + strlen("\nSigPnd:"), NULL, 16);
    line = strstr(text, "\nShdPnd:");
    if (line != NULL)
        shared = strtoull(line + strlen("\nShdPnd:"), NULL, 16);
    return ((own | shared) >> (SIGSTOP - 1) & 1) != 0;
}

static bool thread_runs(struct walk *walk, pid_t pid, pid_t thread)
{
    struct stat_line line;

    (void)walk;
    return stat_of(pid, thread, &line) && strchr("TtZX", line.state) == NULL;
}

/* Tell whether a process may still execute its own code after it was sent SIGSTOP.

   A parent in vfork(2) waits uninterruptibly (D) until its child executes or ends: when the child was stopped first, the
   parent keeps its signal pending and never shows T, but it does not run, either. A leader that has ended (Z) says
   nothing about its threads. */
static bool may_run(struct walk *walk, pid_t pid)
{
    struct stat_line line;

    if (!stat_of(pid, 0, &line))
        return false;
    if (line.state == 'Z' && line.threads > 1)
        return any_thread(walk, pid, thread_runs);
    if (strchr("TtZX", line.state) != NULL)
        return false;
    return line.state != 'D' || !has_pending_stop(pid);
}

static bool any_may_run(struct walk *walk)
{
    for (size_t index = 0; index < walk->count; index++)
        if (may_run(walk, walk->pids[index]))
            return true;
    return false;
}

bool freeze_tree(void)
{
    static const int stop[] = {SIGSTOP};
    static const struct timespec pause = {0, ROUND_NS};
    int64_t until = now_ms() + FREEZE_MS;
    int quiet = 0; /* one walk can miss a child that is being born */

    for (int round = 0; quiet < 2; round++) {
        struct walk walk;
        if (!begin_walk(&walk))
            return false;
        if (any_may_run(&walk)) {
            quiet = 0;
            if (round > EAGER_ROUNDS) /* on a busy machine they need a moment to take the signal */
                nanosleep(&pause, NULL);
            signal_members(&walk, stop, 1, 0);
        } else {
            quiet++;
        }
        end_walk(&walk);
        if (quiet == 0 && now_ms() > until)
            return false;
    }
    return true;
}
