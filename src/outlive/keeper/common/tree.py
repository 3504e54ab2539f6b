"""The process tree of a command: who belongs to it, and signals to all of it, to a fixpoint.

A shim is a subreaper, so everything its command ever started is below it, daemons included. A pid is only
signalled through a pidfd after its ancestry was checked again, so a reused pid is never hit.
"""

import contextlib
import os
import signal
import time

from outlive.keeper.common.kernel import stat_fields

_MAX_ROUNDS = 64
_EAGER_ROUNDS = 8
_ROUND_S = 0.0005
_DEAD = frozenset({b"Z", b"X"})
_STOPPED = _DEAD | {b"T", b"t"}


def descendants(roots: list[int]) -> list[int]:
    """Return the pids below `roots`, parents first, zombies included; roots themselves are not listed.

    Reads /proc/PID/task/TID/children, which may miss a child while the tree changes: callers repeat.
    """
    found: list[int] = []
    seen = set(roots)
    pending = list(roots)
    while pending:
        for child in children(pending.pop()):
            if child not in seen:
                seen.add(child)
                found.append(child)
                pending.append(child)
    return found


def is_dead(pid: int) -> bool:
    """Tell whether a process is gone or a zombie."""
    fields = stat_fields(pid)
    return not fields or fields[0] in _DEAD


def children(pid: int) -> list[int]:
    """Return the children of all threads of `pid`."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        with contextlib.suppress(OSError):
            fd = os.open(f"/proc/{pid}/task/{thread}/children", os.O_RDONLY | os.O_CLOEXEC)
            try:
                while chunk := os.read(fd, 65536):
                    found += map(int, chunk.split())
            finally:
                os.close(fd)
    return found


def signal_one(pid: int, parents: set[int], number: int) -> bool:
    """Signal `pid` if its parent is still one of `parents`; returns whether it was alive and got the signal."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        fields = stat_fields(pid)
        if not fields or fields[0] in _DEAD or int(fields[1]) not in parents:
            return False
        signal.pidfd_send_signal(pidfd, number)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


def send_all(roots: list[int], numbers: list[int], *, extra: list[int] = []) -> int:  # noqa: B006 - never changed
    """Send the signals to every process below `roots` once; returns how many live ones were reached.

    `extra` are members themselves (an orphaned command whose parent is not a root).
    """
    reached = 0
    members = [*extra, *descendants(roots + extra)]
    parents = {*roots, *members}
    for pid in members:
        allowed = parents | {int(fields[1])} if pid in extra and (fields := stat_fields(pid)) else parents
        results = [signal_one(pid, allowed, number) for number in numbers]
        reached += all(results)
    return reached


def freeze(roots: list[int], *, extra: list[int] = []) -> bool:  # noqa: B006 - never changed
    """Stop (SIGSTOP) the tree to a fixpoint: until a walk finds nobody running. False if it never settles."""
    quiet = 0
    for tried in range(_MAX_ROUNDS):
        members = [*extra, *descendants(roots + extra)]
        if not any(_may_run(pid) for pid in members):
            quiet += 1
            if quiet == 2:  # one walk can miss a child that is being born
                return True
            continue
        quiet = 0
        if tried > _EAGER_ROUNDS:  # on a busy machine they need a moment to take the signal
            time.sleep(_ROUND_S)
        send_all(roots, [signal.SIGSTOP], extra=extra)
    return False


def _may_run(pid: int) -> bool:
    """Tell whether a process may still execute its own code after it was sent SIGSTOP.

    A parent in vfork(2) waits uninterruptibly (D) until its child executes or ends: when the child was stopped
    first, the parent keeps its signal pending and never shows T, but it does not run, either.
    """
    fields = stat_fields(pid)
    if not fields or fields[0] in _STOPPED:
        return False
    return fields[0] != b"D" or not _has_pending_stop(pid)


def _has_pending_stop(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            pending = [line for line in file if line.startswith((b"SigPnd:", b"ShdPnd:"))]
    except OSError:
        return True  # gone
    return any(int(line.split()[1], 16) & 1 << (signal.SIGSTOP - 1) for line in pending)


def carriers_of(marker: bytes) -> list[int]:
    """Return the pids whose initial environment holds `marker` (NAME=value); only for processes without a shim."""
    carriers = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            fd = os.open(f"/proc/{name}/environ", os.O_RDONLY | os.O_CLOEXEC)
            try:
                raw = os.read(fd, 1 << 18)
            finally:
                os.close(fd)
            if marker in raw.split(b"\0"):
                carriers.append(int(name))
    return carriers
