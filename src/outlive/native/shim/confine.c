/* The steps, a function each. A child takes them that has a copy of its shim's memory (start.c). */
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../common/failpoints.h"
#include "../common/spec.h"
#include "seal.h"

/* Numbers that are the same on every machine, and constants of headers that older C libraries lack. */
enum {
    CALL_LANDLOCK_CREATE_RULESET = 444,
    CALL_LANDLOCK_ADD_RULE,
    CALL_LANDLOCK_RESTRICT_SELF,
    PATH_BENEATH = 1,           /* linux/landlock.h */
    RIGHTS_OF_FILES = 0xC007,   /* execute, write, read, truncate, ioctl of devices: all others are folders' */
    MODE_FILTER = 2,            /* linux/seccomp.h */
    JOIN_SESSION_KEYRING = 1,   /* linux/keyctl.h */
    SETPERM = 5,
    SESSION_KEYRING = -3,
    KEYRING_RIGHTS = 0x3F090000, /* its possessor may do everything, processes of its user look at it and find it */
    CAPABILITIES = 64,
    UNKNOWN_STEP = -1,
    DIGITS_EACH = 16, /* of an instruction: 8 bytes */
    MOST_INSTRUCTIONS = 4096, /* BPF_MAXINSNS (linux/bpf_common.h) */
};

/* Return 0 or errno for a call that returns -1 where it fails. */
static int checked(long result)
{
    return result < 0 ? errno : 0;
}

static int write_text(const char *path, const char *text, size_t size)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return errno;
    int error = checked(write(fd, text, size));
    close(fd);
    return error;
}

static int make_group(struct confinement *all)
{
    return mkdir(all->rest, 0777) == 0 || errno == EEXIST ? 0 : errno; /* made by an earlier attempt at the same start */
}

static int set_limit_of_group(struct confinement *all)
{
    size_t value = strcspn(all->rest, " ");

    return all->rest[value] == ' ' ? write_text(all->rest + value + 1, all->rest, value) : EINVAL;
}

static int enter_group(struct confinement *all)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/cgroup.procs", all->rest) >= PATH_MAX)
        return ENAMETOOLONG;
    return write_text(path, "0", 1); /* the writer (cgroups(7)) */
}

static int limit_resource(struct confinement *all)
{
    return set_limit(all->rest);
}

/* All commands of a user join the same one: he may have 200 keys (keyrings(7)), and one keyring for each
   command would soon be the end of starts. No command can put anything into it, as the filter denies every
   call about keys. */
static int join_keyring(struct confinement *all)
{
    (void)all;
    if (lacks("keyring"))
        return EDQUOT;
    if (syscall(SYS_keyctl, JOIN_SESSION_KEYRING, "outlive-sandbox") < 0)
        /* A kernel without keys, or a container that denies the call: then the command cannot reach any keys
           either. */
        return errno == ENOSYS || errno == EPERM ? 0 : errno;
    /* Without these rights the next command could not find it, and would make another one. */
    return checked(syscall(SYS_keyctl, SETPERM, SESSION_KEYRING, KEYRING_RIGHTS));
}

static int map_to_itself(const char *path, unsigned id)
{
    char line[32];

    return write_text(path, line, (size_t)snprintf(line, sizeof line, "%u %u 1", id, id));
}

