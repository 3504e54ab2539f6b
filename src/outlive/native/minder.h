/* The process beside one command: parent and subreaper of its tree, holder of its descriptors, writer of its record.

   It is in no data path, and plays for a command in a container the part that src/outlive/keeper/guardian/shim.py plays for one of
   this machine. Words separated by spaces, one packet each; a new supervisor connects to the socket it was given:

     to the minder    terminal ROWS COLS     before `spawn`: open a pseudoterminal for the command
                      spawn LETTERS FOLDER   descriptors in the order of the letters; FOLDER is not used
                      go LINE                execute; LINE goes to the record and begins with PID TICKS NS (as outside)
                      tree N N... | one N | group N    signals to all descendants, to the command, to its process group
                      freeze                 stop the tree to a fixpoint
                      close LETTERS | release | quit
     from the minder  prove OFFSET           first of all, where it knows the supervisor's lock (challenge.h)
                      hello PID              then, or at once
                      born LETTERS           after `spawn`: p the child's pidfd, m the terminal's master
                      spawned PID TICKS NS | failed ERRNO PLACE
                      frozen 1|0
                      exited KIND NUMBER EMPTY NS, then `empty`
                      state own LETTERS PID TICKS KIND NUMBER EMPTY NS   to a new supervisor, with descriptors

   Letters: L listener; o e read ends of stdout and stderr; i write end of stdin; r w relay pipe; m pty master; p pidfd;
   P the record; the command's own: I O E its streams; S secrets; X spec; F script. */
#ifndef OUTLIVE_MINDER_H
#define OUTLIVE_MINDER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdnoreturn.h>
#include <sys/types.h>

#include "challenge.h"
#include "packets.h"
#include "record.h"

enum {
    HELD = 16,
    OWN_ENDS = 8,
    ASKED_AT_ONCE = 8, /* peers that have to prove what they are; more wait in the backlog */
};

/* How a minder works, as bits. */
enum { LETS_ANY_IN = 1, STANDS_IN = 2 };

enum fate { ALIVE, EXITED, SIGNALED, FAILED };

struct minder {
    int link;     /* to the supervisor, -1 without one */
    int wake;     /* signalfd(2): SIGCHLD, SIGTERM */
    int listener; /* where new supervisors connect, -1 without one */
    int lock;     /* the supervisor's, read-only: a peer has to prove that it holds it; -1: none is asked to */
    struct question asked[ASKED_AT_ONCE]; /* which has not answered yet */
    bool lets_any_in; /* peers of our own PID namespace, too */
    bool stands_in;   /* the command runs elsewhere: our child stands in for it, and its relay gets the orders */
    int control;      /* to the relay, -1 without one */
    bool is_listener_resting; /* out of descriptors: no new supervisor for a moment */
    uid_t owner;  /* of the supervisor that sent `spawn` */
    pid_t runner;

    char letters[HELD]; /* of what is held, in the order it came */
    int held[HELD];
    int held_count;
    int terminal; /* the slave's side until the command has it */
    int terminal_error;

    bool is_spawned; /* `spawn` was accepted: from now on we stay until we are released */
    bool may_go;
    bool has_executed;
    pid_t child; /* 0: there is none, or it was reaped */
    pid_t group; /* its pid, for ever */
    int go;
    int report;
    long long oom_kills; /* before it ran */
    unsigned long long pid, ticks, started_ns; /* as `go` said */
    char line[LINE_BYTES];

    struct record record;
    bool is_ending; /* the end is in the record, or waits to be */
    enum fate coming; /* what `fate` becomes as soon as it is recorded */
    enum fate fate;
    int number;
    int64_t ended_ns;
    bool is_empty;
    bool must_reap; /* more may wait than one turn took */
    int64_t leave_at; /* the runner ends: monotonic milliseconds, 0 if not */
};

/* Serve one supervisor, and those that come after it, until released. `link` is ours from now on. With a `lock` each has to
   prove that it holds it, this one first. */
noreturn void mind(int link, unsigned how, int lock);

/* Somebody connects to where new supervisors are expected. (meeting.c) */
void meet_peer(struct minder *minder, bool is_hung_up);

/* A peer that was asked has said something. (meeting.c) */
void hear_asked(struct minder *minder, int index);

/* What a packet wants. False: it wants us to leave. (orders.c) */
bool obey(struct minder *minder, struct packet *packet);

/* Start the child of `spawn`: it waits for `go`. (spawning.c) */
void spawn(struct minder *minder, struct packet *packet, const char *letters);

/* Let the child execute. `line` is what the supervisor wants in the record. (spawning.c) */
void let_go(struct minder *minder, const char *line);

/* The child said that it cannot execute, or executed, or died before. (spawning.c) */
void hear_child(struct minder *minder);

/* Record the command's end, then reap it; reap all other children, a bounded number. (reaping.c) */
void reap(struct minder *minder);

/* Note that the command never ran, and say so. (reaping.c) */
void never_ran(struct minder *minder, int number, const char *place);

/* Tell the supervisor something, if there is one that listens. */
void say(struct minder *minder, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Keep a descriptor under a letter; false (and closed) when there is no room. */
bool hold(struct minder *minder, char letter, int fd);

/* Return what is held under a letter, -1 if nothing. */
int held_under(const struct minder *minder, char letter);

/* Close what is held under a letter. */
void let_fall(struct minder *minder, char letter);

/* Close a descriptor, if it is one, and forget it. */
void close_fd(int *fd);

#endif
