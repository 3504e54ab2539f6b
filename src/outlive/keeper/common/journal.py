"""The journal of live processes: which folders a new supervisor must look at (decision 20).

Lines "+id" before a start is committed, "-id" when a process is let go of.

A disk that fills up may take a part of a line only. The next line would be glued to it, and then neither counted: a live process
that the journal does not name is not taken over. So a torn line is ended, as one that says nothing, before the next.
"""

import contextlib
import errno
import os

from outlive.core.identity import is_process_id

_END_OF_TORN = b"#\n"  # no id ends like that, so the line counts for nothing, whatever the disk took of it


class Journal:
    """Appends to the journal; compacted when a supervisor begins."""

    def __init__(self, path: str, live: list[str]) -> None:
        """Replace the file by one that lists just `live`; on a full disk go on with the one that is there."""
        content = "".join(f"+{process_id}\n" for process_id in live).encode()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        self._is_torn = _is_torn(self._fd)
        with contextlib.suppress(OSError):
            compacted = os.open(path + ".new", flags | os.O_TRUNC, 0o600)
            if os.write(compacted, content) == len(content):
                os.rename(path + ".new", path)
                self._fd, compacted = compacted, self._fd
                self._is_torn = False
            os.close(compacted)

    def begin(self, process_id: str) -> None:
        """Note that a start is about to be committed.

        Raises:
            OSError: The disk is full: the journal does not name the process.
        """
        self._append(b"+" + process_id.encode() + b"\n")

    def end(self, process_id: str) -> None:
        """Note that nothing of a process is left; on a full disk its successor finds the folder's `done`."""
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
    """Tell whether a journal ends within a line: a full disk, or a kill, cut the last one short."""
    size = os.fstat(journal).st_size
    return size > 0 and os.pread(journal, 1, size - 1) != b"\n"


def read_journal(path: str) -> list[str]:
    """Return the ids that are live by the journal, oldest first; a torn last line is no entry."""
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
