/* The steps by which a command is bounded, taken in their order before it executes. `keeper/sandbox/steps.py` chooses them;
   nothing is decided here. A step is a verb and its words; numbers are decimal.

     group FOLDER             make a control group
     set VALUE FILE           write one of its limits
     cgroup FOLDER            enter it
     limit NUMBER VALUE       set a resource limit, soft and hard (setrlimit(2))
     keyring                  leave the user's keys for an empty session keyring
     unshare FLAGS            leave namespaces; in a new user namespace our ids are mapped to themselves
     loopback                 let 127.0.0.1 work in a new network namespace
     capabilities MASK        give up all others
     no_new_privileges
     allow RIGHTS PATH        for `landlock`: what is allowed at and below a path; nothing at one that is not there
     pin PATH                 in a new mount namespace: what is there can neither be renamed nor removed,
     protect PATH             and nor can anything in it be changed,
     close PATH               or an empty folder is there instead, which cannot be entered
     processes                a /proc that shows only the processes which may be traced
     landlock RIGHTS SCOPES   restrict these rights and scopes to what was allowed
     seccomp PROGRAM          put a filter of system calls into force: its instructions in hexadecimal
     hide PATH | keep PATH | show PATH    for `seal`: an empty folder there, the real one, the real one read-only
     seal                     continue as a process of new mount and PID namespaces */
#ifndef OUTLIVE_SHIM_CONFINE_H
#define OUTLIVE_SHIM_CONFINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What the child leaves to its shim, which waits meanwhile, in memory that both have. No pointers: for a moment other
   processes of an ordinary user may trace the child. */
struct outcome {
    int64_t born_ns; /* `boottime_ns` as soon as it ran */
    int error;       /* why the program does not run, 0 if it does */
    int at_folder;   /* whether its folder was the reason, */
    int step;        /* or a step: what `name_of_step` takes; 0 for none */
    pid_t sealed;    /* the command, if it is a sibling of the child, */
    pid_t init;      /* and the init of its PID namespace */
};

/* The steps of a command that is on its way. */
struct confinement {
    char **steps;
    size_t count;
    size_t taken; /* those before the one that is being taken, */
    const char *rest; /* and what stands behind its verb */
    int terminal; /* the command's, or -1 */
    int left;     /* the namespaces that were left: nothing is mounted in those of others */
    volatile struct outcome *outcome;
};

/* Take all steps in this process. Returns 0, in a sibling of the caller if it is sealed now, or an errno: then the
   process is half restricted and of no other use. */
int take_steps(struct confinement *all);

/* Return the verb of a step that has failed. */
const char *name_of_step(int step);

#endif
