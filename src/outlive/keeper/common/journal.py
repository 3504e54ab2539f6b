"""The journal of live processes: the list of folders that a new supervisor must look at (decision 20).

A line "+id" is written before a start is committed, a line "-id" when nothing of the process is left.

A disk that fills up may accept only a part of a line. The next line would be glued to it, and then neither would count: a
live process that the journal does not name is not taken over. So a torn line is ended, in a way that makes it void, before
the next one is written.
"""

import contextlib
import errno
import os

from outlive.core.identity import is_process_id

_END_OF_TORN = b"#\n"  # no id ends with "#", so the line is void, however much of it the disk accepted


class Journal:
    """Appends to the journal; a new supervisor begins by compacting it."""

    def __init__(self, path: str, live: list[str]) -> None:
        """Replace the file by one that lists only `live`; on a full disk, go on with the existing file."""
        content = "".join(f"+{process_id}\n" for process_id in live).encode()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        self._is_torn = _is_torn(self._fd)
        # The old file stays until the new one is complete: at no moment is a live process unnamed.
        with contextlib.suppress(OSError):
            compacted = os.open(path + ".new", flags | os.O_TRUNC, 0o600)
            if os.write(compacted, content) == len(content):
                os.rename(path + ".new", path)
                self._fd, compacted = compacted, self._fd
                self._is_torn = False
            os.close(compacted)

    def begin(self, process_id: str) -> None:
        """Record that a start is about to be committed.

        Raises:
            OSError: The disk is full: the journal does not name the process.
        """
        self._append(b"+" + process_id.encode() + b"\n")

    def end(self, process_id: str) -> None:
        """Record that nothing of a process is left; if the disk is full, a successor finds the folder's `done` instead."""
        with contextlib.suppress(OSError):
            self._append(b"-" + process_id.encode() + b"\n")

    def _append(self, line: bytes) -> None:
        if self._is_torn:
            line = _END_OF_TORN + line
        written = os.write(self._fd, line)
        self._is_torn = written != len(line)
        if self._is_torn:
            raise OSError(errno.ENOSPC, "no room for a line of the journal")


def _is_torn(journal: int) -> bool:
    """Return whether a journal ends within a line: a full disk or a kill has cut the last one short."""
    size = os.fstat(journal).st_size
    return size > 0 and os.pread(journal, 1, size - 1) != b"\n"


def read_journal(path: str) -> list[str]:
    """Return the ids that the journal calls live, oldest first; a torn last line is no entry."""
    live: dict[str, None] = {}
    with contextlib.suppress(FileNotFoundError), open(path, encoding="ascii", errors="replace") as file:
        for line in file:
            sign, process_id = line[:1], line[1:].rstrip("\n")
            if not line.endswith("\n") or not is_process_id(process_id):
                continue
            if sign == "+":
                live[process_id] = None
            else:
                live.pop(process_id, None)
    return list(live)
