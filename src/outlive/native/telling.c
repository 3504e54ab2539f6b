/* A relay's part of the conversation with the hub. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernel.h"
#include "minder.h"
#include "relay.h"

/* A pipe of the second size takes all that can be on its way from a command that writes no more. */
enum { ACK_BYTES = 64 << 10, PIPE_BYTES = 1 << 20 };

static const char PART_LETTERS[] = "XSF";

static void tell_mirror(const struct relay *relay, const char *words)
{
    if (relay->mirror >= 0)
        send_packet(relay->mirror, words, NULL, 0);
}

void relay_not_started(struct relay *relay, int number, const char *place)
{
    char words[WORD_BYTES];

    relay->is_settled = relay->is_mirrored = relay->has_ended = relay->is_empty = true;
    relay->outputs[0].is_over = relay->outputs[1].is_over = true;
    snprintf(words, sizeof words, "failed %d %.39s", number, *place != '\0' ? place : "container");
    tell_mirror(relay, words);
}

/* The container does not know the command: it was started anew, or is gone, and everything in it was killed. */
static void lose_command(struct relay *relay)
{
    if (!relay->is_settled) {
        relay_not_started(relay, ECANCELED, "container");
        return;
    }
    if (!relay->has_ended) {
        relay->kind = SIGNALED;
        relay->number = SIGKILL;
    }
    relay->has_ended = relay->is_empty = true;
    for (int index = 0; index < 2; index++) {
        struct written *output = &relay->outputs[index];
        output->has_end = true;
        output->end = output->window.end;
        relay->ended_at[index] = output->window.first; /* what came is still written */
    }
}

static void hear_state(struct relay *relay, const struct frame *frame)
{
    if (frame->size != 17)
        return;
    uint64_t taken = get_number(frame->bytes, 8), heard = get_number(frame->bytes + 8, 8);
    int kept = 0;

    for (int index = 0; index < relay->word_count; index++)
        if (relay->words[index].number > heard)
            relay->words[kept++] = relay->words[index];
    relay->word_count = kept;
    if (relay->is_known)
        return; /* it only said which words were heard */
    relay->is_known = true;
    relay->said_number = heard;
    relay->is_input_end_said = false;
    if (taken >= relay->input_window.first && taken <= relay->input_window.end)
        relay->input_window.next = taken;
    relay->must_begin = frame->bytes[16] == 0;
    relay->is_start_said = !relay->must_begin;
    relay->part = 0;
    relay->part_at = 0;
}

static void hear_output(struct relay *relay, const struct frame *frame)
{
    if (frame->size < 9 || frame->bytes[0] > 1)
        return;
    struct written *output = &relay->outputs[frame->bytes[0]];
    uint64_t offset = get_number(frame->bytes + 1, 8);
    if (frame->type == OUTPUT_END) {
        output->has_end = true;
        output->end = offset;
    } else if (output->fd >= 0) {
        window_add(&output->window, offset, frame->bytes + 9, frame->size - 9);
    }
}

/* The command has ended: that must be told also where nobody reads its output for now, as of a pipe that is full. */
static void make_room(struct relay *relay)
{
    if (relay->ending_at == 0)
        relay->ending_at = now_ms();
    for (int index = 0; index < 2; index++)
        if (relay->outputs[index].fd >= 0)
            fcntl(relay->outputs[index].fd, F_SETPIPE_SZ, PIPE_BYTES);
}

static void hear_ended(struct relay *relay, const struct frame *frame)
{
    if (frame->size != 22 || relay->has_ended)
        return;
    relay->has_ended = true;
    relay->kind = frame->bytes[0];
    relay->number = (int)get_number(frame->bytes + 1, 4);
    relay->is_oom = frame->bytes[5] != 0;
    relay->ended_at[0] = get_number(frame->bytes + 6, 8);
    relay->ended_at[1] = get_number(frame->bytes + 14, 8);
}

static void hear_not_started(struct relay *relay, const struct frame *frame)
{
    char place[40];

    if (frame->size < 4 || relay->is_settled)
        return;
    snprintf(place, sizeof place, "%.*s", (int)(frame->size - 4), (const char *)frame->bytes + 4);
    relay_not_started(relay, (int)get_number(frame->bytes, 4), place);
}

