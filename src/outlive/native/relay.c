/* The relay of one command: from its pipes here to the ferry, and back. It lives as long as anything of the command does.

   It knows how much it has written to where it belongs, and what of its own words was heard: after a cut it says HELLO with
   these numbers, and goes on where it was. */
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

#include "kernel.h"
#include "minder.h"
#include "packets.h"
#include "relay.h"
#include "stand.h"

enum { CONNECT_MS = 50, START_MS = 30000, GIVE_UP_MS = 1000, HELLO_MS = 5000, AHEAD_BYTES = 128 << 10 };

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

void relay_words(struct relay *relay, const char *text)
{
    /* Rounds of a kill that nobody hears are one; so many different ones are never waiting. */
    if (relay->word_count == WORDS_KEPT ||
        (relay->word_count > 0 && strcmp(relay->words[relay->word_count - 1].text, text) == 0))
        return;
    relay->is_killed |= strcmp(text, "tree 9") == 0;
    struct words *words = &relay->words[relay->word_count++];
    words->number = ++relay->last_number;
    snprintf(words->text, sizeof words->text, "%s", text);
}

static void lose_ferry(struct relay *relay)
{
    stream_close(&relay->stream);
    relay->is_up = relay->is_known = false;
}

static void connect_ferry(struct relay *relay)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = FERRY_SOCKET};
    int link = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (link < 0)
        return;
    if (connect(link, (struct sockaddr *)&address, sizeof address) != 0 || !stream_open(&relay->stream, link, link))
        close(link);
}

static void hear_ferry(struct relay *relay)
{
    struct frame frame;
    int got = 0;

    if (!stream_fill(&relay->stream)) {
        lose_ferry(relay);
        return;
    }
    while (relay->stream.in >= 0 && (got = stream_next(&relay->stream, &frame)) > 0)
        relay_hear(relay, &frame);
    if (got < 0)
        lose_ferry(relay);
}

static void hear_minder(struct relay *relay)
{
    struct packet packet;
    enum heard heard = receive_packet(relay->control, &packet);

    if (heard == HEARD_PACKET) {
        relay_words(relay, packet.words);
        close_packet(&packet);
    } else if (heard == HEARD_END) {
        close_fd(&relay->control);
    }
}

/* The stand-in hands on signals. When it was killed, the command is: whoever did it saw only the stand-in. */
static void hear_mirror(struct relay *relay)
{
    struct packet packet;
    enum heard heard = receive_packet(relay->mirror, &packet);

    if (heard == HEARD_PACKET) {
        bool is_orphan = relay->control < 0 && strncmp(packet.words, "one ", 4) == 0;
        char words[WORD_BYTES];
        snprintf(words, sizeof words, "tree %.100s", packet.words + (is_orphan ? 4 : 0));
        relay_words(relay, is_orphan ? words : packet.words); /* without a minder it stands for the whole tree */
        close_packet(&packet);
    } else if (heard == HEARD_END) {
        close_fd(&relay->mirror);
        if (!relay->is_mirrored)
            relay_words(relay, "tree 9");
    }
}

static void hear_size(struct relay *relay)
{
    struct signalfd_siginfo heard;
    struct winsize size;
    char words[WORD_BYTES];

    while (read(relay->wake, &heard, sizeof heard) > 0)
        continue;
    if (relay->terminal < 0 || ioctl(relay->terminal, TIOCGWINSZ, &size) != 0)
        return;
    snprintf(words, sizeof words, "size %u %u", size.ws_row, size.ws_col);
    relay_words(relay, words);
}

static int wait_of(const struct relay *relay)
{
    if (relay->stream.in < 0)
        return CONNECT_MS;
    if (!relay->is_known || !relay->is_settled || (relay->ending_at != 0 && !relay->is_mirrored))
        return HELLO_MS / 5;
    return -1;
}

