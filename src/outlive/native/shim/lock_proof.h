/* Whether the process behind a connection is the supervisor, which holds a record lock: what
   src/outlive/keeper/common/lock_proof.py is, whose docstring has the reasons. */
#ifndef OUTLIVE_SHIM_LOCK_PROOF_H
#define OUTLIVE_SHIM_LOCK_PROOF_H

#include <stdbool.h>

#include "../common/shim_state.h"

/* Return whether the process that connected is of our user, holds the record lock of the open file `lock`, may
   gain privileges if we may, and lives. */
enum proof holds_lock(int link, int lock);

/* Return whether any process holds it. */
bool is_held(int lock);

#endif
