/* Calls that a C library may not know yet, and facts read from /proc. Nothing here decides anything. */
#ifndef OUTLIVE_COMMON_KERNEL_H
#define OUTLIVE_COMMON_KERNEL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Fork with a pidfd of the child (-1 where the kernel has none). Returns as fork(2) does. */
pid_t fork_with_pidfd(int *pidfd);

/* pidfd_open(2) and pidfd_send_signal(2). */
int open_pidfd(pid_t pid);
int signal_pidfd(int pidfd, int number);

/* Have the kernel continue this process, should it be stopped, whenever something comes from a descriptor or its other end
   is closed: SIGCONT as fcntl(2) F_SETSIG sends it, which continues also where it is blocked (signal(7)). */
void wake_by(int fd);

/* Default dispositions for all, by the kernel's own call: C libraries refuse a few numbers. The process that started us
   may have ignored these, and what is ignored survives execve (signal(7)). */
void reset_signals(void);

/* Find a child that has ended, and leave it a zombie: `info` is about it, its pid is 0 while none has ended. False: there is
   no child. A child that only stands at a signal because it has made us its tracer goes on with that signal, untraced. */
bool find_ended(siginfo_t *info);

/* Reap children that have ended, no more than fits into a turn, until the command has (0: there is none): it is left a
   zombie, and `info` is about it. */
enum reaped { NO_CHILD_LEFT, REAPED_ALL, REAPED_SOME, COMMAND_ENDED };
enum reaped reap_children(pid_t command, siginfo_t *info);

/* Reap children until none is left. */
void wait_for_all(void);

/* Reap a child that has ended; nothing is waited for. */
void reap_one(pid_t pid);

/* Block every signal, or none. A library's own sigprocmask spares those it needs for threads: 32 to 34 would kill. */
void block_all_signals(bool blocked);

/* Make an ordinary process one that interrupts no other when it wakes (SCHED_BATCH), or make it ordinary again (sched(7)).
   Returns whether it is so now; a process with another policy keeps it. */
bool set_batch_scheduling(bool is_wanted);

/* Close (or, with `only_cloexec`, mark) every descriptor from `first` on. */
void close_from(unsigned first, bool only_cloexec);

/* Close a descriptor, if it is one, and forget it. */
void close_fd(int *fd);

/* Unix time in nanoseconds; nanoseconds since boot, the clock of start times; monotonic time in milliseconds. */
int64_t now_ns(void);
int64_t boottime_ns(void);
int64_t now_ms(void);

/* Tell whether an open file has lost its name; it counts as lost where there is no descriptor. */
bool is_deleted(int fd);

/* Read a small file into `text`, which then ends with NUL. Returns the bytes, -1 when it cannot be read. */
ssize_t read_small(const char *path, char *text, size_t size);

/* What /proc/PID/stat says about a process. */
struct stat_line {
    char state;
    pid_t parent;
    long threads;
    unsigned long long ticks; /* when it was started, in clock ticks since boot */
};
bool read_stat(pid_t pid, struct stat_line *line);

/* The same start time alone; 0 when there is no such pid. */
unsigned long long start_ticks(pid_t pid);

/* The same as `start_ticks` of a child that was made between two moments of `boottime_ns`. As a rule both lie in one tick,
   and the clock tells; once it was seen to agree with what /proc says, which takes far longer to ask. */
unsigned long long start_ticks_between(pid_t pid, int64_t before_ns, int64_t after_ns);

/* Open our own oom_score_adj (proc(5)), while this process is not yet closed to others: later only root may. */
void open_oom_score(void);

/* Raise it for the children that are made now, or put it back. What is raised is taken first when memory runs out. Raising
   needs no privilege, nor does going back to what was inherited. */
void raise_oom_score(bool is_raised);

/* How many processes the kernel has killed in this container for want of memory; -1 when it does not say. */
long long oom_kills(void);

#endif
