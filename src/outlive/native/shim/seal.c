/* Three processes make a sealed command. The child of the shim prepares the mounts, makes the namespace's
   init, and makes the command as a child of the shim, so that the shim learns exactly how it ends. Init waits
   until no other process is left in the namespace; the kernel ends every process of it together with its
   init. */
#include "seal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/spec.h"

enum {
    CALL_OPEN_TREE = 428, /* the same numbers on every machine; older C libraries lack them */
    CALL_MOVE_MOUNT,
    CALL_OPENAT2 = 437,
    CALL_MOUNT_SETATTR = 442,
    RECURSIVE = 0x8000,   /* AT_RECURSIVE */
    ITSELF = 0x1000,      /* AT_EMPTY_PATH */
    COPY = 1,             /* OPEN_TREE_CLONE */
    FROM_ITSELF = 4,      /* MOVE_MOUNT_F_EMPTY_PATH */
    TO_ITSELF = 0x40,     /* MOVE_MOUNT_T_EMPTY_PATH */
    READ_ONLY = 1 | 2,    /* MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID */
    RESOLVE_WITHOUT_LINKS = 4, /* RESOLVE_NO_SYMLINKS */
    COMMANDS_PID = 2,     /* inside its namespace: it is the second process there */
    FOLDER_MODE = 0777,
};

static const char *const devices[] = {"/dev/null",   "/dev/zero",    "/dev/full", "/dev/random",
                                      "/dev/urandom", "/dev/tty", "/dev/console"};
enum { DEVICES = sizeof devices / sizeof *devices, CONSOLE = DEVICES - 1 };

int open_place(const char *path, int flags)
{
    const uint64_t how[] = {(uint64_t)(O_PATH | O_CLOEXEC | flags), 0, RESOLVE_WITHOUT_LINKS};

    return (int)syscall(CALL_OPENAT2, AT_FDCWD, path, how, sizeof how);
}

/* Return a copy of the mounts at and below an opened place, mounted nowhere yet; -1 with errno. */
static int copy_tree(int place)
{
    return (int)syscall(CALL_OPEN_TREE, place, "", COPY | RECURSIVE | ITSELF | O_CLOEXEC);
}

static int open_tree_at(const char *path)
{
    int place = open_place(path, 0);
    int tree = place < 0 ? -1 : copy_tree(place);

    if (place >= 0)
        close(place);
    return tree;
}

/* Make a mount point for a tree where a hidden folder has taken it away. */
static int make_place(int tree, const char *path)
{
    char above[PATH_MAX];
    struct stat about;

    if (lstat(path, &about) == 0)
        return 0;
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        if (snprintf(above, sizeof above, "%.*s", (int)(slash - path), path) >= PATH_MAX)
            return ENAMETOOLONG;
        if (mkdir(above, FOLDER_MODE) != 0 && errno != EEXIST)
            return errno;
    }
    if (fstat(tree, &about) == 0 && S_ISDIR(about.st_mode))
        return mkdir(path, FOLDER_MODE) == 0 ? 0 : errno;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, FOLDER_MODE);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

/* Mount a tree of `open_tree_at` (-1: there is none) where it was. */
static int put_back(int tree, const char *path)
{
    if (tree < 0)
        return 0;
    int error = make_place(tree, path);
    if (error == 0 && syscall(CALL_MOVE_MOUNT, tree, "", AT_FDCWD, path, FROM_ITSELF) != 0)
        error = errno;
    close(tree);
    return error;
}

static int make_read_only(int place, const char *path, unsigned flags)
{
    const uint64_t attributes[] = {READ_ONLY, 0, 0, 0};

    return syscall(CALL_MOUNT_SETATTR, place, path, flags | RECURSIVE, attributes, sizeof attributes) == 0 ? 0 : errno;
}

int mount_over_itself(const char *path, bool is_read_only)
{
    int place = open_place(path, O_NOFOLLOW);
    int tree = place < 0 ? -1 : copy_tree(place);
    int error = tree < 0 ? errno : 0;

    if (error == 0 && is_read_only)
        error = make_read_only(tree, "", ITSELF);
    if (error == 0 && syscall(CALL_MOVE_MOUNT, tree, "", place, "", FROM_ITSELF | TO_ITSELF) != 0)
        error = errno;
    if (tree >= 0)
        close(tree);
    if (place >= 0)
        close(place);
    return error;
}

