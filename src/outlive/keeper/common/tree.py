"""The process tree of a command: which processes belong to it, and signals to all of them, repeated to a
fixpoint.

A shim is a subreaper, so everything that its command ever started is below it, daemons included. A pid is
signalled only through a pidfd, and only after its ancestry was checked again with the pidfd open: a reused
pid is never hit.

When a tree is stopped, paused or resumed is decided by `supervisor.endings`, not here.
"""

import os
import signal
import time

from outlive.kernel.processes import DEAD, STOPPED, descendants, has_in_mask, stat_fields

_MAX_ROUNDS = 64  # walks: a tree that still forks after so many is one that forks as fast as it is stopped
_EAGER_ROUNDS = 8  # the first walks, without a rest in between
_ROUND_S = 0.0005  # of rest between the later ones


def signal_one(pid: int, parents: set[int], number: int) -> bool:
    """Signal `pid` if its parent is still one of `parents`.

    Return whether it was alive and got the signal.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # With the pidfd open the pid cannot be reused unnoticed: what /proc says now is about the process to
        # be signalled.
        fields = stat_fields(pid)
        if not fields or fields[0] in DEAD or int(fields[1]) not in parents:
            return False
        signal.pidfd_send_signal(pidfd, number)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


def send_all(roots: list[int], numbers: list[int], *, extra: list[int] = []) -> int:  # noqa: B006 - never changed
    """Send the signals to every process below `roots` once; return how many there are, zombies included.

    `extra` are members themselves (an orphaned command whose parent is not a root).
    """
    members = [*extra, *descendants(roots + extra)]
    parents = {*roots, *members}
    for pid in members:
        # The parent of an orphan is not in the tree: whichever process has adopted it is accepted.
        allowed = parents | {int(fields[1])} if pid in extra and (fields := stat_fields(pid)) else parents
        for number in numbers:
            signal_one(pid, allowed, number)
    return len(members)


def freeze(roots: list[int], *, extra: list[int] = []) -> bool:  # noqa: B006 - never changed
    """Stop (SIGSTOP) the tree to a fixpoint: until a walk finds no running process.

    False if it never settles.
    """
    quiet = 0
    for tried in range(_MAX_ROUNDS):
        members = [*extra, *descendants(roots + extra)]
        if not any(_may_run(pid) for pid in members):
            quiet += 1
            if quiet == 2:  # a single walk can miss a child that is just being forked
                return True
            continue
        quiet = 0
        if tried > _EAGER_ROUNDS:  # on a busy machine processes need a moment to take the signal
            time.sleep(_ROUND_S)
        send_all(roots, [signal.SIGSTOP], extra=extra)
    return False


def _may_run(pid: int) -> bool:
    """Return whether a process may still execute its own code after SIGSTOP was sent to it.

    A parent in vfork(2) waits uninterruptibly (state D) until its child executes or ends. If the child was
    stopped first, the parent's SIGSTOP stays pending and the parent never shows state T, but it does not run
    either.
    """
    fields = stat_fields(pid)
    if not fields or fields[0] in DEAD | STOPPED:
        return False
    pending = (has_in_mask(pid, name, signal.SIGSTOP) for name in (b"SigPnd", b"ShdPnd"))
    return fields[0] != b"D" or not any(pending)
