/* Signals to every process below this one. A tree changes while it is walked, so one walk is never enough to be sure:
   callers repeat. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "container_shim.h"

enum {
    PIDS = 1 << 22, /* proc_sys_kernel(5) pid_max: no pid is larger */
    SEEN_BYTES = PIDS / 8,
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

static void add_children_of_threads(struct walk *walk, pid_t pid)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    if (threads == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(threads)) != NULL;) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (thread > 0)
            add_children(walk, pid, thread);
    }
    closedir(threads);
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
        if (read_stat(pid, &line) && line.threads > 1)
            add_children_of_threads(walk, pid);
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

static void signal_member(const struct walk *walk, pid_t pid, int number)
{
    struct stat_line line;
    int pidfd = open_pidfd(pid);

    if (pidfd < 0 && errno == ESRCH)
        return;
    bool is_ours = read_stat(pid, &line) && has(walk, line.parent) && line.state != 'X' &&
                   (line.state != 'Z' || line.threads > 1);
    /* Where pidfds are refused (an old kernel, a system call filter) the look at the parent must do. */
    if (is_ours && (pidfd < 0 || (signal_pidfd(pidfd, number) != 0 && errno != ESRCH)))
        kill(pid, number);
    if (pidfd >= 0)
        close(pidfd);
}

void signal_tree(int number)
{
    struct walk walk;

    if (!begin_walk(&walk))
        return;
    for (size_t index = 0; index < walk.count; index++)
        signal_member(&walk, walk.pids[index], number);
    end_walk(&walk);
}
