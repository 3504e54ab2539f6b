/* Frames over a pair of descriptors that never block. Both buffers hold several whole frames, so a frame is never handled in
   pieces. */
#include "frames.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t get_number(const unsigned char *bytes, size_t size)
{
    uint64_t number = 0;

    for (size_t index = size; index-- > 0;)
        number = number << 8 | bytes[index];
    return number;
}

void put_number(unsigned char *bytes, uint64_t number, size_t size)
{
    for (size_t index = 0; index < size; index++)
        bytes[index] = (unsigned char)(number >> 8 * index);
}

bool stream_open(struct stream *stream, int in, int out)
{
    unsigned char *space = malloc(2 * STREAM_BYTES);

    if (space == NULL)
        return false;
    *stream = (struct stream){.in = in, .out = out, .received = space, .sending = space + STREAM_BYTES};
    fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
    fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
    return true;
}

void stream_close(struct stream *stream)
{
    if (stream->in < 0)
        return;
    close(stream->in);
    if (stream->out != stream->in)
        close(stream->out);
    free(stream->received);
    *stream = (struct stream){.in = -1, .out = -1};
}

bool stream_fill(struct stream *stream)
{
    size_t kept = stream->received_end - stream->received_begin;

    memmove(stream->received, stream->received + stream->received_begin, kept);
    stream->received_begin = 0;
    stream->received_end = kept;
    if (kept == STREAM_BYTES) /* cannot be: whole frames were taken out */
        return false;
    ssize_t got = read(stream->in, stream->received + kept, STREAM_BYTES - kept);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    stream->received_end += (size_t)got;
    return got > 0;
}

int stream_next(struct stream *stream, struct frame *frame)
{
    const unsigned char *head = stream->received + stream->received_begin;
    size_t there = stream->received_end - stream->received_begin;

    if (there < HEAD_BYTES)
        return 0;
    frame->size = (uint32_t)get_number(head, 4);
    frame->channel = (uint32_t)get_number(head + 4, 4);
    frame->type = (uint32_t)get_number(head + 8, 4);
    frame->bytes = head + HEAD_BYTES;
    if (frame->size > BODY_BYTES)
        return -1;
    if (there < HEAD_BYTES + frame->size)
        return 0;
    stream->received_begin += HEAD_BYTES + frame->size;
    return 1;
}

size_t stream_room(const struct stream *stream)
{
    size_t taken = stream->sending_end - stream->sending_begin + HEAD_BYTES;

    return stream->in < 0 || taken >= STREAM_BYTES ? 0 : STREAM_BYTES - taken;
}

bool stream_put(struct stream *stream, uint32_t type, uint32_t channel, const void *head, size_t head_size,
                const void *body, size_t body_size)
{
    if (stream_room(stream) < head_size + body_size)
        return false;
    if (STREAM_BYTES - stream->sending_end < HEAD_BYTES + head_size + body_size) {
        memmove(stream->sending, stream->sending + stream->sending_begin, stream->sending_end - stream->sending_begin);
        stream->sending_end -= stream->sending_begin;
        stream->sending_begin = 0;
    }
    unsigned char *place = stream->sending + stream->sending_end;
    put_number(place, head_size + body_size, 4);
    put_number(place + 4, channel, 4);
    put_number(place + 8, type, 4);
    if (head_size > 0)
        memcpy(place + HEAD_BYTES, head, head_size);
    if (body_size > 0)
        memcpy(place + HEAD_BYTES + head_size, body, body_size);
    stream->sending_end += HEAD_BYTES + head_size + body_size;
    return true;
}

bool stream_flush(struct stream *stream)
{
    while (stream->sending_begin < stream->sending_end) {
        ssize_t put = write(stream->out, stream->sending + stream->sending_begin,
                            stream->sending_end - stream->sending_begin);
        if (put < 0)
            return errno == EAGAIN || errno == EINTR;
        stream->sending_begin += (size_t)put;
    }
    stream->sending_begin = stream->sending_end = 0;
    return true;
}
