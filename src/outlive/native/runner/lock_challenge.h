/* Whether a peer holds the supervisor's lock, where the kernel cannot say which process it is: in another PID
   namespace every process outside is number 0.

   It is asked for what the lock's holder alone can do: to let go, for a moment, of one byte of the lock that we have chosen
   (fcntl(2), F_OFD_SETLK). Whether it did is read from the lock itself, by a read-only descriptor (decision 151).

     to the peer     prove OFFSET
     from the peer   proved             the byte is free now; the answer to that is what it came for, or the end */
#ifndef OUTLIVE_RUNNER_LOCK_CHALLENGE_H
#define OUTLIVE_RUNNER_LOCK_CHALLENGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "../common/shim_state.h"

/* A peer that was asked, and the byte that it is to free; `link` is -1 where there is none. */
struct question {
    int link;
    off_t at;
    int64_t asked_at; /* monotonic milliseconds */
};

/* Ask a peer. False: it receives nothing. The question shows a server that we live: more is not revealed without proof. */
bool ask(struct question *question, int link);

/* Return what its next packet proves; CANNOT_TELL as long as none comes. `lock` is a descriptor of our own: through the
   holder's own open file the lock is not seen. */
enum proof hear_answer(const struct question *question, int lock);

/* Ask, and wait for the answer; `wake` ends that. */
bool proves_itself(int link, int lock, int wake);

#endif
