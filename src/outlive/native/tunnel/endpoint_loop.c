/* The tunnel endpoint of one command, a process of its own: it carries bytes and messages between the command's pipes on
   this machine and the tunnel, and lives as long as anything of the command does.

   It knows how much it has written to where it belongs, and which of its own orders have arrived: after a cut it sends
   HELLO with these numbers, and goes on where it was. */
#include "endpoint_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/packets.h"
#include "endpoint.h"
#include "endpoint_bytes.h"
#include "endpoint_events.h"
#include "endpoint_messages.h"

enum { CONNECT_MS = 50, START_MS = 30000, GIVE_UP_MS = 1000, HELLO_MS = 5000, AHEAD_BYTES = 128 << 10 };

/* Make the key of the command inside: no other endpoint has it, not even one with our pid after a reboot.
   src/outlive/backends/docker/ferry.py reads it, too: a command whose key names no living process is abandoned. */
static bool make_key(char *key)
{
    char boot[64], text[1024];
    unsigned long long ticks;

    if (read_small("/proc/sys/kernel/random/boot_id", boot, sizeof boot) < 8 ||
        read_small("/proc/self/stat", text, sizeof text) <= 0)
        return false;
    const char *rest = strrchr(text, ')');
    for (int field = 2; rest != NULL && field < 22; field++) /* proc(5): 22 is starttime */
        rest = strchr(rest + 1, ' ');
    if (rest == NULL || sscanf(rest, "%llu", &ticks) != 1)
        return false;
    snprintf(key, KEY_BYTES, "%.8s.%d.%llu", boot, (int)getpid(), ticks);
    return true;
}

static void lose_tunnel(struct endpoint *endpoint)
{
    stream_close(&endpoint->stream);
    endpoint->is_up = endpoint->is_known = false;
}

static void connect_tunnel(struct endpoint *endpoint)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = TUNNEL_SOCKET};
    int link = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (link < 0)
        return;
    if (connect(link, (struct sockaddr *)&address, sizeof address) != 0 || !stream_open(&endpoint->stream, link, link))
        close(link);
}

static void hear_tunnel(struct endpoint *endpoint)
{
    struct frame frame;
    int got = 0;

    if (!stream_fill(&endpoint->stream)) {
        lose_tunnel(endpoint);
        return;
    }
    while (endpoint->stream.in >= 0 && (got = stream_next(&endpoint->stream, &frame)) > 0)
        endpoint_hear(endpoint, &frame);
    if (got < 0)
        lose_tunnel(endpoint);
}

static void hear_shim(struct endpoint *endpoint)
{
    struct packet packet;
    enum heard heard = receive_packet(endpoint->control, &packet);

    if (heard == HEARD_PACKET) {
        endpoint_order(endpoint, packet.words);
        close_packet(&packet);
    } else if (heard == HEARD_END) {
        close_fd(&endpoint->control);
    }
}

/* The proxy process passes signals on. When it was killed, the command is killed, too: on this machine only the proxy is
   visible, so the command was meant. */
static void hear_proxy(struct endpoint *endpoint)
{
    struct packet packet;
    enum heard heard = receive_packet(endpoint->proxy, &packet);

    if (heard == HEARD_PACKET) {
        bool is_orphan = endpoint->control < 0 && strncmp(packet.words, "one ", 4) == 0;
        char words[WORD_BYTES];
        snprintf(words, sizeof words, "tree %.100s", packet.words + (is_orphan ? 4 : 0));
        endpoint_order(endpoint, is_orphan ? words : packet.words); /* without a shim it is meant for the whole tree */
        close_packet(&packet);
    } else if (heard == HEARD_END) {
        close_fd(&endpoint->proxy);
        if (!endpoint->is_proxy_ended)
            endpoint_order(endpoint, "tree 9");
    }
}

/* The terminal has another size (SIGWINCH): the one inside gets it, too. */
static void hear_size(struct endpoint *endpoint)
{
    struct signalfd_siginfo heard;
    struct winsize size;
    char words[WORD_BYTES];

    while (read(endpoint->wake, &heard, sizeof heard) > 0)
        continue;
    if (endpoint->terminal < 0 || ioctl(endpoint->terminal, TIOCGWINSZ, &size) != 0)
        return;
    snprintf(words, sizeof words, "size %u %u", size.ws_row, size.ws_col);
    endpoint_order(endpoint, words);
}

static int wait_of(const struct endpoint *endpoint)
{
    if (endpoint->stream.in < 0)
        return CONNECT_MS;
    if (!endpoint->is_known || !endpoint->is_settled || (endpoint->ending_at != 0 && !endpoint->is_proxy_ended))
        return HELLO_MS / 5;
    return -1;
}

