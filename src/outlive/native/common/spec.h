/* What a command is: the exec block of a spec file, and the environment that it runs in. */
#ifndef OUTLIVE_COMMON_SPEC_H
#define OUTLIVE_COMMON_SPEC_H

#include <stdbool.h>
#include <stddef.h>

enum {
    VERB_BYTES = 24,
};

struct command {
    char *program;
    char *cwd;
    char **argv; /* ends with NULL, as execve(2) wants it */
    char **env;  /* the same */
    char **steps; /* what is done before it executes, in this order (shim/confine.h, or `take_step` in a container) */
    size_t step_count;
    unsigned umask;
    bool has_nice;
    int nice;
    char refused[VERB_BYTES]; /* the step that a container's command cannot have, with the error returned */
};

/* Return memory that lives until `forget_claims`, NULL if there is none: for one command at a time in a process. */
void *claim(size_t size);

/* Wipe and free all of it. */
void forget_claims(void);

/* Read the exec block of a spec file, and the variables in `secrets` (-1: none), into memory that is claimed. In a
   container the steps about the environment are taken, too: it is the container's. Returns 0 or an errno; a caller that
   does not execute next has to `forget_claims`, in either case. */
int read_command(int spec, int secrets, bool is_in_container, struct command *command);

/* Take a whole number without sign from the front of `*words`, and the space behind it; false when they begin with anything
   else. */
bool take_number(const char **words, unsigned long long *number);

/* Read a text that is such a number and nothing else. */
bool read_number(const char *text, unsigned long long *number);

/* Give this process the command's niceness, as far as that is allowed. */
void begin_with_niceness(const struct command *command);

/* Return what stands behind the verb of a step; NULL if it has another one. */
const char *after_verb(const char *step, const char *verb);

/* Limit a resource by the words of a step, NUMBER VALUE, soft and hard (setrlimit(2)). Returns 0 or an errno.
   */
int set_limit(const char *rest);

#endif
