"""Ids that name no new process: `RemovedIds` of processes that were removed, and `SpentIds` of commands that
have waited for an approval. Each is a line of a file.

A start that is repeated under the id of a removed process runs nothing a second time. A client that has lost
the answer to a start asks again under the same id, and so does the server whose node this one is. Where the
process has ended and was removed meanwhile, nothing else would show that it has run.

A person looks at a command that waits for an approval, and answers later: its id must mean the same command
for ever, also after the command was removed. It is written before it is shown.
"""

import contextlib
import errno
import os
import threading

from outlive.core.errors import InvalidRequest, InvalidState
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
            found = _read(self._path)
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
                    _append(self._path, process_id, is_durable=False)
                    self._lines += 1
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

    def _rewrite(self) -> None:
        write_whole(self._path, "\n".join([*self._ids, ""]).encode())
        self._lines = len(self._ids)


class SpentIds:
    """The spent ids of a state folder; one writer, the server. Blocking: run it in a thread.

    Each takes 27 bytes on disk and some 130 in memory.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._ids: set[str] = set()

    def check(self, process_id: str) -> None:
        """Do nothing for an id that may name a new process.

        Raises:
            InvalidRequest: The id is spent.
        """
        if process_id in self._ids:
            text = "process_id: it has named a command that waited for an approval, and names no other one."
            raise InvalidRequest("invalid_params", text, hint="Start it under a new id.")

    def open(self) -> None:
        """Read the ids that earlier servers have added."""
        self._ids.update(_read(self._path))

    def add(self, process_id: str) -> None:
        """Add an id for good.

        Raises:
            OSError: The disk refuses it.
        """
        if process_id not in self._ids:
            _append(self._path, process_id, is_durable=True)
            self._ids.add(process_id)


def _read(path: str) -> list[str]:
    """Return the ids of a file; a line that a crash has torn is no id."""
    words = read_all(path).decode("ascii", "replace").split()
    return [word for word in words if is_process_id(word)]


def _append(path: str, process_id: str, *, is_durable: bool) -> None:
    """Add an id to a file; `is_durable`: it survives a power cut.

    Raises:
        OSError: The disk refuses it, or a part of it.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, _PRIVATE)
    try:
        # With a newline before it: glued to a torn line, it would not be read as an id.
        line = f"\n{process_id}\n".encode()
        if os.write(fd, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if is_durable:
            os.fdatasync(fd)
    finally:
        os.close(fd)