int mount_empty(const char *path)
{
    char name[32];
    int place = open_place(path, O_NOFOLLOW | O_DIRECTORY);

    if (place < 0)
        return errno == ENOENT || errno == EACCES ? 0 : errno; /* removed meanwhile, or out of our reach anyway */
    snprintf(name, sizeof name, "/proc/self/fd/%d", place);
    int error = mount("tmpfs", name, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0") == 0 ? 0 : errno;
    close(place);
    return error == ENOENT ? 0 : error; /* removed since it was opened: nothing can be mounted on it, or reached by it */
}

int mount_proc(unsigned long flags, const char *options)
{
    static const char *const keys[] = {"/proc/keys", "/proc/key-users"};

    if (mount("proc", "/proc", "proc", flags | MS_NOSUID | MS_NODEV | MS_NOEXEC, options) != 0)
        return errno;
    for (int index = 0; index < 2; index++)
        if (access(keys[index], F_OK) == 0 && mount("/dev/null", keys[index], NULL, MS_BIND, NULL) != 0)
            return errno;
    return 0;
}

static int open_devices(int terminal, int *trees)
{
    for (int index = 0; index < DEVICES; index++) {
        const char *path = index == CONSOLE ? NULL : devices[index];
        if (index == CONSOLE && terminal >= 0)
            path = ttyname(terminal); /* /dev/console is where ttyname(3) finds a terminal without a name in /dev/pts */
        trees[index] = path == NULL ? -1 : open_tree_at(path);
        if (path != NULL && trees[index] < 0 && (errno != ENOENT || index == CONSOLE))
            return errno;
    }
    return 0;
}

/* Mount a /dev that holds only harmless devices and new terminals. */
static int fill_dev(const int *trees)
{
    static const char *const links[][2] = {{"/proc/self/fd", "/dev/fd"},
                                           {"fd/0", "/dev/stdin"},
                                           {"fd/1", "/dev/stdout"},
                                           {"fd/2", "/dev/stderr"},
                                           {"pts/ptmx", "/dev/ptmx"}};
    int error = 0;

    if (mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=0755") != 0)
        return errno;
    for (int index = 0; error == 0 && index < DEVICES; index++)
        error = put_back(trees[index], devices[index]);
    for (size_t index = 0; error == 0 && index < sizeof links / sizeof *links; index++)
        error = symlink(links[index][0], links[index][1]) == 0 ? 0 : errno;
    if (error != 0)
        return error;
    if (mkdir("/dev/pts", FOLDER_MODE) != 0 || mkdir("/dev/shm", FOLDER_MODE) != 0 ||
        mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620") != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=1777") != 0)
        return errno;
    return 0;
}

/* Copy what stays visible: once a folder is hidden, its content cannot be reached any more. */
static int open_views(const struct confinement *all, int *trees)
{
    for (size_t index = 0; index < all->taken; index++) {
        const char *shown = after_verb(all->steps[index], "show"), *kept = after_verb(all->steps[index], "keep");
        const char *path = shown != NULL ? shown : kept;
        trees[index] = -1;
        if (path == NULL || access(path, F_OK) != 0)
            continue;
        trees[index] = open_tree_at(path);
        if (trees[index] < 0)
            return errno;
        int error = shown == NULL ? 0 : make_read_only(trees[index], "", ITSELF);
        if (error != 0)
            return error;
    }
    return 0;
}

static int hide_folders(const struct confinement *all)
{
    for (size_t index = 0; index < all->taken; index++) {
        const char *path = after_verb(all->steps[index], "hide");
        struct stat about;
        if (path == NULL || stat(path, &about) != 0 || !S_ISDIR(about.st_mode))
            continue;
        bool is_shared = strcmp(path, "/tmp") == 0 || strcmp(path, "/var/tmp") == 0;
        if (mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, is_shared ? "mode=1777" : "mode=0700") != 0)
            return errno;
    }
    return 0;
}

static int mount_views(const struct confinement *all)
{
    int own_devices[DEVICES];
    int *trees = claim((all->taken + 1) * sizeof *trees);

    if (trees == NULL)
        return ENOMEM;
    int error = mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 ? 0 : errno;
    if (error == 0)
        error = open_views(all, trees);
    if (error == 0)
        error = open_devices(all->terminal, own_devices);
    if (error == 0)
        error = make_read_only(AT_FDCWD, "/", 0);
    if (error == 0)
        error = hide_folders(all);
    if (error == 0)
        error = fill_dev(own_devices);
    for (size_t index = 0; error == 0 && index < all->taken; index++)
        if (trees[index] >= 0)
            error = put_back(trees[index], strchr(all->steps[index], ' ') + 1);
    return error;
}

/* Wait, as process 1 of the namespace, until no other process is left in it. All signals are blocked, as in a
   shim. */
static _Noreturn void be_init(int reading)
{
    char byte;

    signal(SIGCHLD, SIG_IGN); /* the kernel reaps, and a wait ends only after the last child is gone (wait(2)) */
    forget_claims();          /* the secrets of the command */
    dup2(reading, 0);
    close_from(1, false); /* with a copy open here, the command's pipes would never reach their end */
    if (read(0, &byte, 1) == 1) {
        struct pollfd command = {.fd = open_pidfd(COMMANDS_PID), .events = POLLIN}; /* -1: it has ended and was reaped */
        if (command.fd >= 0)
            poll(&command, 1, -1);
        wait_for_all();
    }
    _exit(0);
}

/* In a child that becomes the command: tell init, which must not find the namespace empty before, and look at
   it anew. */
static int begin_inside(struct confinement *all, int writing, const char *folder)
{
    all->outcome->born_ns = boottime_ns();
    if (write(writing, "", 1) != 1)
        return errno;
    int error = mount_proc(MS_RDONLY, NULL);
    if (error == 0 && chdir(folder) != 0) /* again: the same path may be another mount now */
        error = errno;
    return error;
}

int seal(struct confinement *all)
{
    char folder[PATH_MAX];
    int ends[2];

    if ((all->left & CLONE_NEWNS) == 0 || (all->left & CLONE_NEWPID) == 0)
        return EINVAL;
    if (getcwd(folder, sizeof folder) == NULL)
        return errno;
    int error = mount_views(all);
    if (error != 0)
        return error;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    pid_t init = fork();
    if (init < 0)
        return errno;
    if (init == 0)
        be_init(ends[0]);
    all->outcome->init = init;
    /* A child of the shim and not of this process: the shim then reaps the command itself. Until it executes
       we stand still, as the shim does until we end. */
    /* The kernel writes its pid before it runs: whatever ends us meanwhile, the shim knows its command. */
    long flags = CLONE_PARENT | CLONE_VFORK | CLONE_PARENT_SETTID;
    pid_t pid = (pid_t)syscall(SYS_clone, flags, NULL, &all->outcome->sealed, NULL, NULL);
    if (pid == 0)
        return begin_inside(all, ends[1], folder);
    if (pid < 0) {
        error = errno;
        kill(init, SIGKILL);
        return error;
    }
    _exit(0);
}
