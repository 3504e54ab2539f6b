/* What the shim of a kept command reports. */
#ifndef OUTLIVE_TUNNEL_TASK_EVENTS_H
#define OUTLIVE_TUNNEL_TASK_EVENTS_H

#include "task.h"

/* Take the next report. */
void task_hear_shim(struct task *task);

#endif
