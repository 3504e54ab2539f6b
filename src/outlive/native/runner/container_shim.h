/* The shim of one command in a container: parent and subreaper of the command's tree, holder of its descriptors, writer of
   its record. No data passes through it.

   It is to a command in a container what shim/shim_loop.h is to one of this machine. The protocol (the
   letters and words are the same for all versions): words separated by spaces, one packet each; a new supervisor connects to
   the socket that the shim was given:

     to the shim      terminal ROWS COLS     before `spawn`: open a pseudoterminal for the command
                      spawn LETTERS FOLDER   descriptors in the order of the letters; FOLDER is not used
                      go LINE                execute; LINE goes to the record and begins with PID TICKS NS (as outside)
                      close LETTERS | release | quit
     from the shim    prove OFFSET           first of all, where it knows the supervisor's lock (peers.c)
                      hello PID              then, or at once
                      born LETTERS           after `spawn`: p the child's pidfd, m the terminal's master
                      spawned PID TICKS NS | failed ERRNO PLACE
                      exited KIND NUMBER EMPTY NS, then `empty`
                      state own LETTERS PID TICKS KIND NUMBER EMPTY NS   to a new supervisor, with descriptors

   Letters: L listener; o e read ends of stdout and stderr; i write end of stdin; r w the relay; m pty master; p pidfd;
   P the record; the command's own: I O E its streams; S secrets; X spec; F script. */
#ifndef OUTLIVE_RUNNER_CONTAINER_SHIM_H
#define OUTLIVE_RUNNER_CONTAINER_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>
#include <sys/types.h>

#include "../common/packets.h"
#include "../common/shim_state.h"

enum {
    ASKED_AT_ONCE = 8, /* peers that have to prove what they are; more wait in the backlog */
    PENDING_BYTES = 3 * LINE_BYTES, /* a process has three lines at the most */
    PLACE_BYTES = 40,
};

/* A peer that was asked, and the byte that it is to free; `link` is -1 where there is none. */
struct question {
    int link;
    off_t at;
    int64_t asked_at; /* monotonic milliseconds */
};

/* The process's `pid` file (src/outlive/protocols/frames.py), of whole lines, and what a full disk has kept from being
   written into it. */
struct record {
    int fd; /* -1: there is none, and every line counts as written */
    size_t size;
    char pending[PENDING_BYTES];
};

struct container_shim {
    struct shim_state state;
    struct question asked[ASKED_AT_ONCE]; /* which has not answered yet */
    bool lets_any_in;         /* peers of our own PID namespace, too */
    uid_t owner; /* of the supervisor that sent `spawn` */
    pid_t runner;

    int terminal; /* the slave's side until the command has it */
    int terminal_error;

    bool is_spawned; /* `spawn` was accepted: from now on we stay until we are released */
    bool may_go;
    int go;
    int report;
    long long oom_kills; /* before it ran */
    unsigned long long said[3]; /* by `go`: its pid, ticks, and when it was started in nanoseconds */
    char line[LINE_BYTES];

    struct record record;
    bool is_ending; /* the end is in the record, or waits to be */
    bool must_reap; /* more may wait than one turn took */
    int64_t leave_at; /* the runner ends: monotonic milliseconds, 0 if not */
};

/* Serve one supervisor, and those that come after it, until released. `link` is ours from now on. With a `lock` each has to
   prove that it holds it, this one first. `lets_any_in`: peers of our own PID namespace may come, too. */
noreturn void run_container_shim(int link, bool lets_any_in, int lock);

/* Empty the file and write its first line, "starting". Returns 0 or an errno. */
int begin_record(struct record *record);

/* Add a line behind those that wait, and try to write all. */
void add_record(struct record *record, const char *line);

/* Try to write what waits. False: the disk is still full, try again. */
bool flush_record(struct record *record);

/* Start the child of `spawn`: it waits for `go`. */
void start_command(struct container_shim *shim, struct packet *packet, const char *letters);

/* Let the child execute. `line` is what the supervisor wants in the record. */
void let_execute(struct container_shim *shim, const char *line);

/* The child reported that it cannot execute, or executed, or died before. */
void hear_child_start(struct container_shim *shim);

/* Record the command's end, then reap it; reap all other children, a bounded number. */
void reap_ended(struct container_shim *shim);

/* Open a pseudoterminal for the command: `rest` says its rows and columns. Its slave's side has a name in the container. */
void make_terminal(struct container_shim *shim, const char *rest);

/* A peer connects to where new supervisors are expected. `is_hung_up`: the listener itself is over. */
void meet_peer(struct container_shim *shim, bool is_hung_up);

/* A peer that was asked for a proof has answered. */
void hear_asked(struct container_shim *shim, int index);

/* Ask, and wait for the answer; `wake` ends that. */
bool proves_itself(int link, int lock, int wake);

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

/* Send a signal to every process below us once, parents first.

   This process is a subreaper, so everything its command ever started is below it, daemons included. A pid is signalled
   through a pidfd after its parent was looked at, so a reused pid is never hit. */
void signal_tree(int number);

#endif
