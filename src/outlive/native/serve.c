/* outlive-runner: the first process of a container. It listens, makes a minder for each supervisor's connection, and
   reaps whatever has lost its parent. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel.h"
#include "minder.h"
#include "serve.h"
#include "shim.h"
#include "stand.h"
#include "tree.h"

#define VERSION "outlive-runner 1\n"

enum {
    USAGE = 64, /* sysexits.h EX_USAGE */
    TERM_MS = 1250, /* a minder's patience and a little: it records what it has to kill */
    KILL_MS = 3000,
    LOOK_MS = 20,
    REAPED_AT_ONCE = 256,
    REST_MS = 50, /* out of descriptors or processes */
};

void complain(const char *about)
{
    dprintf(2, "outlive-runner: %s: %s\n", about, strerror(errno));
}

/* Listen under another name of the working folder, then take the right one: whoever sees it can connect. */
static int listen_as(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = ".outlive-runner.new"};
    struct stat state;

    if (lstat(name, &state) == 0 && !S_ISSOCK(state.st_mode)) {
        errno = EEXIST;
        return -1;
    }
    unlink(address.sun_path);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask = umask(0177);
    bool listens = listener >= 0 && bind(listener, (struct sockaddr *)&address, sizeof address) == 0 &&
                   listen(listener, BACKLOG) == 0 && rename(address.sun_path, name) == 0;
    umask(mask); /* the commands' is the container's */
    return listens ? listener : -1;
}

/* Listen on an abstract address. */
static int listen_abstractly(const char *path)
{
    struct sockaddr_un address;
    socklen_t size = address_of(path, &address);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, BACKLOG) != 0) {
        complain(path);
        return -1;
    }
    return listener;
}

/* Listen on a path, mode 0600; a socket that lies there is stale. Returns -1 after a complaint. */
int listen_at(const char *path)
{
    struct sockaddr_un address;
    char folder[sizeof address.sun_path];
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;

    if (*path == '@')
        return listen_abstractly(path);
    int here = open(".", O_PATH | O_CLOEXEC);
    if (*name == '\0' || strlen(path) >= sizeof address.sun_path) { /* it could not be connected to, either */
        errno = ENAMETOOLONG;
        complain("the socket's path");
        return -1;
    }
    snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path);
    int listener = *folder == '\0' || chdir(folder) == 0 ? listen_as(name) : -1;
    if (listener < 0)
        complain(path);
    if (here >= 0 && fchdir(here) == 0)
        close(here);
    return listener;
}

/* A descriptor below 3 that is closed would be taken by one of ours, and be a command's stream. */
static void fill_streams(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR); /* the commands do not get these: theirs are put over them */
    while (fd >= 0 && fd < 3);
    close_from(3, false);
}

/* False: nobody can be served now. */
static bool welcome(int listener, int wake, bool lets_any_in, int lock)
{
    uid_t uid;
    int link = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (link < 0)
        return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    pid_t pid = peer_of(link, &uid);
    pid_t minder = -1;
    /* The kernel translates a pid of another PID namespace to 0: anything else comes from inside the container. */
    bool is_welcome = pid == 0 || (pid > 0 && lets_any_in);
    if (is_welcome) {
        minder = fork();
        if (minder == 0) {
            close(listener);
            close(wake);
            mind(link, lets_any_in ? LETS_ANY_IN : 0, lock);
        }
    }
    close(link);
    return !is_welcome || minder > 0;
}

/* Reap what has ended, no more than fits into a turn. */
enum reaped reap_children(void)
{
    for (int count = 0; count < REAPED_AT_ONCE; count++) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid <= 0)
            return pid < 0 && errno == ECHILD ? NO_CHILD_LEFT : REAPED_ALL;
    }
    return REAPED_SOME;
}

static void signal_everybody(int number)
{
    if (getpid() == 1)
        kill(-1, number); /* all of the container, whoever started it (kill(2): never PID 1 itself) */
    else
        signal_tree(&number, 1, 0);
}

/* TERM to all, KILL to what is left: the minders record how their commands end. */
void end_everybody(void)
{
    int64_t begun = now_ms();

    signal_everybody(SIGTERM);
    while (reap_children() != NO_CHILD_LEFT) {
        int64_t passed = now_ms() - begun;
        if (passed > KILL_MS)
            return;
        if (passed > TERM_MS)
            signal_everybody(SIGKILL);
        poll(NULL, 0, LOOK_MS);
    }
}

