"""Exclusive locks on the state folder: one supervisor, one guardian, each with its pid inside the lock file.

Open file description locks (fcntl(2) F_OFD_SETLK): unlike flock they can be asked about without being taken, so
looking never makes somebody else's attempt fail.
"""

import fcntl
import os
import struct

__all__ = ["holder_of", "take_lock"]

_FLOCK = struct.Struct("hhqqi")


def _whole_file(kind: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0)


def take_lock(path: str) -> int | None:
    """Lock `path` and write our pid into it; returns the descriptor to keep, None when another holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_WRLCK))
    except (BlockingIOError, PermissionError):
        os.close(fd)
        return None
    os.pwrite(fd, b"%-10d\n" % os.getpid(), 0)  # in place: a full disk must not keep anybody from taking over
    return fd


def holder_of(path: str) -> int | None:
    """Return the pid of the process that holds the lock (0 before it wrote its pid), None when nobody does."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK))
        if _FLOCK.unpack(answer)[0] == fcntl.F_UNLCK:
            return None
        text = os.pread(fd, 32, 0).strip()
    finally:
        os.close(fd)
    return int(text) if text.isdigit() else 0
