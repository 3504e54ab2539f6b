/* The environment of a command: the container's, overlaid by words of its spec and by secrets. */
#ifndef OUTLIVE_COMMON_ENVIRONMENT_H
#define OUTLIVE_COMMON_ENVIRONMENT_H

#include <stddef.h>

/* Return our own environment with the words put over it in their order: NAME=VALUE sets, NAME alone removes.
   The last word for a name counts. Ends with NULL; NULL when there is no memory. The words themselves are not
   copied; the array is claimed (memory.h). */
char **overlaid(char **words, size_t count, char **secrets, size_t secret_count);

/* Return the value of `name` in an environment, NULL when it is not there. */
const char *value_of(char **env, const char *name);

#endif
