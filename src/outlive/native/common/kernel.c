/* Calls that a C library may not know yet, and facts read from /proc. Nothing here decides anything: callers do. */
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* These numbers are the same on every machine (asm-generic/unistd.h); older headers lack them. */
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
enum {
    CLONE_WITH_PIDFD = 0x1000,
    CLOSE_RANGE_MARKS = 4,
    ROUNDING_NS = 1000, /* the kernel's clock and ours are one, but for their last digits */
    MOST_OOM_SCORE = 1000, /* proc_pid_oom_score_adj(5) */
    REAPED_AT_ONCE = 256, /* of a storm of children, before anything else gets its turn */
    MOST_TRACED = 256,  /* children that are let go of in one turn: one may make us its tracer again at once */
};

int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

int signal_pidfd(int pidfd, int number)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0);
}

pid_t fork_with_pidfd(int *pidfd)
{
    /* The third argument is the pidfd's place on every machine; only the two behind it change places. */
    *pidfd = -1;
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_WITH_PIDFD | SIGCHLD, NULL, pidfd, NULL, NULL);
    if (pid < 0 && errno == EINVAL)
        pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL); /* kernel < 5.2, or an emulated one */
    if (pid > 0 && *pidfd < 0)
        *pidfd = open_pidfd(pid); /* only we reap it, so the pid is still this child's */
    return pid;
}

/* The SIGTRAP by which the kernel reports execve(2) to a tracer (ptrace(2)): the program itself was sent no signal. */
static bool is_exec_trap(const siginfo_t *info)
{
    char path[32], text[32];

    snprintf(path, sizeof path, "/proc/%d/syscall", (int)info->si_pid);
    if (info->si_status != SIGTRAP || read_small(path, text, sizeof text) <= 0)
        return false;
    long number = strtol(text, NULL, 10); /* "running": 0, which is no execve */
    return number == SYS_execve || number == SYS_execveat;
}

/* Any process below us may make us its tracer, by PTRACE_TRACEME. It gets the signal at which it stands, and no tracer. */
static void stop_tracing(const siginfo_t *info)
{
    long number = is_exec_trap(info) ? 0 : info->si_status & 0x7f; /* above that stand events, which we did not ask for */

    ptrace(PTRACE_DETACH, info->si_pid, 0L, number); /* fails if it was killed meanwhile: its end is found next */
}

static bool is_end(const siginfo_t *info)
{
    return info->si_code == CLD_EXITED || info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED;
}

bool find_ended(siginfo_t *info)
{
    for (int count = 0; count < MOST_TRACED; count++) {
        info->si_pid = 0;
        if (waitid(P_ALL, 0, info, WEXITED | WNOHANG | WNOWAIT) != 0)
            return errno != ECHILD;
        if (info->si_pid == 0 || is_end(info))
            return true;
        stop_tracing(info);
    }
    info->si_pid = 0;
    kill(getpid(), SIGCHLD); /* more may wait: the caller looks again when it has done something else */
    return true;
}

enum reaped reap_children(pid_t command, siginfo_t *info)
{
    for (int count = 0; count < REAPED_AT_ONCE; count++) {
        if (!find_ended(info))
            return NO_CHILD_LEFT;
        if (info->si_pid == 0)
            return REAPED_ALL;
        if (info->si_pid == command)
            return COMMAND_ENDED;
        reap_one(info->si_pid);
    }
    return REAPED_SOME;
}

void wait_for_all(void)
{
    siginfo_t info;

    for (;;) {
        if (waitid(P_ALL, 0, &info, WEXITED) != 0) {
            if (errno != EINTR)
                return;
        } else if (!is_end(&info))
            stop_tracing(&info);
    }
}

void reap_one(pid_t pid)
{
    siginfo_t info;

    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG);
}

void wake_by(int fd)
{
    fcntl(fd, F_SETOWN, getpid());
    fcntl(fd, F_SETSIG, SIGCONT);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC);
}

void reset_signals(void)
{
    static const unsigned char standard[64]; /* the kernel's struct sigaction: SIG_DFL, no flags, an empty mask */

    for (int number = 1; number < 65; number++)
        syscall(SYS_rt_sigaction, number, standard, NULL, (size_t)8); /* refused for KILL and STOP */
}

