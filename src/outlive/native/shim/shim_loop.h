/* The process beside one plain command of this machine: what src/outlive/keeper/guardian/shim.py is, whose docstring has the
   protocol (decision 126). Commands with steps of a sandbox are not for it: none of them runs here, and the supervisor gives
   them to a shim in Python. */
#ifndef OUTLIVE_SHIM_SHIM_LOOP_H
#define OUTLIVE_SHIM_SHIM_LOOP_H

#include <stdbool.h>

/* Serve the supervisors of a state folder until there is nothing left to hold and none of them. Returns the program's exit
   code. `is_lock_handed`: the record lock's file is open as the standard input. */
int run_shim(const char *state_folder, bool is_lock_handed);

#endif