int begin_serving(void)
{
    sigset_t wanted;

    fill_streams();
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    /* Commands of our user must not look into our memory, which a fork has for a while: execve gives it back to them. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
        complain("PR_SET_DUMPABLE");
        return -1;
    }
    /* An emulator refuses this. Without it nobody could say what a command has left behind: nothing starts then. */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
        complain("PR_SET_CHILD_SUBREAPER");
        return -1;
    }
    int wake = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (wake < 0)
        complain("signalfd");
    return wake;
}

bool was_told_to_end(int wake)
{
    struct signalfd_siginfo heard;
    bool is_over = false, is_first = getpid() == 1;

    /* In a container a command inside must not end all others: only a sender that the kernel cannot number here (0) is
       outside, as the daemon is. */
    while (read(wake, &heard, sizeof heard) == (ssize_t)sizeof heard)
        is_over |= heard.ssi_signo != SIGCHLD && (!is_first || heard.ssi_pid == 0);
    return is_over;
}

/* What is served, and where. */
struct way {
    const char *path;
    bool is_handed, lets_any_in;
    const char *lock_path;        /* of the supervisor's lock, NULL: as it is handed over */
    const struct file_id *wanted; /* which has to be this one, if not NULL */
};

/* Serve until a signal says that it is over. */
static int serve(const struct way *way)
{
    const char *path = way->path;
    bool is_handed = way->is_handed, lets_any_in = way->lets_any_in;
    int wake = begin_serving();
    int lock = way->lock_path == NULL ? -1 : open(way->lock_path, O_RDONLY | O_CLOEXEC);
    if (way->lock_path != NULL && lock < 0) {
        complain(way->lock_path);
        return 1;
    }
    int listener = wake < 0 ? -1 : is_handed ? listen_handed(path, wake, way->wanted, &lock) : listen_at(path);

    if (listener < 0)
        return wake < 0 || !is_handed;
    bool rests = false, has_more = false;
    for (;;) {
        struct pollfd polled[] = {{.fd = wake, .events = POLLIN}, {.fd = rests ? -1 : listener, .events = POLLIN}};
        poll(polled, 2, has_more ? 0 : rests ? REST_MS : -1);
        rests = false;
        if ((polled[0].revents & POLLIN) != 0 && was_told_to_end(wake)) {
            close(listener);
            if (!is_handed)
                unlink(path);
            end_everybody();
            return 0;
        }
        has_more = reap_children() == REAPED_SOME;
        if (polled[1].revents != 0)
            rests = !welcome(listener, wake, lets_any_in, lock);
    }
}

static int show_usage(void)
{
    dprintf(2, "outlive-runner: usage: outlive-runner serve SOCKET | outlive-runner --version\n");
    return USAGE;
}

/* SOCKET | --handed [--lock=DEVICE:INODE] SOCKET | --any-peer SOCKET [LOCK] */
static int serve_as_told(int count, char **words)
{
    struct file_id lock;
    struct way way = {.path = words[count - 1]};

    if (count == 1)
        return serve(&way);
    if (strcmp(words[0], "--handed") == 0) {
        way.is_handed = true;
        way.wanted = count == 3 ? &lock : NULL;
        if (count == 3 && sscanf(words[1], "--lock=%llu:%llu", &lock.device, &lock.inode) != 2)
            return show_usage();
        return serve(&way);
    }
    if (strcmp(words[0], "--any-peer") != 0)
        return show_usage();
    way.path = words[1];
    way.lock_path = words[2]; /* NULL without one */
    way.lets_any_in = getpid() != 1; /* in a container nobody inside is let in, whatever was asked for */
    return serve(&way);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return write(1, VERSION, strlen(VERSION)) < 0;
    if (argc >= 3 && argc <= 5 && strcmp(argv[1], "serve") == 0)
        return serve_as_told(argc - 2, argv + 2);
    if (argc == 3 && strcmp(argv[1], "hold") == 0)
        return hold_all(argv[2], false);
    if (argc == 4 && strcmp(argv[1], "hold") == 0 && strcmp(argv[2], "--any-peer") == 0)
        return hold_all(argv[3], getpid() != 1);
    if (argc == 3 && strcmp(argv[1], "ferry") == 0)
        return ferry(argv[2]);
    if (argc >= 5 && strcmp(argv[1], "stand") == 0 && strcmp(argv[2], "--asks") == 0)
        return stand_for(argv[3], argv + 4, true);
    if (argc >= 4 && strcmp(argv[1], "stand") == 0)
        return stand_for(argv[2], argv + 3, false);
    if (argc >= 3 && strcmp(argv[1], "shim") == 0)
        return shim(argv[2], argc >= 4 && strcmp(argv[3], "--lock-at-0") == 0);
    return show_usage();
}
