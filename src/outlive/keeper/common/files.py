"""Small files of the keeper: read whole, written whole; among them the records that say which process a command is.

A record of a process folder (`pid`, `exit`, `done`) is written once, by a single write(2) into an empty file that was made
beforehand: readers and successors see nothing of it or all. An empty file is no record yet (decision 27).

What the records mean is defined in `protocols.frames`. This module never decides what follows from them; the supervisor does.

The `Journal` is the list of folders that a new supervisor must look at (decision 20). A line "+id" is written before a start is committed, a line "-id" when nothing of the process is left. A disk that fills up may accept only a part of a line. The next line would be glued to it, and then neither would count: a
live process that the journal does not name is not taken over. So a torn line is ended, in a way that makes it void, before
the next one is written.
"""

import contextlib
import errno
import os

from outlive.core.identity import is_process_id
from outlive.protocols.frames import ExitRecord, PidRecord, decode_end, decode_exit, decode_pid

_SMALL_BYTES = 1 << 16  # more than any record; also the first read of a file of any size
_BIG_BYTES = 1 << 20  # a read of the rest of a large file


def read_small(path: str) -> bytes | None:
    """Return a small file's content, None when it cannot be read; three system calls, a third of the cost of `open`."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, _SMALL_BYTES)
    except OSError:
        return None
    finally:
        os.close(fd)


def read_any(path: str) -> bytes:
    """Return a file's content, of any size.

    Raises:
        OSError: It is missing, or cannot be read.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(fd, _SMALL_BYTES)
        if len(content) < _SMALL_BYTES:
            return content
        pieces = [content]
        while content := os.read(fd, _BIG_BYTES):
            pieces.append(content)
        return b"".join(pieces)
    finally:
        os.close(fd)


def sync_folder(folder: str) -> None:
    """Write the names in a folder to the disk: after a power cut a file that was renamed there has its new name (fsync(2), NOTES)."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_folder(folder: str) -> None:
    """Remove a folder that holds only files; a missing one is no error."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            os.unlink(f"{folder}/{name}")
        os.rmdir(folder)


def is_written(path: str) -> bool:
    """Return whether a record is there: its file exists and is not empty."""
    try:
        return os.stat(path).st_size > 0
    except OSError:
        return False


def write_once(path: str, content: bytes) -> None:
    """Write a record into its empty (or missing) file with one system call; a rename would cost 10 us more.

    The kernel publishes a file's new size after the bytes are in place, and does not interrupt a write within one page: a
    record shorter than a page is seen whole or not at all, at whatever moment the writer is killed.

    Raises:
        OSError: The disk is full; the file is as empty as before.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.write(fd, content) != len(content):
            os.ftruncate(fd, 0)
            raise OSError(errno.ENOSPC, "no room for a record")
    finally:
        os.close(fd)


def write_whole(path: str, content: bytes) -> None:
    """Replace a file: readers and successors see the old content or the new, never a part of it."""
    write_prepared(path + ".new", content)
    os.rename(path + ".new", path)


def write_prepared(path: str, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file that is empty or missing; what an interrupted attempt left in it is cut off.

    Never with O_TRUNC: ext4 then allocates the blocks and writes them out when the file is closed, which takes 45 us (mount
    option auto_da_alloc), even when there was nothing to truncate.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        if os.lseek(fd, 0, os.SEEK_END) > len(content):
            os.ftruncate(fd, len(content))
    finally:
        os.close(fd)


def read_pid(folder: str) -> PidRecord | None:
    """Return the command's pid and start time; None when they were not recorded (yet)."""
    return decode_pid(read_small(f"{folder}/pid") or b"")


def read_end(folder: str) -> ExitRecord | None:
    """Return how the command ended, from the shim's line in `pid` or else from `exit`; None when no record exists."""
    try:
        ended = decode_end(read_small(f"{folder}/pid") or b"")
    except ValueError:
        ended = None
    return ended or read_exit(f"{folder}/exit")


def read_exit(path: str) -> ExitRecord | None:
    """Return an exit record from a file of its own (`exit`, or a guardian's note); None when there is none."""
    try:
        return decode_exit(read_small(path) or b"")
    except ValueError:
        return None


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
