"""The ids of processes that were removed: `RemovedIds`.

A start that is repeated under one of them runs nothing a second time.

A client that has lost the answer to a start asks again under the same id, and so does the server whose node
this one is. Where the process has ended and was removed meanwhile, nothing else would show that it has run.
"""

import contextlib
import os
import threading

from outlive.core.errors import InvalidState
from outlive.core.identity import is_process_id
from outlive.kernel.files import read_all, write_whole

# Three times what retention keeps unless told otherwise: so many more are to end and be removed while one
# answer is waited for. Some 150 bytes of memory each, and 28 on disk.
_MOST = 32_768
_PRIVATE = 0o600


class RemovedIds:
    """The newest of them, in memory and in a file, an id a line.

    Any thread may call it; `open` and `add` block.

    A full disk keeps no process from being removed: what the file does not take is known to this server only.
    No kill loses a line; a machine that loses power may lose the newest.
    """

    def __init__(self, path: str, *, most: int = _MOST) -> None:
        self._path = path
        self._most = most
        self._ids: dict[str, None] = {}  # in the order in which they were removed
        self._lines = 0
        self._lock = threading.Lock()

    def open(self) -> None:
        """Read what earlier servers have added; a torn line is no id."""
        with self._lock:
            words = read_all(self._path).decode("ascii", "replace").split()
            found = [line for line in words if is_process_id(line)]
            self._ids = {**dict.fromkeys(found), **self._ids}
            self._lines = len(found)
            self._forget_oldest()

    def add(self, process_id: str) -> None:
        """Add an id before its process is removed; the oldest one is forgotten for it. Safe to repeat."""
        with self._lock:
            if process_id in self._ids:
                return
            self._ids[process_id] = None
            self._forget_oldest()
            with contextlib.suppress(OSError):
                if self._lines < 2 * self._most:
                    self._append(process_id)
                else:
                    self._rewrite()

    def check(self, process_id: str) -> None:
        """Do nothing for an id that may name a new process.

        Raises:
            InvalidState: `process_ended`: it has named one that was removed.
        """
        if process_id in self._ids:
            text = "process_id: it has named a process that was removed, and names no other one."
            raise InvalidState("process_ended", text, hint="Start it under a new id.")

    def _forget_oldest(self) -> None:
        while len(self._ids) > self._most:
            del self._ids[next(iter(self._ids))]

    def _append(self, process_id: str) -> None:
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _PRIVATE)
        try:
            # A line of its own on both sides: a torn one before it spoils no other id.
            os.write(fd, f"\n{process_id}\n".encode())
        finally:
            os.close(fd)
        self._lines += 1

    def _rewrite(self) -> None:
        write_whole(self._path, "\n".join([*self._ids, ""]).encode())
        self._lines = len(self._ids)
