/* The last stage of a command's pipeline, when bash was shown this program in the place of `tail`, `head` or `grep`
   (engine/commands/unfiltered.bash): the filter runs as ever, and a copy of what enters it is kept. */
#ifndef OUTLIVE_FILTER_STAGE_H
#define OUTLIVE_FILTER_STAGE_H

#include <stdbool.h>

/* Whether a program of this name was called in a filter's place. */
bool is_filter(const char *name);

/* Become the filter that `argv` names. Returns only when it cannot be executed, with the shell's exit code for that. */
int run_filter_stage(char **argv);

#endif
