/* What arrives from outside for a kept command. */
#ifndef OUTLIVE_TUNNEL_TASK_FRAMES_H
#define OUTLIVE_TUNNEL_TASK_FRAMES_H

#include <stdbool.h>

#include "frames.h"
#include "task.h"

/* Do what a frame wants. False: it makes no sense. */
bool task_hear(struct multiplexer *multiplexer, const struct frame *frame);

/* Repeat what has to be repeated until it has come true: the end of what was abandoned. True: call again soon. */
bool task_pursue(struct task *task);

#endif
