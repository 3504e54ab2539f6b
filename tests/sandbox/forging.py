"""What a command that may write in the state folder makes of the supervisor's locks.

Standard library only, also run inside of a sandbox.
"""

import contextlib
import ctypes
import fcntl
import os
import struct

_WHOLE_FILE = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_WAYS = {"supervisor.lock": fcntl.F_OFD_SETLK, "supervisor.pid": fcntl.F_SETLK}
_ASIDE = ".aside"
_PR_SET_NO_NEW_PRIVS = 38
_held: list[int] = []  # as long as this process lives


def bind_ourselves() -> None:
    """Be as a `guarded` command is: never gain a privilege again (prctl(2))."""
    assert ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0


def forge(state: str, *, replaces: bool) -> list[str]:
    """Write ourselves into the lock files as the supervisor does, and lock them if no other process has.

    Returns what was locked.

    With `replaces` new files in the place of the supervisor's, which `restore` undoes.
    """
    pid = os.getpid()
    with open("/proc/self/stat", "rb") as file:
        ticks = int(file.read().rpartition(b")")[2].split()[19])
    line = (b"%-10d\n" % pid).ljust(32) + b"%d %d\n" % (pid, ticks)
    locked = []
    for name, way in _WAYS.items():
        path = f"{state}/{name}"
        try:
            if replaces:
                os.rename(path, path + _ASIDE)
            # Closed never: a record lock goes with any descriptor of its file.
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:  # the profile allows no such thing
            continue
        _held.append(fd)
        os.pwrite(fd, line.ljust(64), 0)
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, way, _WHOLE_FILE)
            locked.append(name)
    return locked


def restore(state: str) -> None:
    """Put back what was replaced."""
    for name in _WAYS:
        with contextlib.suppress(OSError):
            os.rename(f"{state}/{name}{_ASIDE}", f"{state}/{name}")
