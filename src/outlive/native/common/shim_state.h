/* What both kinds of shim have, that of this machine's commands (shim/) and that of commands in containers (runner/): the
   link to a supervisor, the descriptors that are held for it, and what is known of the command. */
#ifndef OUTLIVE_COMMON_SHIM_STATE_H
#define OUTLIVE_COMMON_SHIM_STATE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "packets.h"

enum {
    MOST_HELD = 12, /* there are seven letters */
    LINE_BYTES = 512,
};

enum ending { RUNS, HAS_EXITED, WAS_SIGNALED, HAS_FAILED };

/* What is known about a peer that may be the supervisor. Two ways lead to the answer: a shim of this machine looks at the
   peer's process, the shim of a container's command, which sees no process outside, puts a challenge to the peer. */
enum proof {
    NO_HOLDER,
    IS_HOLDER,
    CANNOT_TELL, /* out of descriptors or memory, or it has not answered, and nothing else speaks against it: ask again */
};

struct shim_state {
    int link;     /* to the supervisor, -1 without one */
    int wake;     /* signalfd(2) */
    int listener; /* where the next supervisor connects, -1 without one */
    int lock;     /* the supervisor's, to find out which process holds it; -1: there is none */
    bool is_listener_resting; /* out of descriptors: no new supervisor for a moment */

    char letters[MOST_HELD]; /* of what is held, in the order it came; ends with NUL */
    int held[MOST_HELD];
    int held_count;

    pid_t child; /* the command, 0: there is none, or it was reaped */
    unsigned long long pid, ticks; /* as the supervisor numbers it, 0 before it runs */
    enum ending ending;
    int number; /* exit code, signal, or errno */
    int64_t ended_ns;
    bool is_empty;
};

/* Block all signals, and have SIGCHLD read from a signalfd(2), SIGTERM too if it is wanted. Returns it, or -1. */
int open_wake(bool has_term);

/* Report something to the supervisor, if there is one that listens. */
void report(const struct shim_state *state, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Receive a packet of the supervisor, and split its verb off. Returns what stands behind the verb, NULL without a packet: it
   may have hung up, then the link is closed. */
char *hear_supervisor(struct shim_state *state, struct packet *packet);

/* Take the next connection of a peer that may be the supervisor. Returns -1 when there is none. `is_hung_up`: the listener
   itself is over. */
int accept_peer(struct shim_state *state, bool is_hung_up);

/* Make a link the supervisor's, in the place of an earlier one: what comes by it, and its end, continues us where a command
   has stopped us. */
void take_link(struct shim_state *state, int link);

/* Send everything that is held, and what is known of the command, to a new supervisor. */
void send_state(const struct shim_state *state, bool is_own);

/* Tell whether each descriptor of a packet has one letter of those that are held or the command's own, or L, a listener. */
bool are_letters_good(const struct packet *packet, const char *letters, size_t count, const char *held, const char *own);

/* Move the descriptors of a packet to their places: `ends` has one for each of the letters `own`. */
void place_descriptors(struct shim_state *state, struct packet *packet, const char *letters, size_t count, const char *own,
                       int *ends);

/* Hold a descriptor under a letter. */
void hold(struct shim_state *state, char letter, int fd);

/* Return what is held under a letter, -1 if nothing. */
int held_under(const struct shim_state *state, char letter);

/* Close what is held under these letters; NULL: all. */
void close_held(struct shim_state *state, const char *letters);

/* Note that the command never ran, and write the line for its record. */
void note_failure(struct shim_state *state, int number, const char *place, char line[LINE_BYTES]);

/* Write the line about the command's end for its record. */
void write_end(char line[LINE_BYTES], const siginfo_t *info, int64_t ended_ns, const char *note);

/* The command's end is in its record: note it, reap the command, and report it. */
void report_end(struct shim_state *state, const siginfo_t *info, int64_t ended_ns);

/* No descendant is left: report it if the command itself has ended before. Returns whether that is new. */
bool become_empty(struct shim_state *state);

#endif