static void check_deadlines(struct endpoint *endpoint)
{
    int64_t now = now_ms();

    if (!endpoint->is_settled && now > endpoint->begun_at + START_MS)
        endpoint_not_started(endpoint, ETIMEDOUT, "container");
    /* A terminal cannot be made larger: what was killed and is not read is dropped. */
    for (int index = 0; index < 2; index++)
        if (endpoint->ending_at != 0 && endpoint->is_killed && now > endpoint->ending_at + GIVE_UP_MS &&
            endpoint_wants_out(endpoint, index))
            endpoint_give_up(endpoint, index);
    if (endpoint->is_up && !endpoint->is_known && now > endpoint->hello_at + HELLO_MS)
        endpoint->must_say_hello = true;
}

static void turn(struct endpoint *endpoint)
{
    bool has_to_send = endpoint->stream.sending_begin < endpoint->stream.sending_end;
    const struct flow_window *input = &endpoint->input_window;
    /* Input is read no further ahead than the window allows, so that a caller that writes without end is held back. */
    bool takes_input = endpoint->is_settled && !endpoint->is_input_over && input->end - input->first < AHEAD_BYTES;
    struct pollfd polled[] = {
        {.fd = endpoint->wake, .events = POLLIN},
        {.fd = endpoint->stream.in, .events = POLLIN},
        {.fd = has_to_send ? endpoint->stream.out : -1, .events = POLLOUT},
        {.fd = endpoint->control, .events = POLLIN},
        {.fd = endpoint->proxy, .events = POLLIN},
        {.fd = takes_input ? endpoint->input : -1, .events = POLLIN},
        {.fd = endpoint_wants_out(endpoint, 0) ? endpoint->outputs[0].fd : -1, .events = POLLOUT},
        {.fd = endpoint_wants_out(endpoint, 1) ? endpoint->outputs[1].fd : -1, .events = POLLOUT},
    };

    if (poll(polled, sizeof polled / sizeof *polled, wait_of(endpoint)) < 0)
        return;
    if (polled[0].revents != 0)
        hear_size(endpoint);
    if (polled[1].revents != 0)
        hear_tunnel(endpoint);
    if (polled[3].revents != 0)
        hear_shim(endpoint);
    if (polled[4].revents != 0)
        hear_proxy(endpoint);
    if (polled[5].revents != 0)
        endpoint_read_input(endpoint);
    for (int index = 0; index < 2; index++)
        if (endpoint_wants_out(endpoint, index))
            endpoint_write_output(endpoint, index);
    if (endpoint->stream.in < 0)
        connect_tunnel(endpoint);
    check_deadlines(endpoint);
    endpoint_end_proxy(endpoint);
    if (endpoint->stream.in < 0)
        return;
    endpoint_say(endpoint);
    if (!stream_flush(&endpoint->stream))
        lose_tunnel(endpoint);
}

/* Close what only the shim should hold: a second descriptor of a terminal's other side would keep it from being hung up. */
static void close_others(const int *ours, size_t count)
{
    int most = 3;

    for (size_t index = 0; index < count; index++)
        most = ours[index] > most ? ours[index] : most;
    close_from((unsigned)most + 1, false);
    for (int fd = 3; fd < most; fd++) {
        bool is_ours = false;
        for (size_t index = 0; index < count; index++)
            is_ours |= ours[index] == fd;
        if (!is_ours)
            close(fd);
    }
}

noreturn void run_endpoint(struct beginnings *from, int control, int proxy)
{
    bool is_pty = from->terminal >= 0;
    struct endpoint endpoint = {
        .stream = {.in = -1, .out = -1},
        .control = control,
        .proxy = proxy,
        .terminal = from->terminal,
        .parts = {from->spec, from->secrets, from->script},
        .input = is_pty && from->input < 0 ? from->terminal : from->input,
        .outputs = {{.fd = is_pty ? from->terminal : from->output}, {.fd = is_pty ? -1 : from->errors}},
        .begun_at = now_ms(),
    };
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    sigset_t wanted;

    const int ours[] = {control, proxy, from->terminal, from->spec, from->secrets, from->script, from->input,
                        from->output, from->errors};
    close_others(ours, sizeof ours / sizeof *ours);
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGWINCH);
    endpoint.wake = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    endpoint.has_errors = endpoint.outputs[1].fd >= 0;
    endpoint.outputs[1].is_over = !endpoint.has_errors;
    if (is_pty)
        ioctl(from->terminal, TIOCGWINSZ, &size);
    endpoint.rows = size.ws_row;
    endpoint.cols = size.ws_col;
    for (int index = 0; index < 2; index++)
        if (endpoint.outputs[index].fd >= 0)
            fcntl(endpoint.outputs[index].fd, F_SETFL, fcntl(endpoint.outputs[index].fd, F_GETFL) | O_NONBLOCK);
    if (endpoint.wake < 0 || !make_key(endpoint.key))
        _exit(1);
    connect_tunnel(&endpoint);
    while (!endpoint_is_over(&endpoint))
        turn(&endpoint);
    _exit(0);
}
