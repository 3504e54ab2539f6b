/* The list of commands that the multiplexer keeps, and what every step of one needs. */
#include "task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/packets.h"

void task_order(struct task *task, const char *words)
{
    if (task->shim >= 0)
        send_packet(task->shim, words, NULL, 0);
}

void task_drop_parts(struct task *task)
{
    for (int index = 0; index < PARTS; index++)
        close_fd(&task->parts[index]);
}

void task_forget(struct multiplexer *multiplexer, struct task *task)
{
    struct task **place = &multiplexer->tasks;

    while (*place != task)
        place = &(*place)->next;
    *place = task->next;
    if (multiplexer->key_next == task)
        multiplexer->key_next = task->next;
    task_order(task, "release");
    task_drop_parts(task);
    close_fd(&task->shim);
    close_fd(&task->record);
    close_fd(&task->input);
    for (int index = 0; index < OUTPUTS; index++) {
        close_fd(&task->outputs[index].fd);
        flow_window_free_memory(&task->outputs[index].window);
    }
    flow_window_free_memory(&task->taken);
    free(task);
}

struct task *task_bound_to(struct multiplexer *multiplexer, uint32_t channel)
{
    for (struct task *task = multiplexer->tasks; task != NULL; task = task->next)
        if (task->is_bound && task->channel == channel)
            return task;
    return NULL;
}

struct task *task_find(struct multiplexer *multiplexer, const unsigned char *key, size_t size)
{
    for (struct task *task = multiplexer->tasks; task != NULL; task = task->next)
        if (strlen(task->key) == size && memcmp(task->key, key, size) == 0)
            return task;
    return NULL;
}

struct task *task_make(struct multiplexer *multiplexer, const unsigned char *key, size_t size)
{
    struct task *task = calloc(1, sizeof *task);

    if (task == NULL)
        return NULL;
    memcpy(task->key, key, size);
    task->shim = task->record = task->input = -1;
    for (int index = 0; index < PARTS; index++)
        task->parts[index] = -1;
    for (int index = 0; index < OUTPUTS; index++)
        task->outputs[index].fd = -1;
    task->next = multiplexer->tasks;
    multiplexer->tasks = task;
    return task;
}

void task_not_started(struct task *task, int number, const char *place)
{
    task->has_failed = task->is_empty = true;
    task->number = number;
    snprintf(task->place, sizeof task->place, "%s", place);
    task->says |= SAY_NOT_STARTED;
}
