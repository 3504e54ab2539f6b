"""Ends what a run of the tests has left behind once its pytest is gone, however that went: a process of its
own.

Run as `python run_watcher.py MARK PID` by `tests.support.run_mark`, with a pipe as stdin: a line for each
folder that is the run's own (`remove FOLDER`, or `keep FOLDER` where pytest takes care of it unless it is
killed), and "done" when pytest has come to its end. Of the run is what carries the mark in its environment,
and what descends from that: commands are started with environments of their own, but below shims. A keeper's
environment is closed to an ordinary user: its state folder is one of its arguments, and lies in the run's.
Nothing is chosen by name. Standard library only.
"""

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Sequence

VARIABLE = "TEST_RUN_OF_OUTLIVE"

_QUIET_LOOKS = 3  # without a find: who was just being born is seen by the next one
_LOOK_S = 0.1
_MOST_S = 120.0
_ENVIRONMENT_BYTES = 1 << 20


def carries(pid: int, mark: bytes, folders: Sequence[str] = ()) -> bool:
    """Tell whether a process was started with the mark (proc_pid_environ(5)); one whose environment is closed
    to us, whether an argument of it lies in one of the folders.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read(_ENVIRONMENT_BYTES).split(b"\0")
    except PermissionError:
        inside = tuple(os.fsencode(folder) + b"/" for folder in folders)
        return any(word.startswith(inside) for word in _arguments(pid)) if inside else False
    except OSError:
        return False  # gone
    name = VARIABLE.encode() + b"="
    return any(one.startswith(name) and mark in one[len(name) :].split(b":") for one in entries)


def _arguments(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read(_ENVIRONMENT_BYTES).split(b"\0")
    except OSError:
        return []


def members(mark: bytes, folders: Sequence[str] = ()) -> dict[int, int]:
    """Return pid -> start time of all that live of a run, but this process."""
    parents: dict[int, int] = {}
    begun: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _stat(int(name))) and fields[0] not in {b"Z", b"X"}:
            parents[int(name)], begun[int(name)] = int(fields[1]), int(fields[19])
    found = {pid for pid in parents if pid != os.getpid() and carries(pid, mark, folders)}
    while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return {pid: begun[pid] for pid in found if pid != os.getpid()}


def _stat(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _send(found: dict[int, int], number: int) -> None:
    """Signal processes that are still the ones that were found."""
    for pid, begun in found.items():
        with contextlib.suppress(OSError):
            pidfd = os.pidfd_open(pid)
            try:
                fields = _stat(pid)
                if fields and int(fields[19]) == begun:
                    signal.pidfd_send_signal(pidfd, number)
            finally:
                os.close(pidfd)


def end_all(mark: bytes, folders: Sequence[str]) -> None:
    """Stop the run's processes, so that none starts another, then kill them.

    Until nobody is found any more.
    """
    until = time.monotonic() + _MOST_S
    quiet = 0
    while quiet < _QUIET_LOOKS and time.monotonic() < until:
        found: dict[int, int] = {}
        while (
            (now := members(mark, folders)) and not now.items() <= found.items() and time.monotonic() < until
        ):
            found |= now
            _send(now, signal.SIGSTOP)  # parents too: whoever is looked for by its parent stays below it
        _send(found, signal.SIGKILL)
        quiet = 0 if found else quiet + 1
        time.sleep(_LOOK_S)


def main() -> None:
    """Wait for the end of pytest, then see that nothing of its run is left."""
    mark, pid = sys.argv[1].encode(), int(sys.argv[2])
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # Ctrl-C is for pytest
    with contextlib.suppress(ProcessLookupError):
        pidfd = os.pidfd_open(pid)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.poll()
    os.set_blocking(0, False)
    said = b""
    with contextlib.suppress(BlockingIOError):  # a fork of pytest may hold the other end
        while piece := os.read(0, 1 << 16):
            said += piece
    lines = said.decode().splitlines()
    end_all(mark, [folder for line in lines if (folder := line.partition(" ")[2])])
    for line in lines:
        verb, _, folder = line.partition(" ")
        if verb == "remove" or (verb == "keep" and "done" not in lines):
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
