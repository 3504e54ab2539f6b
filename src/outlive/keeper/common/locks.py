"""Exclusive locks on the state folder: one supervisor, one guardian, each with its pid inside the lock file.

The locks are open file description locks (fcntl(2) F_OFD_SETLK): unlike flock they can be asked about without being taken,
so asking never makes another process's attempt fail.

The first line of a lock file is the holder's pid. Behind it the file holds the pid once more, with the start time: a pid is
reused, the two together are not. They are where versions that know only the first line do not look. If such a version
takes the lock it leaves them unchanged, and then their pid differs from the first line's. A process that must know the
holder for certain must not believe the file, which every process of our user can write; it asks `common.lock_proof`.

A supervisor that leaves for good marks its lock as retired. What was being started meanwhile must not go on then: a guardian
that has no lock yet, a supervisor that waits for this one. Only a launch by a client removes the mark. The mark also says
whether the next keeper is about to be launched (`retired`) or not (`ended`).
"""

import fcntl
import os
import struct

_RETIRED = b"retired   \n"  # both marks are as long as a pid's line, so that they replace it whole
_ENDED = b"ended     \n"
_FLOCK = struct.Struct("hhqqi")  # struct flock of fcntl(2): kind, whence, start, length, pid
_FIRST_BYTES, _LINE_BYTES = 32, 64  # what every version reads as a pid; the whole content


def _whole_file(kind: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0)


def take_lock(path: str, *, unless_retired: bool = False) -> int | None:
    """Lock `path` and write our pid into it; return the descriptor, which keeps the lock, or None when another holds it.

    With `unless_retired` also return None when the last holder left for good.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_WRLCK))
    except (BlockingIOError, PermissionError):
        os.close(fd)
        return None
    if unless_retired and _held_mark(fd):
        os.close(fd)
        return None
    # Imported here because it loads ctypes, and most commands of the command line take no lock.
    from outlive.keeper.common.kernel import start_ticks  # noqa: PLC0415 - as above

    pid = os.getpid()
    line = (b"%-10d\n" % pid).ljust(_FIRST_BYTES) + b"%d %d\n" % (pid, start_ticks(pid))
    os.pwrite(fd, line.ljust(_LINE_BYTES), 0)  # in place: a full disk must not prevent a takeover
    return fd


def is_in_place(lock: int, path: str) -> bool:
    """Return whether `path` still names the locked file; it does not after the state folder was deleted or moved.

    Then nothing below `path` is ours, not even what is there: it may belong to a new keeper (decision 61).
    """
    held = os.fstat(lock)
    try:
        found = os.stat(path)
    except OSError:
        return False
    return (found.st_ino, found.st_dev) == (held.st_ino, held.st_dev)


def holder_of(path: str) -> int | None:
    """Return the pid of the process that holds the lock (0 before it wrote its pid), None when no process does."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # also on a read-only file system
    except FileNotFoundError:
        return None
    try:
        holder = holder_behind(fd)
    finally:
        os.close(fd)
    return None if holder is None else holder[0]


def holder_behind(fd: int) -> tuple[int, int] | None:
    """Return pid and start ticks of the process that holds the lock of an open file, None when none does.

    The pid is 0 before the holder wrote it, or once it retired; the ticks are 0 where an older version holds the lock.
    """
    answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK))
    if _FLOCK.unpack(answer)[0] == fcntl.F_UNLCK:
        return None
    line = os.pread(fd, _LINE_BYTES, 0)
    pid = line[:_FIRST_BYTES].strip()
    again, _, ticks = line[_FIRST_BYTES:].strip().partition(b" ")
    # A different pid in the second half was left there by an earlier holder: its start time is not this holder's.
    return int(pid) if pid.isdigit() else 0, int(ticks) if again == pid and ticks.isdigit() else 0


def retire_lock(path: str, *, is_end: bool = False) -> None:
    """Mark a lock that the caller holds: the caller leaves for good, and only a launch by a client may replace it.

    With `is_end` no launch is expected either: there is nothing to keep.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(fd, _ENDED if is_end else _RETIRED, 0)
    finally:
        os.close(fd)


def is_retired(path: str) -> bool:
    """Return whether the last holder left for good."""
    return _mark_of(path) is not None


def has_ended(path: str) -> bool:
    """Return whether the last holder left because there was nothing to keep, or because the keeper was stopped."""
    return _mark_of(path) == _ENDED


def forget_retirement(path: str) -> None:
    """Remove the mark, so that the lock can be taken again; do nothing while a process holds it."""
    fd = take_lock(path) if is_retired(path) else None  # taking it overwrites the mark with a pid
    if fd is not None:
        os.close(fd)


def _mark_of(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return _held_mark(fd)
    finally:
        os.close(fd)


def _held_mark(fd: int) -> bytes | None:
    mark = os.pread(fd, len(_RETIRED), 0)
    return mark if mark in {_RETIRED, _ENDED} else None
