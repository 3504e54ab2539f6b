"""The supervisor's second lock, whose holder the kernel names: a record lock of the classic kind (fcntl(2) F_SETLK).

The pid in a lock file can be written by every process of our user. The pid of a record lock cannot: `F_GETLK` returns it from
the kernel's own table. Such a lock belongs to one process; no fork and no copy of the descriptor has it.

It lies on a file of its own, which holds nothing: a process loses its record locks on a file when it closes any descriptor of that
file. So the supervisor opens the file before it takes the lock, and never again.
"""

import fcntl
import os
import struct

_FLOCK = struct.Struct("hhqqi")
_WHOLE_FILE = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_GET, _SET, _FREE = fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_UNLCK


def open_pid_lock(path: str) -> int:
    """Return a descriptor of the lock's file, to take the lock or to ask about it; the file is made if need be.

    Raises:
        OSError: It cannot be opened.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def take_pid_lock(lock: int) -> bool:
    """Take the lock until this process ends or closes any descriptor of the file; False when another process holds it.

    Raises:
        OSError: The file system has no locks (ENOLCK).
    """
    try:
        fcntl.fcntl(lock, _SET, _WHOLE_FILE)
    except (BlockingIOError, PermissionError):
        return False
    return True


def pid_of_holder(lock: int) -> int:
    """Return the pid of the process that holds the lock: 0 when none does, -1 for one that the kernel does not name."""
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(lock, _GET, _WHOLE_FILE))
    return 0 if kind == _FREE else pid or -1
