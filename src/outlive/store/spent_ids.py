"""Ids that never name another process again, on disk: `SpentIds`.

What has waited for an approval is looked at by a person, who answers later: its id must mean the same command for ever, also
after it was removed. One line an id, added before anybody is told of it. Blocking: run it in a thread.
"""

import contextlib
import os

from outlive.core.errors import InvalidRequest
from outlive.core.identity import is_process_id

_PRIVATE = 0o600


class SpentIds:
    """The spent ids of a state folder; one writer, the server. 27 bytes on disk each, some 130 in memory."""

    def __init__(self, path: str) -> None:
        """Know none; nothing is read yet."""
        self._path = path
        self._ids: set[str] = set()

    def check(self, process_id: str) -> None:
        """Let an id pass that may name a new process.

        Raises:
            InvalidRequest: It is spent.
        """
        if process_id in self._ids:
            text = "process_id: it has named a command that waited for an approval, and names no other one."
            raise InvalidRequest("invalid_params", text, hint="Start it under a new id.")

    def open(self) -> None:
        """Read what earlier servers have entered; a line that a crash has torn is none."""
        with (
            contextlib.suppress(FileNotFoundError),
            open(self._path, encoding="ascii", errors="replace") as file,
        ):
            self._ids.update(filter(is_process_id, file.read().split("\n")))

    def add(self, process_id: str) -> None:
        """Enter an id for good.

        Raises:
            OSError: The disk does not take it.
        """
        if process_id in self._ids:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self._path, flags, _PRIVATE)
        try:
            # A line end before it, too: behind a torn line it would be no id.
            line = f"\n{process_id}\n".encode()
            if os.write(fd, line) != len(line):
                raise OSError(28, os.strerror(28))  # ENOSPC: a part of it fitted
            os.fdatasync(fd)
        finally:
            os.close(fd)
        self._ids.add(process_id)