void block_all_signals(bool blocked)
{
    uint64_t mask = blocked ? UINT64_MAX : 0;

    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
}

/* By the kernel's own calls: musl has none for this. */
bool set_batch_scheduling(bool is_wanted)
{
    static const int ordinary_priority;
    int from = is_wanted ? SCHED_OTHER : SCHED_BATCH, to = is_wanted ? SCHED_BATCH : SCHED_OTHER;

    return syscall(SYS_sched_getscheduler, 0) == from &&
           syscall(SYS_sched_setscheduler, 0, to, &ordinary_priority) == 0;
}

void close_from(unsigned first, bool only_cloexec)
{
    if (syscall(SYS_close_range, first, ~0U, only_cloexec ? CLOSE_RANGE_MARKS : 0) == 0)
        return;
    long last = sysconf(_SC_OPEN_MAX); /* kernel < 5.9 */
    if (last < 0 || last > 65536)
        last = 65536;
    for (int fd = (int)first; fd < last; fd++) {
        if (only_cloexec)
            fcntl(fd, F_SETFD, FD_CLOEXEC);
        else
            close(fd);
    }
}

void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t now_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t boottime_ns(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

int64_t now_ms(void)
{
    return read_clock(CLOCK_MONOTONIC) / 1000000;
}

bool is_deleted(int fd)
{
    struct stat about;

    return fstat(fd, &about) != 0 || about.st_nlink == 0;
}

ssize_t read_small(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -1;
    ssize_t length = read(fd, text, size - 1);
    close(fd);
    if (length >= 0)
        text[length] = '\0';
    return length;
}

bool read_stat(pid_t pid, struct stat_line *line)
{
    char path[32], text[1024];
    int parent;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (read_small(path, text, sizeof text) <= 0)
        return false;
    char *end = strrchr(text, ')'); /* the name before it may hold anything */
    if (end == NULL)
        return false;
    /* proc(5): state, ppid, then fifteen numbers (pgrp to nice) before num_threads, itrealvalue and starttime. */
    if (sscanf(end + 1, " %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld %*s %llu", &line->state,
               &parent, &line->threads, &line->ticks) != 4)
        return false;
    line->parent = parent;
    return true;
}

unsigned long long start_ticks(pid_t pid)
{
    struct stat_line line;

    return read_stat(pid, &line) ? line.ticks : 0;
}

unsigned long long start_ticks_between(pid_t pid, int64_t before_ns, int64_t after_ns)
{
    static enum { UNTRIED, AGREES, DIFFERS } clock;
    int64_t tick_ns = 1000000000 / sysconf(_SC_CLK_TCK);
    unsigned long long ticks = (unsigned long long)((before_ns - ROUNDING_NS) / tick_ns);
    bool is_one_tick = ticks == (unsigned long long)((after_ns + ROUNDING_NS) / tick_ns);

    if (is_one_tick && clock == AGREES)
        return ticks;
    unsigned long long asked = start_ticks(pid);
    if (is_one_tick && clock == UNTRIED && asked != 0)
        clock = asked == ticks ? AGREES : DIFFERS;
    return asked;
}

static int oom_file = -1;

void open_oom_score(void)
{
    oom_file = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
}

void raise_oom_score(bool is_raised)
{
    static long own;
    char text[16] = "";

    if (oom_file < 0 || (is_raised && pread(oom_file, text, sizeof text - 1, 0) <= 0))
        return;
    if (is_raised)
        own = strtol(text, NULL, 10);
    /* A fifth of what is left: a command may be an outlive whose commands stand above it again. */
    long score = is_raised ? own + (MOST_OOM_SCORE - own + 4) / 5 : own;
    int size = snprintf(text, sizeof text, "%ld", score);
    if (pwrite(oom_file, text, (size_t)size, 0) != size) {
        /* An emulated kernel: then its score is ours. */
    }
}

long long oom_kills(void)
{
    static const char *const files[] = {"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"};
    char text[1024];

    for (size_t index = 0; index < sizeof files / sizeof *files; index++) {
        if (read_small(files[index], text, sizeof text) <= 0)
            continue;
        for (char *found = text; (found = strstr(found, "oom_kill ")) != NULL; found++)
            if (found == text || found[-1] == '\n')
                return strtoll(found + strlen("oom_kill "), NULL, 10);
    }
    return -1;
}
