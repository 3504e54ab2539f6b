/* `outlive-runner serve`: the first process of a container. It gets its socket, forks a shim for each supervisor's
   connection, reaps what has lost its parent, and ends the rest when it is over.

   The server binds the socket outside, in a folder that is not mounted, and hands it over as a descriptor. All that the
   container shares with the server for that is a read-only folder in which the server listens while it hands over: a command
   inside can neither write there nor put anything in the socket's place. */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/packets.h"
#include "container_shim.h"

enum {
    BACKLOG = 64, /* connections that wait to be accepted */
    REST_MS = 50, /* out of descriptors or processes */
    FIRST_PAUSE_MS = 10,
    LONGEST_PAUSE_MS = 500,
    ANSWERS_MS = 10000,
    TERM_MS = 1250, /* the patience of a command's shim and a little: it records what it has to kill */
    KILL_MS = 3000,
    LOOK_MS = 20,
};

/* What a file is known by, whatever its name: the daemon says it, so that no other process can hand over another one. */
struct file_id {
    unsigned long long device, inode;
};

/* Write what errno says about something to the standard error. */
static void complain(const char *about)
{
    dprintf(2, "outlive-runner: %s: %s\n", about, strerror(errno));
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

static void signal_all_processes(int number)
{
    if (getpid() == 1)
        kill(-1, number); /* all of the container, not only what we started (kill(2): never PID 1 itself) */
    else
        signal_tree(number);
}

/* TERM to all, KILL to what is left: the shims record how their commands end. */
static void end_all_processes(void)
{
    int64_t begun = now_ms();
    siginfo_t info;

    signal_all_processes(SIGTERM);
    while (reap_children(0, &info) != NO_CHILD_LEFT) {
        int64_t passed = now_ms() - begun;
        if (passed > KILL_MS)
            return;
        if (passed > TERM_MS)
            signal_all_processes(SIGKILL);
        poll(NULL, 0, LOOK_MS);
    }
}

/* Prepare this process. Returns a signalfd(2) of SIGCHLD, SIGTERM, SIGINT; -1 after a complaint. */
static int begin_serving(void)
{
    sigset_t wanted;

    fill_streams();
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    open_oom_score();
    /* A fork has our memory until it executes, and commands of our user must not look into it. execve(2) makes a process
       dumpable again, so commands are not affected. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
        complain("PR_SET_DUMPABLE");
        return -1;
    }
    /* An emulator refuses this. Without it what a command leaves behind could not be found: so nothing starts. */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
        complain("PR_SET_CHILD_SUBREAPER");
        return -1;
    }
    int wake = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (wake < 0)
        complain("signalfd");
    return wake;
}

/* Read the signals that came: whether one of them says that it is over. */
static bool has_end_signal(int wake)
{
    struct signalfd_siginfo heard;
    bool is_over = false, is_first = getpid() == 1;

    /* In a container a command inside must not end all others: only a sender that the kernel cannot number here (0) is
       outside, as the daemon is. */
    while (read(wake, &heard, sizeof heard) == (ssize_t)sizeof heard)
        is_over |= heard.ssi_signo != SIGCHLD && (!is_first || heard.ssi_pid == 0);
    return is_over;
}

/* Connect to the server, if it is there. */
static int connect_outside(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(path) + 1;
    uid_t uid;
    int link = size > sizeof address.sun_path ? -1 : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (link < 0)
        return -1;
    memcpy(address.sun_path, path, size);
    if (connect(link, (struct sockaddr *)&address, sizeof address) == 0 && peer_of(link, &uid) == 0)
        return link;
    close(link);
    return -1;
}

/* Take the one descriptor of the server's next packet; -1 without one. */
static int take_one(int link)
{
    struct pollfd polled = {.fd = link, .events = POLLIN};
    struct packet packet;
    int taken = -1;

    if (poll(&polled, 1, ANSWERS_MS) > 0 && receive_packet(link, &packet) == HEARD_PACKET) {
        if (packet.count == 1) {
            taken = packet.fds[0];
            packet.fds[0] = -1;
        }
        close_packet(&packet);
    }
    return taken;
}

static bool is_file(int fd, const struct file_id *file)
{
    struct stat about;

    return fstat(fd, &about) == 0 && about.st_dev == file->device && about.st_ino == file->inode;
}

