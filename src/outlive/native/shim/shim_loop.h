/* The shim: the small process beside each command of this machine, parent and subreaper of its tree, holder of its
   descriptors (decision 126).

   No data goes through it. It spawns the command, keeps duplicates of the keeper's ends of the pipes, records the
   command's start and end in `pid`, reaps the tree, and hands everything to the supervisor that connects to the folder's
   socket: to the process that holds the supervisor's lock, and to no other. It decides nothing about the command.

   A packet is words separated by spaces, paths last:

     to the shim     spawn LETTERS FOLDER   descriptors in the order of the letters; see below
                     hold LETTERS FOLDER    only hold them (the command's own shim died)
                     keep LETTERS           hold these, too, beside what is held
                     close LETTERS          close these: i the write end of stdin; o, e when no reader is left
                     release [patient]      let go of everything; `spawn` or `hold` may follow at once; patient: until the
                                            next release it wakes without interrupting other processes
                     quit
     from the shim   hello PID              once, when it has begun
                     spawned PID TICKS NS   | failed ERRNO PLACE
                     kept LETTERS           after `keep`
                     exited KIND NUMBER EMPTY NS
                     empty                  no descendant is left
                     state own|hold LETTERS PID TICKS KIND NUMBER EMPTY NS   to a new supervisor, with descriptors

   Letters: L listener; o e read ends of stdout and stderr; i write end of stdin; m pty master; r w the relay
   (keeper/supervisor/output/pump.py); p pidfd. In upper case the command's own ends: I O E stdin, stdout, stderr; T the
   terminal's slave side; S a file in memory with those variables of its environment that no file on disk may hold; D a
   socket with its descriptors above 2: a packet for each, which carries it, and whose words are its number.

   PLACE is spec, pid, cwd, program, or sandbox:VERB, a step of the sandbox (confine.h). */
#ifndef OUTLIVE_SHIM_SHIM_LOOP_H
#define OUTLIVE_SHIM_SHIM_LOOP_H

#include <stdbool.h>

/* Serve the supervisors of a state folder until there is nothing left to hold and none of them. Returns the program's exit
   code. `is_lock_handed`: the record lock's file is open as the standard input. */
int run_shim(const char *state_folder, bool is_lock_handed);

/* Start the command of the spec that is the standard input, as a shim does, and wait for it: so it is found out what a
   machine offers. Its output is ours. Returns its exit code, or 125 after "failed ERRNO PLACE" on the standard error. */
int try_command(void);

#endif
