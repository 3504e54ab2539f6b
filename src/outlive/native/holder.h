/* Whether the process behind a connection is the supervisor, which holds a record lock: what
   src/outlive/keeper/common/lock_proof.py is, whose docstring has the reasons. */
#ifndef OUTLIVE_HOLDER_H
#define OUTLIVE_HOLDER_H

#include <stdbool.h>

enum proof {
    NO_HOLDER,
    IS_HOLDER,
    CANNOT_TELL, /* out of descriptors or memory, and nothing else speaks against it: ask again */
};

/* A test's way to an older kernel: OUTLIVE_DEGRADE=peer_pidfd in the environment. To be called once. */
void read_degrade(void);

/* Tell whether the process that connected is of our user, holds the record lock of the open file `lock`, may
   gain privileges if we may, and lives. */
enum proof holds_lock(int link, int lock);

/* Tell whether any process holds it. */
bool is_held(int lock);

#endif
