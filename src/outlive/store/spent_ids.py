"""Ids that never name another process again, on disk: `SpentIds`.

A person looks at a command that waits for an approval, and answers later: its id must mean the same command for ever, also after
the command was removed. One line for each id, written before the id is shown. Blocking: run it in a thread.
"""

import contextlib
import os

from outlive.core.errors import InvalidRequest
from outlive.core.identity import is_process_id

_PRIVATE = 0o600


class SpentIds:
    """The spent ids of a state folder; one writer, the server. Each takes 27 bytes on disk and some 130 in memory."""

    def __init__(self, path: str) -> None:
        """Begin without ids; nothing is read yet."""
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
        """Read the ids that earlier servers have added; a line that a crash has torn is no id."""
        with (
            contextlib.suppress(FileNotFoundError),
            open(self._path, encoding="ascii", errors="replace") as file,
        ):
            self._ids.update(filter(is_process_id, file.read().split("\n")))

    def add(self, process_id: str) -> None:
        """Add an id for good.

        Raises:
            OSError: The disk refuses it.
        """
        if process_id in self._ids:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self._path, flags, _PRIVATE)
        try:
            # With a newline before it: glued to a torn line, it would not be read as an id.
            line = f"\n{process_id}\n".encode()
            if os.write(fd, line) != len(line):
                raise OSError(28, os.strerror(28))  # ENOSPC: only a part of the line fitted
            os.fdatasync(fd)
        finally:
            os.close(fd)
        self._ids.add(process_id)