void relay_hear(struct relay *relay, const struct frame *frame)
{
    switch (frame->type) {
    case LINK_UP:
        relay->is_up = relay->must_say_hello = true;
        relay->is_known = false;
        break;
    case LINK_DOWN:
        relay->is_up = relay->is_known = false;
        break;
    case STATE:
        hear_state(relay, frame);
        break;
    case STARTED:
        relay->is_settled = true;
        tell_mirror(relay, "started");
        break;
    case NOT_STARTED:
        hear_not_started(relay, frame);
        break;
    case OUTPUT:
    case OUTPUT_END:
        hear_output(relay, frame);
        break;
    case INPUT_ACK:
        if (frame->size == 8)
            window_drop(&relay->input_window, get_number(frame->bytes, 8));
        break;
    case INPUT_BROKEN:
        relay->is_input_over = relay->is_input_end_said = true;
        if (relay->input != relay->terminal)
            close_fd(&relay->input);
        break;
    case ENDING:
        make_room(relay);
        break;
    case ENDED:
        hear_ended(relay, frame);
        break;
    case EMPTY:
        relay->is_empty = true;
        break;
    case UNKNOWN:
        lose_command(relay);
        break;
    }
}

static bool say_part(struct relay *relay)
{
    unsigned char head[1] = {(unsigned char)PART_LETTERS[relay->part]};
    unsigned char bytes[PIECE_BYTES];
    int fd = relay->parts[relay->part];
    ssize_t got = fd < 0 ? 0 : pread(fd, bytes, sizeof bytes, (off_t)relay->part_at);

    if (got <= 0) {
        relay->part++;
        relay->part_at = 0;
        return true;
    }
    if (!stream_put(&relay->stream, PART, 0, head, 1, bytes, (size_t)got))
        return false;
    relay->part_at += (uint64_t)got;
    return true;
}

/* Say everything that is needed to start it. False: no room, or not yet all. */
static bool say_start(struct relay *relay)
{
    unsigned char head[6] = {relay->terminal >= 0, relay->has_errors};

    while (relay->part < 3)
        if (stream_room(&relay->stream) < BODY_BYTES || !say_part(relay))
            return false;
    put_number(head + 2, relay->rows, 2);
    put_number(head + 4, relay->cols, 2);
    relay->is_start_said = stream_put(&relay->stream, START, 0, head, sizeof head, NULL, 0);
    return relay->is_start_said;
}

static void say_hello(struct relay *relay)
{
    unsigned char head[17];

    put_number(head, relay->outputs[0].window.end, 8);
    put_number(head + 8, relay->outputs[1].window.end, 8);
    head[16] = !relay->is_settled;
    if (!stream_put(&relay->stream, HELLO, 0, head, sizeof head, relay->key, strlen(relay->key)))
        return;
    relay->must_say_hello = false;
    relay->hello_at = now_ms();
    for (int index = 0; index < 2; index++)
        relay->outputs[index].acked = relay->outputs[index].window.first;
}

static void say_words(struct relay *relay)
{
    unsigned char head[8];

    for (int index = 0; index < relay->word_count; index++) {
        const struct words *words = &relay->words[index];
        if (words->number <= relay->said_number)
            continue;
        put_number(head, words->number, 8);
        if (!stream_put(&relay->stream, WORDS, 0, head, sizeof head, words->text, strlen(words->text)))
            return;
        relay->said_number = words->number;
    }
}

static void say_input(struct relay *relay)
{
    struct window *window = &relay->input_window;
    const unsigned char *bytes;
    unsigned char head[8];
    size_t size;

    while ((size = window_at(window, window->next, &bytes)) > 0) {
        size = size < PIECE_BYTES ? size : PIECE_BYTES;
        put_number(head, window->next, 8);
        if (!stream_put(&relay->stream, INPUT, 0, head, sizeof head, bytes, size))
            return;
        window->next += size;
    }
    if (relay->is_input_over && !relay->is_input_end_said) {
        put_number(head, window->end, 8);
        relay->is_input_end_said = stream_put(&relay->stream, INPUT_END, 0, head, sizeof head, NULL, 0);
    }
}