/* Take the socket, which listens in our name: a peer reads our identity from it (SO_PEERCRED). Behind it comes the lock
   of the supervisor. */
static int take_listener(int link, const struct file_id *wanted, int *lock)
{
    int listener = take_one(link);

    *lock = listener >= 0 ? take_one(link) : -1;
    close(link);
    if (listener >= 0 && is_file(*lock, wanted) && listen(listener, BACKLOG) == 0 && is_listener(listener))
        return listener;
    close_fd(&listener);
    close_fd(lock);
    return -1;
}

/* Listen on a socket that is handed over by the server at `path`, outside of our PID namespace: the socket's name lies where
   nothing inside can reach it. `lock` becomes the supervisor's lock, which is the `wanted` file. Waits for that;
   -1 when a signal says that it is over. */
static int listen_handed(const char *path, int wake, const struct file_id *wanted, int *lock)
{
    struct pollfd polled = {.fd = wake, .events = POLLIN};
    int pause_ms = FIRST_PAUSE_MS;
    siginfo_t info;

    for (;;) {
        int link = connect_outside(path);
        int listener = link < 0 ? -1 : take_listener(link, wanted, lock);
        if (listener >= 0)
            return listener;
        /* A server that was killed in between is no reason to stop: the next one hands over. */
        if (poll(&polled, 1, pause_ms) > 0 && has_end_signal(wake))
            return -1;
        reap_children(0, &info);
        pause_ms = 2 * pause_ms < LONGEST_PAUSE_MS ? 2 * pause_ms : LONGEST_PAUSE_MS;
    }
}

/* Fork a shim for the next connection. False: none can be forked now. */
static bool welcome(int listener, int wake, bool lets_any_in, int lock)
{
    uid_t uid;
    int link = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (link < 0)
        return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    pid_t pid = peer_of(link, &uid);
    pid_t shim = -1;
    /* The kernel translates a pid of another PID namespace to 0: anything else comes from inside the container. */
    bool is_welcome = pid == 0 || (pid > 0 && lets_any_in);
    if (is_welcome) {
        raise_oom_score(true); /* the shim's, too: it has hardly any memory, and cannot open its own file any more */
        shim = fork();
        if (shim != 0)
            raise_oom_score(false);
        if (shim == 0) {
            close(listener);
            close(wake);
            run_container_shim(link, lets_any_in, lock);
        }
    }
    close(link);
    return !is_welcome || shim > 0;
}

/* Serve until a signal says that it is over. */
static void serve(int listener, int wake, bool lets_any_in, int lock)
{
    bool rests = false, has_more = false;
    siginfo_t info;

    for (;;) {
        struct pollfd polled[] = {{.fd = wake, .events = POLLIN}, {.fd = rests ? -1 : listener, .events = POLLIN}};
        poll(polled, 2, has_more ? 0 : rests ? REST_MS : -1);
        rests = false;
        if ((polled[0].revents & POLLIN) != 0 && has_end_signal(wake)) {
            close(listener);
            end_all_processes();
            return;
        }
        has_more = reap_children(0, &info) == REAPED_SOME;
        if (polled[1].revents != 0)
            rests = !welcome(listener, wake, lets_any_in, lock);
    }
}

int run_server(int count, char **words)
{
    struct file_id wanted;
    bool is_handed = count == 3 && strcmp(words[0], "--handed") == 0 &&
                     sscanf(words[1], "--lock=%llu:%llu", &wanted.device, &wanted.inode) == 2;
    int listener = STDIN_FILENO, lock = -1;

    if (!is_handed && (count > 2 || strcmp(words[0], "--any-peer") != 0))
        return -1;
    int wake = begin_serving();
    if (wake < 0)
        return 1;
    if (is_handed)
        listener = listen_handed(words[2], wake, &wanted, &lock);
    else if ((count == 2 && (lock = open(words[1], O_RDONLY | O_CLOEXEC)) < 0) || listen(listener, BACKLOG) != 0) {
        complain(words[count - 1]);
        return 1;
    }
    if (listener >= 0) /* in a container no process inside is let in, whatever was asked for */
        serve(listener, wake, !is_handed && getpid() != 1, lock);
    return 0;
}
