"""Run by a process of the same user: tries to look into others. Standard library only; arguments are pids."""

import ctypes
import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

_ATTACH, _DETACH, _WALL = 16, 17, 0x40000000


def _attach(pid: int) -> None:
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    if ptrace(_ATTACH, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    os.waitpid(pid, _WALL)
    ptrace(_DETACH, pid, None, None)


def _read_memory(pid: int) -> None:
    start = int(Path(f"/proc/{pid}/maps").read_text().partition("-")[0], 16)
    with open(f"/proc/{pid}/mem", "rb") as file:
        file.seek(start)
        file.read(1)


def _follow(pid: int, what: str) -> None:
    os.readlink(f"/proc/{pid}/{what}")


def _take_descriptor(pid: int) -> None:
    pidfd = os.pidfd_open(pid)
    if ctypes.CDLL(None, use_errno=True).syscall(438, pidfd, 2, 0) < 0:  # pidfd_getfd(2)
        raise OSError(ctypes.get_errno(), "pidfd_getfd")


_ATTEMPTS: dict[str, Callable[[int], object]] = {
    "environ": lambda pid: Path(f"/proc/{pid}/environ").read_bytes(),
    "memory": _read_memory,
    "descriptor": lambda pid: _follow(pid, "fd/2"),
    "root": lambda pid: _follow(pid, "root"),
    "cwd": lambda pid: _follow(pid, "cwd"),
    "exe": lambda pid: _follow(pid, "exe"),
    "ptrace": _attach,
    "take": _take_descriptor,
}


def main() -> None:
    """Try each on each."""
    found: dict[str, dict[str, str]] = {}
    for word in sys.argv[1:]:
        tried = found[word] = {}
        for name, attempt in _ATTEMPTS.items():
            try:
                attempt(int(word))
                tried[name] = "ok"
            except OSError as error:
                tried[name] = errno.errorcode[error.errno or 0]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