static void say_ack(struct relay *relay)
{
    unsigned char head[16];
    bool is_due = false;

    for (int index = 0; index < 2; index++) {
        const struct written *output = &relay->outputs[index];
        uint64_t news = output->window.first - output->acked;
        is_due |= news >= ACK_BYTES || (news > 0 && output->window.first == output->window.end);
        put_number(head + (size_t)index * 8, output->window.first, 8);
    }
    if (!is_due || !stream_put(&relay->stream, ACK, 0, head, sizeof head, NULL, 0))
        return;
    for (int index = 0; index < 2; index++)
        relay->outputs[index].acked = relay->outputs[index].window.first;
}

static bool has_all(const struct relay *relay)
{
    return relay->is_mirrored && relay->is_empty && relay->outputs[0].is_over && relay->outputs[1].is_over;
}

void relay_say(struct relay *relay)
{
    if (relay->must_say_hello)
        say_hello(relay);
    if (!relay->is_known)
        return;
    if (!relay->is_start_said && !say_start(relay))
        return;
    say_words(relay);
    say_input(relay);
    say_ack(relay);
    if (has_all(relay))
        relay->is_released |= stream_put(&relay->stream, RELEASE, 0, NULL, 0, NULL, 0);
}

void relay_mirror(struct relay *relay)
{
    char words[WORD_BYTES];

    for (int index = 0; index < 2; index++) {
        struct written *output = &relay->outputs[index];
        if (output->has_end && (output->fd < 0 || output->window.first >= output->end))
            output->is_over = true;
        if (!output->is_over || output->fd < 0)
            continue;
        if (output->fd == relay->terminal)
            relay->terminal = -1;
        if (output->fd == relay->input) {
            relay->input = -1;
            relay->is_input_over = relay->is_input_end_said = true;
        }
        close_fd(&output->fd);
    }
    if (!relay->has_ended || relay->is_mirrored)
        return;
    for (int index = 0; index < 2; index++)
        if (relay->outputs[index].window.first < relay->ended_at[index] && relay->outputs[index].fd >= 0)
            return;
    if (relay->is_oom && relay->control >= 0)
        send_packet(relay->control, "oom", NULL, 0);
    snprintf(words, sizeof words, "%s %d", relay->kind == EXITED ? "exited" : "signaled", relay->number);
    tell_mirror(relay, words);
    relay->is_mirrored = true;
}

bool relay_is_over(const struct relay *relay)
{
    return has_all(relay) && (relay->stream.in < 0 || !relay->is_known ||
                              (relay->is_released && relay->stream.sending_begin == relay->stream.sending_end));
}

bool relay_wants_out(const struct relay *relay, int index)
{
    const struct written *output = &relay->outputs[index];

    return output->fd >= 0 && output->window.first < output->window.end;
}

void relay_give_up(struct relay *relay, int index)
{
    struct written *output = &relay->outputs[index];
    char words[16];

    window_drop(&output->window, output->window.end);
    if (output->fd != relay->terminal)
        close_fd(&output->fd);
    snprintf(words, sizeof words, "deaf %d", index);
    relay_words(relay, words);
}

void relay_write_output(struct relay *relay, int index)
{
    struct written *output = &relay->outputs[index];
    const unsigned char *bytes;

    for (int piece = 0; piece < 2; piece++) { /* the ring's two halves */
        size_t size = window_at(&output->window, output->window.first, &bytes);
        ssize_t put = size == 0 ? 0 : write(output->fd, bytes, size);
        if (put > 0)
            window_drop(&output->window, output->window.first + (uint64_t)put);
        if (put >= 0)
            continue;
        if (errno == EAGAIN || errno == EINTR)
            return;
        relay_give_up(relay, index);
        return;
    }
}

void relay_read_input(struct relay *relay)
{
    ssize_t got = window_read(&relay->input_window, relay->input);

    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    relay->is_input_over = true;
    if (relay->input == relay->terminal) { /* whoever had the other side is gone */
        relay->is_input_end_said = true;
        relay_words(relay, "hangup");
    } else {
        close_fd(&relay->input);
    }
}
