/* What arrives from outside for a command that the multiplexer keeps. It is checked; what a shim reports is not, for it is
   our own program. */
#include "task_frames.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/packets.h"
#include "../runner/container_shim_loop.h"
#include "task_bytes.h"

enum { PART_BYTES = 32 << 20, TEXT_BYTES = 256 };

static const char PART_LETTERS[] = "XSF";

/* What has to be sent to an endpoint that knows nothing yet but how much of the output it has. */
static unsigned all_of(const struct task *task)
{
    return SAY_STATE | SAY_INPUT_ACK | (task->is_started ? SAY_STARTED : 0) | (task->has_failed ? SAY_NOT_STARTED : 0) |
           (task->is_input_broken ? SAY_INPUT_BROKEN : 0) | (task->has_ended ? SAY_ENDING | SAY_ENDED : 0) |
           (task->is_empty ? SAY_EMPTY : 0);
}

static bool hear_hello(struct multiplexer *multiplexer, const struct frame *frame)
{
    if (frame->size < 18 || frame->size >= 17 + KEY_BYTES || memchr(frame->bytes + 17, '\0', frame->size - 17) != NULL)
        return false;
    struct task *task = task_find(multiplexer, frame->bytes + 17, frame->size - 17);
    if (task == NULL && frame->bytes[16] != 0)
        task = task_make(multiplexer, frame->bytes + 17, frame->size - 17);
    if (task == NULL || task->is_abandoned)
        /* Where there is no room now, the endpoint asks again: that makes sense, too. */
        return stream_put(&multiplexer->stream, UNKNOWN, frame->channel, NULL, 0, NULL, 0) || true;
    task->is_bound = true;
    task->channel = frame->channel;
    task->says = all_of(task);
    if (!task->has_begun)
        task_drop_parts(task);
    for (int index = 0; index < OUTPUTS; index++) {
        struct flow_window *window = &task->outputs[index].window;
        flow_window_drop(window, get_number(frame->bytes + (size_t)index * 8, 8));
        window->next = window->first;
        task->outputs[index].is_end_said = false;
    }
    return true;
}

static bool hear_part(struct task *task, const struct frame *frame)
{
    const char *letter = frame->size == 0 || frame->bytes[0] == 0 ? NULL : strchr(PART_LETTERS, frame->bytes[0]);

    if (letter == NULL)
        return false;
    if (task->has_begun)
        return true;
    int *part = &task->parts[letter - PART_LETTERS];
    if (*part < 0)
        *part = memfd_create("outlive", MFD_CLOEXEC);
    size_t size = frame->size - 1;
    off_t at = *part < 0 ? -1 : lseek(*part, 0, SEEK_END);
    if (at < 0 || at > PART_BYTES || write(*part, frame->bytes + 1, size) != (ssize_t)size)
        close_fd(part); /* `spawn` misses it then */
    return true;
}

static bool fork_shim(struct task *task)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return false;
    pid_t shim = fork();
    if (shim == 0) {
        if (dup3(pair[1], 3, O_CLOEXEC) < 0 && pair[1] != 3)
            _exit(1);
        close_from(4, false);
        run_container_shim(3, true, -1);
    }
    close(pair[1]);
    if (shim < 0) {
        close(pair[0]);
        return false;
    }
    task->shim = pair[0];
    return true;
}

/* A `spawn` in the making: each descriptor has its letter (container_shim_loop.h). */
struct letters {
    char letters[16];
    int fds[16];
    int count;
};

static void give(struct letters *packet, char letter, int fd)
{
    packet->letters[packet->count] = letter;
    packet->fds[packet->count++] = fd;
}

/* Open a pipe, of which the command gets one end. */
static bool give_pipe(struct letters *packet, char letter, int *ours)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    int theirs = letter == 'I' ? 0 : 1;
    *ours = ends[1 - theirs];
    fcntl(*ours, F_SETFL, O_NONBLOCK);
    give(packet, letter, ends[theirs]);
    return true;
}

static bool spawn_task(struct task *task, const unsigned char *how, char *terminal)
{
    struct letters packet = {.count = 0};
    char words[64];
    bool is_good = true;

    task->record = memfd_create("outlive", MFD_CLOEXEC);
    is_good &= task->record >= 0 && fork_shim(task);
    if (is_good && task->is_pty)
        task_order(task, terminal);
    else
        is_good = is_good && give_pipe(&packet, 'I', &task->input) && give_pipe(&packet, 'O', &task->outputs[0].fd) &&
                  (how[1] == 0 || give_pipe(&packet, 'E', &task->outputs[1].fd));
    int own = packet.count;
    give(&packet, 'P', task->record);
    for (int index = 0; index < PARTS; index++)
        if (task->parts[index] >= 0)
            give(&packet, PART_LETTERS[index], task->parts[index]);
    snprintf(words, sizeof words, "spawn %s -", packet.letters);
    is_good = is_good && send_packet(task->shim, words, packet.fds, packet.count);
    for (int index = 0; index < own; index++)
        close(packet.fds[index]);
    task_drop_parts(task);
    return is_good;
}

