/* Between a pipe and the filter that reads it: passes every byte on, and keeps a copy. */
#ifndef OUTLIVE_FILTER_COPIER_H
#define OUTLIVE_FILTER_COPIER_H

#include <stdbool.h>

#include "kept_log.h"

#define COPIER_NAME "outlive-copier" /* keeper/supervisor/endings/tree_control.py does not count what is named so */

/* Pass descriptor 0 on to `output` and keep what passes; returns when there is no writer or no reader any more.
   `is_patient`: the filter reads to the end, so that it matters to nothing how many bytes wait in pipes. */
int copy_input(int output, struct kept_log *log, bool is_patient);

#endif
