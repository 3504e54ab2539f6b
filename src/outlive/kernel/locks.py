"""Exclusive locks on the state folder: one supervisor, one guardian, each with its pid inside the lock file.

The locks are open file description locks (fcntl(2) F_OFD_SETLK): unlike flock they can be asked about without
being taken, so asking never makes another process's attempt fail.

A lock file holds the holder's pid and, in its second line, its start time: a pid is reused, the two together
are not. A process that must know the holder for certain must not believe the file, which every process of our
user can write; it asks `kernel.lock_proof`.

A supervisor that leaves for good marks its lock as retired. What was being started meanwhile must not go on
then: a guardian that has no lock yet, a supervisor that waits for this one. Only a launch by a client removes
the mark. The mark also says whether the next keeper is about to be launched (`retired`) or not (`ended`).

A supervisor that cannot start leaves the reason in its lock (`failed`), for the programs that wait for it.
"""

import fcntl
import os
import struct

from outlive.kernel.processes import start_ticks

_RETIRED = b"retired   \n"  # both marks are as long as a pid's line, so that they replace it whole
_ENDED = b"ended     \n"
_FAILED = b"failed    \n"
_FLOCK = struct.Struct("hhqqi")  # struct flock of fcntl(2): kind, whence, start, length, pid
_BYTES = 512  # the whole content, as long as what it replaces


def _whole_file(kind: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0)


def take_lock(path: str, *, unless_retired: bool = False) -> int | None:
    """Lock `path` and write our pid into it.

    Return the descriptor, which keeps the lock, or None when another holds it.

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
    pid = os.getpid()
    lines = b"%-10d\n%d\n" % (pid, start_ticks(pid))
    os.pwrite(fd, lines.ljust(_BYTES), 0)  # in place: a full disk must not prevent a takeover
    return fd


def is_in_place(lock: int, path: str) -> bool:
    """Return whether `path` still names the locked file.

    It does not after the state folder was deleted or moved.

    Then nothing below `path` is ours, not even what is there: it may belong to a new keeper (decision 61).
    """
    held = os.fstat(lock)
    try:
        found = os.stat(path)
    except OSError:
        return False
    return (found.st_ino, found.st_dev) == (held.st_ino, held.st_dev)


def holder_of(path: str) -> int | None:
    """Return the pid of the process that holds the lock (0 before it wrote its pid), None when no process
    does.
    """
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

    Both are 0 before the holder wrote them, or once it retired.
    """
    answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK))
    if _FLOCK.unpack(answer)[0] == fcntl.F_UNLCK:
        return None
    pid, _, ticks = (part.strip() for part in os.pread(fd, _BYTES, 0).partition(b"\n"))
    return (int(pid), int(ticks)) if pid.isdigit() and ticks.isdigit() else (0, 0)


def retire_lock(path: str, *, is_end: bool = False) -> None:
    """Mark a lock that the caller holds: the caller leaves for good, and only a launch by a client may
    replace it.

    With `is_end` no launch is expected either: there is nothing to keep.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(fd, _ENDED if is_end else _RETIRED, 0)
    finally:
        os.close(fd)


def note_failure(lock: int, why: str) -> None:
    """Leave in a lock that the caller holds why it cannot serve, until the next one takes it."""
    text = f"{os.getpid()} {why}".encode(errors="replace")[: _BYTES - len(_FAILED) - 1]
    os.pwrite(lock, (_FAILED + text + b"\n").ljust(_BYTES), 0)


def failure_of(path: str) -> tuple[str, str] | None:
    """Return which process could not serve, and why; None while one holds the lock, or where none failed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        content = os.pread(fd, _BYTES, 0) if holder_behind(fd) is None else b""
    finally:
        os.close(fd)
    if not content.startswith(_FAILED):
        return None
    pid, _, why = content[len(_FAILED) :].partition(b"\n")[0].decode(errors="replace").partition(" ")
    return pid, why


def is_retired(path: str) -> bool:
    """Return whether the last holder left for good."""
    return _mark_of(path) is not None


def has_ended(path: str) -> bool:
    """Return whether the last holder left because there was nothing to keep, or because the keeper was
    stopped.
    """
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