static bool hear_start(struct task *task, const struct frame *frame)
{
    char terminal[32];

    if (frame->size != 6)
        return false;
    if (task->has_begun)
        return true;
    task->has_begun = true;
    task->is_pty = frame->bytes[0] != 0;
    snprintf(terminal, sizeof terminal, "terminal %u %u", (unsigned)get_number(frame->bytes + 2, 2),
             (unsigned)get_number(frame->bytes + 4, 2));
    task->outputs[0].exists = !task->is_pty; /* a terminal comes with the news that the command was born */
    task->outputs[1].exists = !task->is_pty && frame->bytes[1] != 0;
    if (!spawn_task(task, frame->bytes, terminal)) {
        task_not_started(task, errno != 0 ? errno : EIO, "container");
        for (int index = 0; index < OUTPUTS; index++)
            close_fd(&task->outputs[index].fd);
        close_fd(&task->input);
        close_fd(&task->shim);
    }
    return true;
}

static void set_size(struct task *task, const char *numbers)
{
    struct winsize size = {0};

    if (task->is_pty && task->outputs[0].fd >= 0 && sscanf(numbers, "%hu %hu", &size.ws_row, &size.ws_col) == 2)
        ioctl(task->outputs[0].fd, TIOCSWINSZ, &size);
}

/* The output is not read outside any more: the command notices that when it writes. */
static void deafen(struct task *task, int index)
{
    struct output *output = &task->outputs[index];

    close_fd(&output->fd);
    flow_window_drop(&output->window, output->window.end);
    output->is_drained = true;
}

static bool hear_words(struct task *task, const struct frame *frame)
{
    char words[TEXT_BYTES];

    if (frame->size < 8 || frame->size - 8 >= sizeof words)
        return false;
    uint64_t number = get_number(frame->bytes, 8);
    memcpy(words, frame->bytes + 8, frame->size - 8);
    words[frame->size - 8] = '\0';
    if (number <= task->last_words)
        return true;
    task->last_words = number;
    task->says |= SAY_STATE;
    if (strncmp(words, "size ", 5) == 0)
        set_size(task, words + 5);
    else if (strcmp(words, "hangup") == 0 && task->is_pty)
        deafen(task, 0);
    else if (strcmp(words, "deaf 0") == 0 || strcmp(words, "deaf 1") == 0)
        deafen(task, words[5] - '0');
    else if (strncmp(words, "tree ", 5) == 0 || strncmp(words, "one ", 4) == 0 || strncmp(words, "group ", 6) == 0 ||
             strcmp(words, "freeze") == 0)
        task_order(task, words);
    return true;
}

static bool hear_input(struct task *task, const struct frame *frame)
{
    if (frame->size < 8)
        return false;
    uint64_t offset = get_number(frame->bytes, 8);
    bool can_be = frame->type == INPUT ? flow_window_add(&task->taken, offset, frame->bytes + 8, frame->size - 8)
                                       : offset == task->taken.end;
    if (frame->type == INPUT_END && can_be)
        task->is_input_over = true;
    if (task->input < 0 && !task->is_pty) { /* the command does not read: the bytes are taken, and go nowhere */
        flow_window_drop(&task->taken, task->taken.end);
        task->says |= SAY_INPUT_ACK;
    } else if (task->taken.next < task->taken.end || (task->is_input_over && !task->is_pty)) {
        task_write_input(task);
    }
    return true;
}

static void abandon(struct multiplexer *multiplexer, struct task *task)
{
    task->is_abandoned = true;
    task->is_bound = false;
    task->says = 0;
    for (int index = 0; index < OUTPUTS; index++)
        flow_window_drop(&task->outputs[index].window, task->outputs[index].window.end);
    if (task->shim < 0)
        task_forget(multiplexer, task);
}

bool task_hear(struct multiplexer *multiplexer, const struct frame *frame)
{
    if (frame->type == HELLO)
        return hear_hello(multiplexer, frame);
    if (frame->type == ABANDON) {
        struct task *found = task_find(multiplexer, frame->bytes, frame->size);
        if (found != NULL)
            abandon(multiplexer, found);
        return true;
    }
    struct task *task = task_bound_to(multiplexer, frame->channel);
    if (task == NULL)
        return true; /* sent before its end was known outside */
    switch (frame->type) {
    case PART:
        return hear_part(task, frame);
    case START:
        return hear_start(task, frame);
    case INPUT:
    case INPUT_END:
        return hear_input(task, frame);
    case ACK:
        for (int index = 0; frame->size == 16 && index < OUTPUTS; index++)
            flow_window_drop(&task->outputs[index].window, get_number(frame->bytes + (size_t)index * 8, 8));
        return frame->size == 16;
    case WORDS:
        return hear_words(task, frame);
    case RELEASE:
        task_forget(multiplexer, task);
        return true;
    default:
        return false;
    }
}

bool task_pursue(struct task *task)
{
    if (!task->is_abandoned)
        return false;
    task_order(task, "tree 9");
    return true;
}
