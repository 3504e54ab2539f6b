/* What is known about a peer that may be the supervisor.

   Two ways lead to the answer: a shim of this machine looks at the peer's process (shim/lock_proof.h), the shim of a
   container's command, which sees no process outside, puts a challenge to the peer (runner/lock_challenge.h). */
#ifndef OUTLIVE_COMMON_PROOF_H
#define OUTLIVE_COMMON_PROOF_H

enum proof {
    NO_HOLDER,
    IS_HOLDER,
    CANNOT_TELL, /* out of descriptors or memory, and nothing else speaks against it: ask again */
};

#endif
