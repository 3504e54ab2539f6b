/* What the shim of a kept command reports. */
#include "task_events.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/packets.h"
#include "../runner/container_shim.h"
#include "task_bytes.h"

static void note_end(struct task *task, const char *kind, int number, bool is_empty)
{
    char text[1024];
    ssize_t size = task->record < 0 ? 0 : pread(task->record, text, sizeof text - 1, 0);

    text[size > 0 ? size : 0] = '\0';
    task->has_ended = true;
    task->kind = strcmp(kind, "exited") == 0 ? EXITED : SIGNALED;
    task->number = number;
    task->is_oom = size > 4 && strcmp(text + size - 5, " oom\n") == 0;
    task->is_empty |= is_empty;
    task->says |= SAY_ENDING | SAY_ENDED | (task->is_empty ? SAY_EMPTY : 0);
    for (int index = 0; index < OUTPUTS; index++) {
        task->outputs[index].looked_at = task->outputs[index].window.end;
        task->outputs[index].is_drained = task->outputs[index].fd < 0;
        task_read_output(task, index); /* if there is nothing, that is known now; a full window is read later */
    }
}

/* Take the child's terminal, and let the child execute. The numbers behind `go` are the keeper's business outside: inside
   they only have to be numbers. */
static void let_command_execute(struct task *task, struct packet *packet)
{
    const char *letters = packet->words + strlen("born ");

    for (int index = 0; index < packet->count && letters[index] != '\0'; index++) {
        if (letters[index] != 'm')
            continue;
        task->outputs[0].fd = packet->fds[index];
        task->outputs[0].exists = true;
        packet->fds[index] = -1;
    }
    task_order(task, "close m");
    task_order(task, "go 1 1 1");
}

/* A command of our user can kill its shim. What became of the command cannot be known then, so it counts as killed. */
static void lose_shim(struct task *task)
{
    close_fd(&task->shim);
    if (!task->is_started && !task->has_failed)
        task_not_started(task, ECANCELED, "container");
    else if (!task->has_ended && !task->has_failed)
        note_end(task, "signaled", SIGKILL, true);
    task->is_empty = true;
    task->says |= SAY_EMPTY;
}

void task_hear_shim(struct task *task)
{
    struct packet packet;
    char word[16];
    int number, empty;

    enum heard heard = receive_packet(task->shim, &packet);
    if (heard == HEARD_NOTHING)
        return;
    if (heard == HEARD_END) {
        lose_shim(task);
        return;
    }
    if (strncmp(packet.words, "born ", 5) == 0) {
        let_command_execute(task, &packet);
    } else if (strncmp(packet.words, "spawned ", 8) == 0) {
        task->is_started = true;
        task->says |= SAY_STARTED;
    } else if (sscanf(packet.words, "failed %d %47s", &number, task->place) == 2) {
        task->has_failed = task->is_empty = true;
        task->number = number;
        task->says |= SAY_NOT_STARTED;
    } else if (sscanf(packet.words, "exited %15s %d %d", word, &number, &empty) == 3) {
        note_end(task, word, number, empty != 0);
    } else if (strcmp(packet.words, "empty") == 0) {
        task->is_empty = true;
        task->says |= SAY_EMPTY;
    }
    close_packet(&packet);
}
