/* The bytes of a kept command. */
#ifndef OUTLIVE_TUNNEL_TASK_BYTES_H
#define OUTLIVE_TUNNEL_TASK_BYTES_H

#include <stdbool.h>

#include "task.h"

/* Move what is ready: output into its window, input out of its window. */
void task_read_output(struct task *task, int index);
void task_write_input(struct task *task);

/* Queue the frames that are due, as far as there is room. True: something was queued. */
bool task_say(struct multiplexer *multiplexer, struct task *task);

#endif