static void look_at_the_clock(struct relay *relay)
{
    int64_t now = now_ms();

    if (!relay->is_settled && now > relay->begun_at + START_MS)
        relay_not_started(relay, ETIMEDOUT, "container");
    /* A terminal cannot be made larger: what was killed and is not read is dropped. */
    for (int index = 0; index < 2; index++)
        if (relay->ending_at != 0 && relay->is_killed && now > relay->ending_at + GIVE_UP_MS &&
            relay_wants_out(relay, index))
            relay_give_up(relay, index);
    if (relay->is_up && !relay->is_known && now > relay->hello_at + HELLO_MS)
        relay->must_say_hello = true;
}

static void turn(struct relay *relay)
{
    bool has_to_send = relay->stream.sending_begin < relay->stream.sending_end;
    const struct window *input = &relay->input_window;
    bool takes_input = relay->is_settled && !relay->is_input_over && input->end - input->first < AHEAD_BYTES;
    struct pollfd polled[] = {
        {.fd = relay->wake, .events = POLLIN},
        {.fd = relay->stream.in, .events = POLLIN},
        {.fd = has_to_send ? relay->stream.out : -1, .events = POLLOUT},
        {.fd = relay->control, .events = POLLIN},
        {.fd = relay->mirror, .events = POLLIN},
        {.fd = takes_input ? relay->input : -1, .events = POLLIN},
        {.fd = relay_wants_out(relay, 0) ? relay->outputs[0].fd : -1, .events = POLLOUT},
        {.fd = relay_wants_out(relay, 1) ? relay->outputs[1].fd : -1, .events = POLLOUT},
    };

    if (poll(polled, sizeof polled / sizeof *polled, wait_of(relay)) < 0)
        return;
    if (polled[0].revents != 0)
        hear_size(relay);
    if (polled[1].revents != 0)
        hear_ferry(relay);
    if (polled[3].revents != 0)
        hear_minder(relay);
    if (polled[4].revents != 0)
        hear_mirror(relay);
    if (polled[5].revents != 0)
        relay_read_input(relay);
    for (int index = 0; index < 2; index++)
        if (relay_wants_out(relay, index))
            relay_write_output(relay, index);
    if (relay->stream.in < 0)
        connect_ferry(relay);
    look_at_the_clock(relay);
    relay_mirror(relay);
    if (relay->stream.in < 0)
        return;
    relay_say(relay);
    if (!stream_flush(&relay->stream))
        lose_ferry(relay);
}

/* Let go of what only the minder should hold: a second hand on a terminal's other side would keep it from being hung up. */
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

noreturn void relay(struct beginnings *from, int control, int mirror)
{
    bool is_pty = from->terminal >= 0;
    struct relay relay = {
        .stream = {.in = -1, .out = -1},
        .control = control,
        .mirror = mirror,
        .terminal = from->terminal,
        .parts = {from->spec, from->secrets, from->script},
        .input = is_pty && from->input < 0 ? from->terminal : from->input,
        .outputs = {{.fd = is_pty ? from->terminal : from->output}, {.fd = is_pty ? -1 : from->errors}},
        .begun_at = now_ms(),
    };
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    sigset_t wanted;

    const int ours[] = {control, mirror, from->terminal, from->spec, from->secrets, from->script, from->input,
                        from->output, from->errors};
    close_others(ours, sizeof ours / sizeof *ours);
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGWINCH);
    relay.wake = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    relay.has_errors = relay.outputs[1].fd >= 0;
    relay.outputs[1].is_over = !relay.has_errors;
    if (is_pty)
        ioctl(from->terminal, TIOCGWINSZ, &size);
    relay.rows = size.ws_row;
    relay.cols = size.ws_col;
    for (int index = 0; index < 2; index++)
        if (relay.outputs[index].fd >= 0)
            fcntl(relay.outputs[index].fd, F_SETFL, fcntl(relay.outputs[index].fd, F_GETFL) | O_NONBLOCK);
    if (relay.wake < 0 || !make_key(relay.key))
        _exit(1);
    connect_ferry(&relay);
    while (!relay_is_over(&relay))
        turn(&relay);
    _exit(0);
}
