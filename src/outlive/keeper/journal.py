"""The journal of live processes: which folders a new supervisor must look at (decision 20).

Lines "+id" before a start is committed, "-id" when a process is let go of.
"""

import contextlib
import os

from outlive.core.identity import is_process_id

__all__ = ["Journal", "read_journal"]


class Journal:
    """Appends to the journal; compacted when a supervisor begins."""

    def __init__(self, path: str, live: list[str]) -> None:
        """Replace the file by one that lists just `live`; on a full disk go on with the one that is there."""
        content = "".join(f"+{process_id}\n" for process_id in live).encode()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        with contextlib.suppress(OSError):
            compacted = os.open(path + ".new", flags | os.O_TRUNC, 0o600)
            if os.write(compacted, content) == len(content):
                os.rename(path + ".new", path)
                self._fd, compacted = compacted, self._fd
            os.close(compacted)

    def begin(self, process_id: str) -> None:
        """Note that a start is about to be committed; raises OSError when the disk is full."""
        os.write(self._fd, b"+" + process_id.encode() + b"\n")

    def end(self, process_id: str) -> None:
        """Note that nothing of a process is left; on a full disk its successor finds the folder's `done`."""
        with contextlib.suppress(OSError):
            os.write(self._fd, b"-" + process_id.encode() + b"\n")


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
