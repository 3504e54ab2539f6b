/* How a shim's command ends. */
#ifndef OUTLIVE_SHIM_EXIT_H
#define OUTLIVE_SHIM_EXIT_H

#include "shim.h"

/* Reap children; the command's end is recorded before. */
void shim_reap(struct shim *shim);

#endif
