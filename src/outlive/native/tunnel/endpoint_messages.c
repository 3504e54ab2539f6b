/* What a tunnel endpoint sends to the multiplexer: everything that is due, as far as there is room. */
#include "endpoint_messages.h"

#include <string.h>
#include <unistd.h>

#include "../common/kernel.h"

enum { ACK_BYTES = 64 << 10 };

static const char PART_LETTERS[] = "XSF";

static bool say_part(struct endpoint *endpoint)
{
    unsigned char head[1] = {(unsigned char)PART_LETTERS[endpoint->part]};
    unsigned char bytes[PIECE_BYTES];
    int fd = endpoint->parts[endpoint->part];
    ssize_t got = fd < 0 ? 0 : pread(fd, bytes, sizeof bytes, (off_t)endpoint->part_at);

    if (got <= 0) {
        endpoint->part++;
        endpoint->part_at = 0;
        return true;
    }
    if (!stream_put(&endpoint->stream, PART, 0, head, 1, bytes, (size_t)got))
        return false;
    endpoint->part_at += (uint64_t)got;
    return true;
}

/* Send everything that is needed to start the command. False: no room, or not yet all. */
static bool say_start(struct endpoint *endpoint)
{
    unsigned char head[6] = {endpoint->terminal >= 0, endpoint->has_errors};

    while (endpoint->part < 3)
        if (stream_room(&endpoint->stream) < BODY_BYTES || !say_part(endpoint))
            return false;
    put_number(head + 2, endpoint->rows, 2);
    put_number(head + 4, endpoint->cols, 2);
    endpoint->is_start_said = stream_put(&endpoint->stream, START, 0, head, sizeof head, NULL, 0);
    return endpoint->is_start_said;
}

static void say_hello(struct endpoint *endpoint)
{
    unsigned char head[17];

    put_number(head, endpoint->outputs[0].window.end, 8);
    put_number(head + 8, endpoint->outputs[1].window.end, 8);
    head[16] = !endpoint->is_settled;
    if (!stream_put(&endpoint->stream, HELLO, 0, head, sizeof head, endpoint->key, strlen(endpoint->key)))
        return;
    endpoint->must_say_hello = false;
    endpoint->hello_at = now_ms();
    for (int index = 0; index < 2; index++)
        endpoint->outputs[index].acked = endpoint->outputs[index].window.first;
}

static void say_words(struct endpoint *endpoint)
{
    unsigned char head[8];

    for (int index = 0; index < endpoint->word_count; index++) {
        const struct words *words = &endpoint->words[index];
        if (words->number <= endpoint->said_number)
            continue;
        put_number(head, words->number, 8);
        if (!stream_put(&endpoint->stream, WORDS, 0, head, sizeof head, words->text, strlen(words->text)))
            return;
        endpoint->said_number = words->number;
    }
}

static void say_input(struct endpoint *endpoint)
{
    struct flow_window *window = &endpoint->input_window;
    const unsigned char *bytes;
    unsigned char head[8];
    size_t size;

    while ((size = flow_window_at(window, window->next, &bytes)) > 0) {
        size = size < PIECE_BYTES ? size : PIECE_BYTES;
        put_number(head, window->next, 8);
        if (!stream_put(&endpoint->stream, INPUT, 0, head, sizeof head, bytes, size))
            return;
        window->next += size;
    }
    if (endpoint->is_input_over && !endpoint->is_input_end_said) {
        put_number(head, window->end, 8);
        endpoint->is_input_end_said = stream_put(&endpoint->stream, INPUT_END, 0, head, sizeof head, NULL, 0);
    }
}

static void say_ack(struct endpoint *endpoint)
{
    unsigned char head[16];
    bool is_due = false;

    for (int index = 0; index < 2; index++) {
        const struct written *output = &endpoint->outputs[index];
        uint64_t news = output->window.first - output->acked;
        is_due |= news >= ACK_BYTES || (news > 0 && output->window.first == output->window.end);
        put_number(head + (size_t)index * 8, output->window.first, 8);
    }
    if (!is_due || !stream_put(&endpoint->stream, ACK, 0, head, sizeof head, NULL, 0))
        return;
    for (int index = 0; index < 2; index++)
        endpoint->outputs[index].acked = endpoint->outputs[index].window.first;
}

void endpoint_say(struct endpoint *endpoint)
{
    if (endpoint->must_say_hello)
        say_hello(endpoint);
    if (!endpoint->is_known)
        return;
    if (!endpoint->is_start_said && !say_start(endpoint))
        return;
    say_words(endpoint);
    say_input(endpoint);
    say_ack(endpoint);
    if (endpoint_has_all(endpoint))
        endpoint->is_released |= stream_put(&endpoint->stream, RELEASE, 0, NULL, 0, NULL, 0);
}
