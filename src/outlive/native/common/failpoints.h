/* What tests set. Places where one may kill this process, as src/outlive/kernel/failpoints.py has them:
   armed by OUTLIVE_FAILPOINT="name@token-file", whose file is consumed, so that the successor does not die at
   the same place. And what the machine pretends to lack: OUTLIVE_DEGRADE, a list of words. */
#ifndef OUTLIVE_COMMON_FAILPOINTS_H
#define OUTLIVE_COMMON_FAILPOINTS_H

#include <stdbool.h>

/* The name that is armed, NULL if none: never in normal operation. */
extern const char *armed_failpoint;

/* Read the environment, once. */
void read_settings_of_tests(void);

/* Return whether the machine is to lack this. */
bool lacks(const char *what);

/* Die by SIGKILL if this one is armed and its token is still there. */
void reach_failpoint(const char *name);

static inline void hit(const char *name)
{
    if (armed_failpoint != 0)
        reach_failpoint(name);
}

#endif
