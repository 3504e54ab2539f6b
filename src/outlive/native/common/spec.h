/* What a command is: the exec block of a spec file, and the environment that it runs in. */
#ifndef OUTLIVE_COMMON_SPEC_H
#define OUTLIVE_COMMON_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

enum {
    ALTERNATIVES = 16,
    LIMITS = 32,
    VERB_BYTES = 24,
};

struct limit {
    int resource;
    rlim_t value;
};

struct command {
    char *program;
    char *cwd;
    char **argv; /* ends with NULL, as execve(2) wants it */
    char **env;  /* the same */
    const char *alternatives[ALTERNATIVES]; /* programs to try where the one before is not found */
    int alternative_count;
    struct limit limits[LIMITS];
    int limit_count;
    unsigned umask;
    bool has_nice;
    int nice;
    unsigned long long step_count; /* also where one of them was refused */
    char refused[VERB_BYTES]; /* the verb of the step that cannot be taken, with the error that was returned */
};

/* Read the exec block of a spec file, and the variables in `secrets` (-1: none), into memory that is claimed (memory.h).
   Returns 0 or an errno; a caller that does not execute next has to `forget_claims`, in either case. */
int read_command(int spec, int secrets, struct command *command);

/* Give this process the command's umask and, as far as that is allowed, its niceness. */
void begin_as(const struct command *command);

#endif
