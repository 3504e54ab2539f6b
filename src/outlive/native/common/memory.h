/* What a command is made of until it executes: one command at a time in a process. */
#ifndef OUTLIVE_COMMON_MEMORY_H
#define OUTLIVE_COMMON_MEMORY_H

#include <stddef.h>

/* Return memory that lives until `forget_claims`; NULL if there is none. */
void *claim(size_t size);

/* Free all of it; what stood in the program's own part, where all but large commands are, is wiped. */
void forget_claims(void);

#endif
