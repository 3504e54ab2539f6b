/* The shim of one command in a container: parent and subreaper of the command's tree, holder of its descriptors, writer of
   its record. No data passes through it.

   It is to a command in a container what shim/shim_loop.h is to one of this machine. The protocol (the
   letters and words are the same for all versions): words separated by spaces, one packet each; a new supervisor connects to
   the socket that the shim was given:

     to the shim      terminal ROWS COLS     before `spawn`: open a pseudoterminal for the command
                      spawn LETTERS FOLDER   descriptors in the order of the letters; FOLDER is not used
                      go LINE                execute; LINE goes to the record and begins with PID TICKS NS (as outside)
                      close LETTERS | release | quit
     from the shim    prove OFFSET           first of all, where it knows the supervisor's lock (lock_challenge.h)
                      hello PID              then, or at once
                      born LETTERS           after `spawn`: p the child's pidfd, m the terminal's master
                      spawned PID TICKS NS | failed ERRNO PLACE
                      exited KIND NUMBER EMPTY NS, then `empty`
                      state own LETTERS PID TICKS KIND NUMBER EMPTY NS   to a new supervisor, with descriptors

   Letters: L listener; o e read ends of stdout and stderr; i write end of stdin; r w the relay; m pty master; p pidfd;
   P the record; the command's own: I O E its streams; S secrets; X spec; F script. */
#ifndef OUTLIVE_RUNNER_CONTAINER_SHIM_LOOP_H
#define OUTLIVE_RUNNER_CONTAINER_SHIM_LOOP_H

#include <stdbool.h>
#include <stdnoreturn.h>

/* Serve one supervisor, and those that come after it, until released. `link` is ours from now on. With a `lock` each has to
   prove that it holds it, this one first. `lets_any_in`: peers of our own PID namespace may come, too. */
noreturn void run_container_shim(int link, bool lets_any_in, int lock);

#endif