static int leave_namespaces(struct confinement *all)
{
    unsigned user = geteuid(), group = getegid();
    unsigned long long number;

    if (lacks("namespaces"))
        return EPERM;
    if (!read_number(all->rest, &number) || number == 0 || number > INT_MAX) /* to leave none would look like success */
        return EINVAL;
    int wanted = (int)number;
    if (unshare(wanted) != 0)
        return errno;
    all->left |= wanted;
    /* Slave: later mounts outside still appear here, and none of ours appears there. */
    if ((wanted & CLONE_NEWNS) != 0 && mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
        return errno;
    if ((wanted & CLONE_NEWUSER) == 0)
        return 0;
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* otherwise root owns the files below, and writing them fails */
    int error = write_text("/proc/self/setgroups", "deny", 4); /* user_namespaces(7): before an unprivileged gid_map */
    if (error == 0)
        error = map_to_itself("/proc/self/uid_map", user);
    if (error == 0)
        error = map_to_itself("/proc/self/gid_map", group);
    /* Closed again: until it executes, the child has the shim's memory, and a sealed command's init keeps it.
       */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return error;
}

static int raise_loopback(struct confinement *all)
{
    struct ifreq request = {.ifr_name = "lo"};
    if ((all->left & CLONE_NEWNET) == 0)
        return EINVAL;
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* the ioctl names the interface (netdevice(7)) */
    if (any < 0)
        return errno;
    int error = checked(ioctl(any, SIOCGIFFLAGS, &request));
    request.ifr_flags |= IFF_UP;
    if (error == 0)
        error = checked(ioctl(any, SIOCSIFFLAGS, &request));
    close(any);
    return error;
}

/* Effective, permitted and inheritable are masks of 32 bits, in two halves (capabilities(7)). */
static int drop_capabilities(struct confinement *all)
{
    struct {
        uint32_t version;
        int pid;
    } header = {0x20080522, 0}; /* _LINUX_CAPABILITY_VERSION_3 */
    uint32_t halves[2][3];
    unsigned long long kept;

    if (!read_number(all->rest, &kept))
        return EINVAL;
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (int number = 0; number < CAPABILITIES; number++)
        if ((kept >> number & 1) == 0 && prctl(PR_CAPBSET_DROP, number, 0, 0, 0) != 0)
            break; /* beyond the last one that the kernel knows; or we are not privileged, and only what follows matters */
    if (syscall(SYS_capget, &header, halves) != 0)
        return errno;
    for (int half = 0; half < 2; half++) {
        halves[half][0] = halves[half][1] &= (uint32_t)(kept >> 32 * half);
        halves[half][2] = 0;
    }
    return checked(syscall(SYS_capset, &header, halves));
}

static int forbid_new_privileges(struct confinement *all)
{
    (void)all;
    return checked(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
}

static int hide_processes(struct confinement *all)
{
    if ((all->left & CLONE_NEWNS) == 0)
        return EINVAL;
    /* hidepid=4 hides processes that may not be traced (Linux 5.8); Landlock decides which those are. */
    return mount_proc(0, "hidepid=4");
}

static int mount_place(struct confinement *all, bool is_read_only)
{
    char folder[PATH_MAX];

    if ((all->left & CLONE_NEWNS) == 0)
        return EINVAL;
    if (getcwd(folder, sizeof folder) == NULL)
        return errno;
    int error = mount_over_itself(all->rest, is_read_only);
    /* Entered again: the folder that we are in may lie below the new mount, and there nothing is read-only. */
    return error == 0 && chdir(folder) != 0 ? errno : error;
}

static int pin(struct confinement *all)
{
    int error = mount_place(all, false);
    /* Gone, or out of our reach, and so is what it led to; `protect` insists on that. */
    return error == ENOENT || error == EACCES ? 0 : error;
}

static int protect(struct confinement *all)
{
    return mount_place(all, true);
}

static int close_folder(struct confinement *all)
{
    return (all->left & CLONE_NEWNS) == 0 ? EINVAL : mount_empty(all->rest);
}

static int allow(int ruleset, const char *rest)
{
    struct __attribute__((packed)) {
        uint64_t rights;
        int32_t fd;
    } rule;
    unsigned long long rights;

    if (!take_number(&rest, &rights))
        return EINVAL;
    rule.rights = rights;
    rule.fd = open_place(rest, 0);
    if (rule.fd < 0) /* gone, or a link, or out of our reach anyway: then nothing is allowed there */
        return errno == ENOENT || errno == ELOOP || errno == ENOTDIR || errno == EACCES ? 0 : errno;
    int error = checked(syscall(CALL_LANDLOCK_ADD_RULE, ruleset, PATH_BENEATH, &rule, 0));
    if (error == EINVAL) { /* rights of folders for something that is none; a stat(2) before would cost more */
        rule.rights &= RIGHTS_OF_FILES;
        error = checked(syscall(CALL_LANDLOCK_ADD_RULE, ruleset, PATH_BENEATH, &rule, 0));
    }
    close(rule.fd);
    return error;
}

static int restrict_to_allowed(struct confinement *all)
{
    const char *words = all->rest;
    unsigned long long rights, scopes;

    if (!take_number(&words, &rights) || !read_number(words, &scopes))
        return EINVAL;
    /* Rights to files and to the network, and scopes; older kernels know the first alone, and take zeros behind it. */
    uint64_t handled[3] = {rights, 0, scopes};
    int ruleset = (int)syscall(CALL_LANDLOCK_CREATE_RULESET, handled, sizeof handled, 0);
    int error = checked(ruleset);
    for (size_t index = 0; error == 0 && index < all->taken; index++) {
        const char *rule = after_verb(all->steps[index], "allow");
        error = rule == NULL ? 0 : allow(ruleset, rule);
    }
    return error != 0 ? error : checked(syscall(CALL_LANDLOCK_RESTRICT_SELF, ruleset, 0));
}

static unsigned value_of_digit(char digit)
{
    return (unsigned)(digit <= '9' ? digit - '0' : digit - 'a' + 10) & 15;
}

/* The bytes are put where their digits stand. */
static int filter_calls(struct confinement *all)
{
    char *bytes = all->steps[all->taken];
    size_t size = strlen(all->rest);
    struct { /* struct sock_fprog (linux/filter.h) */
        unsigned short instructions;
        void *first;
    } program = {(unsigned short)(size / DIGITS_EACH), bytes};

    if (lacks("seccomp"))
        return ENOSYS;
    if (size == 0 || size % DIGITS_EACH != 0 || size / DIGITS_EACH > MOST_INSTRUCTIONS ||
        strspn(all->rest, "0123456789abcdef") != size)
        return EINVAL;
    for (size_t index = 0; index + 1 < size; index += 2)
        *bytes++ = (char)(value_of_digit(all->rest[index]) << 4 | value_of_digit(all->rest[index + 1]));
    return checked(prctl(PR_SET_SECCOMP, MODE_FILTER, &program, 0, 0));
}

static const struct {
    const char *verb;
    int (*take)(struct confinement *all); /* NULL: a later step looks for it */
} table[] = {
    {"group", make_group},
    {"set", set_limit_of_group},
    {"cgroup", enter_group},
    {"limit", limit_resource},
    {"keyring", join_keyring},
    {"unshare", leave_namespaces},
    {"loopback", raise_loopback},
    {"capabilities", drop_capabilities},
    {"no_new_privileges", forbid_new_privileges},
    {"processes", hide_processes},
    {"pin", pin},
    {"protect", protect},
    {"close", close_folder},
    {"allow", NULL},
    {"landlock", restrict_to_allowed},
    {"seccomp", filter_calls},
    {"hide", NULL},
    {"keep", NULL},
    {"show", NULL},
    {"seal", seal},
};

static int take_step(struct confinement *all)
{
    for (size_t index = 0; index < sizeof table / sizeof *table; index++) {
        all->rest = after_verb(all->steps[all->taken], table[index].verb);
        all->outcome->step = (int)index + 1;
        if (all->rest != NULL)
            return table[index].take == NULL ? 0 : table[index].take(all);
    }
    all->outcome->step = UNKNOWN_STEP; /* the command must not run without it */
    return ENOSYS;
}

int take_steps(struct confinement *all)
{
    int error = 0;

    for (all->taken = 0; error == 0 && all->taken < all->count; all->taken++)
        error = take_step(all);
    if (error == 0)
        all->outcome->step = 0;
    return error;
}

const char *name_of_step(int step)
{
    return step > 0 && (size_t)step <= sizeof table / sizeof *table ? table[step - 1].verb : "unknown";
}
