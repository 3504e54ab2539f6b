/* From a forked child of the shim to the program: everything that happens between fork and execve. */
#ifndef OUTLIVE_RUNNER_CHILD_H
#define OUTLIVE_RUNNER_CHILD_H

#include <stdnoreturn.h>

enum { PLACE_BYTES = 40 };

/* What a child that could not execute reports through its CLOEXEC pipe, in one write. */
struct failure {
    int number; /* errno */
    char place[PLACE_BYTES];
};

/* The places of the command's own descriptors; RECORD is the shim's. */
enum own { INPUT, OUTPUT, ERRORS, SECRETS, SPEC, SCRIPT, RECORD, OWN_COUNT };

/* The descriptors a child begins with; -1 for what is not there. All are close-on-exec. */
struct beginnings {
    const int *ends;
    int terminal; /* the slave's side, or -1: then an output is there */
    int go;       /* one byte lets it execute, the end of file makes it leave */
    int report;   /* a `struct failure` goes here */
};

/* Become the command, once `go` says so. */
noreturn void become_command(const struct beginnings *from);

#endif
