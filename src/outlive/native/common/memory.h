/* What a command is made of until it executes: one command at a time in a process. */
#ifndef OUTLIVE_COMMON_MEMORY_H
#define OUTLIVE_COMMON_MEMORY_H

#include <stddef.h>

/* Return memory that lives until `forget_claims`; NULL if there is none. */
void *claim(size_t size);

/* Wipe and free all of it. */
void forget_claims(void);

#endif
