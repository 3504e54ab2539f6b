/* What a command is: the exec block of a spec file, and the environment that it runs in. */
#ifndef OUTLIVE_SPEC_H
#define OUTLIVE_SPEC_H

#include <stddef.h>
#include <sys/resource.h>

enum {
    ALTERNATIVES = 16,
    LIMITS = 32,
    VERB_BYTES = 24,
    PIECES = 6,
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
    unsigned long long step_count; /* also where one of them was refused */
    void *pieces[PIECES]; /* of memory that all of this lies in */
    int piece_count;
    char refused[VERB_BYTES]; /* the verb of the step that cannot be taken, with the error that was returned */
};

/* Read the exec block of a spec file, and the variables in `secrets` (-1: none). Returns 0 or an errno; whoever does not
   execute next has to forget the command, in either case. */
int read_command(int spec, int secrets, struct command *command);

/* Free what it is made of. */
void forget_command(struct command *command);

#endif
