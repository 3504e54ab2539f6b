/* The proxy of a command. The keeper watches a process of this machine: this one, which waits until the command inside has
   ended and then ends in the same way, by exit code or by signal. */
#include "proxy_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/packets.h"
#include "endpoint_loop.h"

enum { LINK = 3, REPORT = 4, KEPT_FROM = 10 };

/* The terminal's rules are kept inside; this one only carries bytes. */
static int make_raw(int terminal)
{
    struct termios modes;

    if (ioctl(terminal, TIOCSCTTY, 0) != 0 || tcgetattr(terminal, &modes) != 0)
        return errno;
    cfmakeraw(&modes);
    return tcsetattr(terminal, TCSANOW, &modes) == 0 ? 0 : errno;
}

/* End by a signal, as the command did: the keeper reads how the command ended from how this process ends. */
static noreturn void die_by(int number)
{
    struct rlimit none = {0, 0};

    setrlimit(RLIMIT_CORE, &none); /* a core of this process says nothing about the command */
    signal(number, SIG_DFL);
    block_all_signals(false);
    kill(getpid(), number);
    _exit(128 + number); /* not one that ends a process: cannot be */
}

/* End as the command has ended, or note that it began. */
static void follow_order(const char *word, int *report)
{
    char place[PLACE_BYTES];
    int number;

    /* The closed pipe means that the command runs, as execve(2) would mean for a command of this machine. */
    if (strcmp(word, "started") == 0 && *report >= 0) {
        close(*report);
        *report = -1;
    } else if (sscanf(word, "failed %d %39s", &number, place) == 2 && *report >= 0) {
        fail_child(*report, number, place);
    } else if (sscanf(word, "exited %d", &number) == 1) {
        _exit(number);
    } else if (sscanf(word, "signaled %d", &number) == 1) {
        die_by(number);
    }
}

/* A signal that a process of this machine sends to the proxy is for the command. One that the kernel sends is not: a
   terminal that is hung up here is hung up inside by an order of its own. */
static void forward_signals(int wake, int link)
{
    struct signalfd_siginfo heard;
    char words[32];

    while (read(wake, &heard, sizeof heard) == (ssize_t)sizeof heard) {
        if (heard.ssi_code > 0 || heard.ssi_signo == SIGCHLD)
            continue;
        snprintf(words, sizeof words, "one %u", heard.ssi_signo);
        send_packet(link, words, NULL, 0);
    }
}

static noreturn void proxy(int link, int report)
{
    sigset_t all;
    struct packet packet;

    sigfillset(&all);
    int wake = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    for (;;) {
        struct pollfd polled[] = {{.fd = wake, .events = POLLIN}, {.fd = link, .events = POLLIN}};
        poll(polled, 2, -1);
        if (polled[0].revents != 0)
            forward_signals(wake, link);
        if (polled[1].revents == 0)
            continue;
        enum heard heard = receive_packet(link, &packet);
        if (heard == HEARD_END)
            die_by(SIGKILL); /* the endpoint was killed: nothing more can be learned about the command */
        if (heard == HEARD_PACKET)
            follow_order(packet.words, &report);
        close_packet(&packet);
    }
}

noreturn void run_proxy_process(struct beginnings *from, int control)
{
    int pair[2];

    setsid();
    wait_for_go(from->go);
    int error = from->terminal >= 0 ? make_raw(from->terminal) : 0;
    if (error != 0)
        fail_child(from->report, error, "terminal");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        fail_child(from->report, errno, "container");
    pid_t child = fork();
    if (child < 0)
        fail_child(from->report, errno, "container");
    if (child == 0) {
        close(pair[0]);
        close(from->report);
        close(from->go);
        run_endpoint(from, control, pair[1]);
    }
    /* Nothing of the command's may stay open here. */
    int link = fcntl(pair[0], F_DUPFD_CLOEXEC, KEPT_FROM), report = fcntl(from->report, F_DUPFD_CLOEXEC, KEPT_FROM);
    if (link < 0 || report < 0 || dup3(link, LINK, O_CLOEXEC) < 0 || dup3(report, REPORT, O_CLOEXEC) < 0)
        die_by(SIGKILL);
    close_from(REPORT + 1, false);
    proxy(LINK, REPORT);
}
