/* The bytes of a kept command: from its pipes into windows, from there outside, and its input back. */
#include "task_bytes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DRAIN_MOST = 1 << 20 }; /* no pipe or terminal holds more that was written before the command ended */

static void end_output(struct output *output, bool is_shared)
{
    if (!is_shared)
        close(output->fd);
    output->fd = -1;
    output->is_drained = true;
}

void task_read_output(struct task *task, int index)
{
    struct output *output = &task->outputs[index];

    if (output->fd < 0) {
        output->is_drained = true;
        return;
    }
    if (flow_window_free(&output->window) == 0)
        return; /* a read of nothing would look like the end */
    ssize_t got = flow_window_read(&output->window, output->fd);
    if (got > 0) {
        /* An abandoned command has no reader any more. Its output is read all the same, or it would wait for room for
           ever. */
        if (task->is_abandoned)
            flow_window_drop(&output->window, output->window.end);
        if (task->has_ended && output->window.end - output->looked_at >= DRAIN_MOST)
            output->is_drained = true;
    } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        /* After the command's end an empty pipe is drained, even if a child of the command still holds it open. */
        output->is_drained |= task->has_ended && errno == EAGAIN;
    } else { /* EIO: no process has the terminal open any more */
        end_output(output, false);
    }
}

void task_write_input(struct task *task)
{
    const unsigned char *bytes;
    int fd = task->is_pty ? task->outputs[0].fd : task->input;
    size_t size = flow_window_at(&task->taken, task->taken.next, &bytes);

    if (fd < 0)
        return;
    ssize_t put = size == 0 ? 0 : write(fd, bytes, size);
    if (put > 0) {
        task->taken.next += (uint64_t)put;
        flow_window_drop(&task->taken, task->taken.next);
        task->says |= SAY_INPUT_ACK;
    }
    if (task->is_pty)
        return; /* the end of a terminal is read */
    bool is_broken = (put < 0 && errno != EAGAIN && errno != EINTR) || (size == 0 && !task->is_input_over);
    if (is_broken) { /* ready though there is nothing to write: the reader is gone */
        task->is_input_broken = true;
        task->says |= SAY_INPUT_BROKEN;
    }
    if (is_broken || (task->is_input_over && task->taken.next == task->taken.end)) {
        close(task->input);
        task->input = -1;
    }
}

static bool say_one(struct multiplexer *multiplexer, struct task *task, unsigned what)
{
    unsigned char head[32];
    size_t size = 0;
    const char *text = "";
    uint32_t type = 0;

    switch (what) {
    case SAY_STATE:
        put_number(head, task->taken.end, 8);
        put_number(head + 8, task->last_words, 8);
        head[16] = task->has_begun;
        type = STATE, size = 17;
        break;
    case SAY_STARTED:
        type = STARTED;
        break;
    case SAY_NOT_STARTED:
        put_number(head, (uint64_t)task->number, 4);
        type = NOT_STARTED, size = 4, text = task->place;
        break;
    case SAY_INPUT_ACK:
        put_number(head, task->taken.first, 8);
        type = INPUT_ACK, size = 8;
        break;
    case SAY_INPUT_BROKEN:
        type = INPUT_BROKEN;
        break;
    case SAY_ENDING:
        type = ENDING;
        break;
    case SAY_ENDED:
        head[0] = (unsigned char)task->kind;
        put_number(head + 1, (uint64_t)task->number, 4);
        head[5] = task->is_oom;
        put_number(head + 6, task->outputs[0].window.end, 8);
        put_number(head + 14, task->outputs[1].window.end, 8);
        type = ENDED, size = 22;
        break;
    default:
        type = EMPTY;
    }
    return stream_put(&multiplexer->stream, type, task->channel, head, size, text, strlen(text));
}

/* Send one piece of an output, or its end. */
static bool say_output(struct multiplexer *multiplexer, struct task *task, int index)
{
    struct output *output = &task->outputs[index];
    const unsigned char *bytes;
    unsigned char head[9];
    size_t size = flow_window_at(&output->window, output->window.next, &bytes);

    head[0] = (unsigned char)index;
    put_number(head + 1, output->window.next, 8);
    if (size > 0) {
        size = size < PIECE_BYTES ? size : PIECE_BYTES;
        if (!stream_put(&multiplexer->stream, OUTPUT, task->channel, head, sizeof head, bytes, size))
            return false;
        output->window.next += size;
        return true;
    }
    if (!output->exists || output->fd >= 0 || output->is_end_said)
        return false;
    output->is_end_said = stream_put(&multiplexer->stream, OUTPUT_END, task->channel, head, sizeof head, NULL, 0);
    return output->is_end_said;
}

/* Return whether all was read that was written before the command ended. A pipe that others hold open has to be asked. */
static bool are_drained(struct task *task)
{
    bool are = true;

    for (int index = 0; index < OUTPUTS; index++) {
        struct output *output = &task->outputs[index];
        while (!output->is_drained && flow_window_free(&output->window) > 0)
            task_read_output(task, index);
        are &= output->is_drained;
    }
    return are;
}

bool task_say(struct multiplexer *multiplexer, struct task *task)
{
    bool said = false;

    for (unsigned what = SAY_STATE; what <= SAY_EMPTY; what <<= 1) {
        if ((task->says & what) == 0)
            continue;
        /* The end is sent once it is known how much was written before it: what outlives the command may write for ever. */
        if (what == SAY_ENDED && !are_drained(task))
            break;
        if (!say_one(multiplexer, task, what))
            return said;
        task->says &= ~what;
        said = true;
    }
    for (int index = 0; index < OUTPUTS; index++)
        said |= say_output(multiplexer, task, index);
    return said;
}
