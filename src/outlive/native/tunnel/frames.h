/* Frames over a byte stream: between the endpoints outside of a container, the tunnel, and the multiplexer inside.

   A frame is three numbers of 32 bits, lowest byte first (size of what follows, channel, type), then its bytes. Every
   frame may be sent again after the stream was cut: offsets and numbers show what is known already. */
#ifndef OUTLIVE_TUNNEL_FRAMES_H
#define OUTLIVE_TUNNEL_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HEAD_BYTES = 12,
    PIECE_BYTES = 32768, /* of output, input, or a part */
    BODY_BYTES = PIECE_BYTES + 64,
    STREAM_BYTES = 8 * (HEAD_BYTES + BODY_BYTES),
    KEY_BYTES = 64,
};

enum frame_type {
    /* to the multiplexer */
    HELLO = 1,     /* u64 out, u64 err: how much of each output is known; u8 may_begin; the command's key */
    PART = 2,      /* u8 letter (X spec, S secrets, F script), bytes: the next ones of that file */
    START = 3,     /* u8 is_pty, u8 has_errors, u16 rows, u16 cols */
    INPUT = 4,     /* u64 offset, bytes */
    INPUT_END = 5, /* u64 offset */
    ACK = 6,       /* u64 out, u64 err: written to where they belong; never needed again */
    WORDS = 7,     /* u64 number, text: an order for the shim, or "size ROWS COLS", "hangup" */
    RELEASE = 8,   /* everything is known: forget the command */
    ABANDON = 9,   /* key: its endpoint is gone: end the command, and forget it */
    PING = 10,
    /* from the multiplexer */
    STATE = 20,        /* u64 input taken, u64 number of the last words, u8 has begun: answers HELLO */
    STARTED = 21,
    NOT_STARTED = 22,  /* u32 errno, place */
    OUTPUT = 23,       /* u8 index, u64 offset, bytes */
    OUTPUT_END = 24,   /* u8 index, u64 offset */
    INPUT_ACK = 25,    /* u64 offset */
    INPUT_BROKEN = 26,
    ENDED = 27,        /* u8 kind, u32 number, u8 is_oom, u64 out, u64 err: what had been written until then */
    EMPTY = 28,
    UNKNOWN = 29,
    KEY = 30,          /* a command that is kept, sent once on a new stream; the one without a key ends the list */
    PONG = 31,
    ENDING = 32,       /* it has ended; ENDED follows when all was read that it wrote */
    /* from the tunnel, to endpoints */
    LINK_UP = 40,
    LINK_DOWN = 41,
};

struct frame {
    uint32_t type;
    uint32_t channel;
    uint32_t size;
    const unsigned char *bytes;
};

struct stream {
    int in;
    int out; /* may be the same */
    unsigned char *received;
    size_t received_begin, received_end;
    unsigned char *sending;
    size_t sending_begin, sending_end;
};

/* Take two descriptors, which become non-blocking. False: no memory; nothing was taken. */
bool stream_open(struct stream *stream, int in, int out);

/* Close and forget them; a closed stream has -1 for both. */
void stream_close(struct stream *stream);

/* Read what is there. False: it is over. */
bool stream_fill(struct stream *stream);

/* Return 1 with the next frame, whose bytes are good until the next `stream_fill`; 0: not there yet; -1: nonsense. */
int stream_next(struct stream *stream, struct frame *frame);

/* Queue a frame made of two pieces. False: no room now. */
bool stream_put(struct stream *stream, uint32_t type, uint32_t channel, const void *head, size_t head_size,
                const void *body, size_t body_size);

/* How many bytes of a frame's body can be queued now. */
size_t stream_room(const struct stream *stream);

/* Write what is queued, as far as it goes. False: it is over. */
bool stream_flush(struct stream *stream);

/* Numbers inside of frames. */
uint64_t get_number(const unsigned char *bytes, size_t size);
void put_number(unsigned char *bytes, uint64_t number, size_t size);

#endif
