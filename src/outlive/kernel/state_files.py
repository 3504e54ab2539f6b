"""The records that say which process a command is, read from its folder, and the journal of live processes.

A record of a process folder (`pid`, `exit`, `done`) is written once, by a single write(2) into an empty file
that was made beforehand: readers and successors see nothing of it or all. An empty file is no record yet
(decision 27), and neither is a damaged one.

What the records mean is defined in `protocols.frames`. This module never decides what follows from them; the
supervisor does.

The `Journal` is the list of folders that a new supervisor must look at (decision 20). A line "+id" is written
before a start is committed, a line "-id" when nothing of the process is left. A disk that fills up may accept
only a part of a line. The next line would be glued to it, and then neither would count: a live process that
the journal does not name is not taken over. So a torn line is ended, in a way that makes it void, before the
next one is written.

Its first line names the boot: a start that it names is made again only in the same one, because after a power
cut no file says for certain that a command has not run.

The marks beside them say of the server whether one is wanted, was stopped in order, or belongs to a unit. The
guardian reads them, which starts a wanted server again.
"""

import contextlib
import errno
import os

from outlive.core.documents import decode_json
from outlive.core.identity import is_process_id
from outlive.core.layout import Layout
from outlive.kernel.files import read_all, read_small, set_aside
from outlive.kernel.processes import this_boot
from outlive.protocols.frames import ExitRecord, PidRecord, decode_end, decode_exit, decode_pid, decoded


def read_pid(folder: str) -> PidRecord | None:
    """Return the command's pid and start time; None when they were not recorded (yet)."""
    return decode_pid(read_small(f"{folder}/pid"))


def read_end(folder: str) -> ExitRecord | None:
    """Return how the command ended, from the shim's line in `pid` or else from `exit`; None when no record
    exists.
    """
    return decode_end(read_small(f"{folder}/pid")) or read_exit(f"{folder}/exit")


def read_exit(path: str) -> ExitRecord | None:
    """Return an exit record from a file of its own (`exit`, or a guardian's note); None when there is
    none.
    """
    return decoded(read_small(path), decode_exit)


_END_OF_TORN = b"#\n"  # no id ends with "#", so the line is void, however much of it the disk accepted


class Journal:
    """Appends to the journal; a new supervisor begins by compacting it."""

    def __init__(self, path: str, live: list[str], *, boot: str = "") -> None:
        """Replace the file by one that lists only `live`; on a full disk, go on with the existing file."""
        content = f"#{boot}\n" + "".join(f"+{process_id}\n" for process_id in live)
        for name in (path, f"{path}.new"):
            set_aside(name)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        self._is_torn = _is_torn(self._fd)
        # The old file stays until the new one is complete: at no moment is a live process unnamed.
        with contextlib.suppress(OSError):
            compacted = os.open(path + ".new", flags | os.O_TRUNC, 0o600)
            if os.write(compacted, content.encode()) == len(content):
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
        """Record that nothing of a process is left.

        If the disk is full, a successor finds the folder's `done` instead.
        """
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
    for line in read_all(path).decode("ascii", "replace").split("\n")[:-1]:
        sign, process_id = line[:1], line[1:]
        if not is_process_id(process_id):
            continue
        if sign == "+":
            live[process_id] = None
        else:
            live.pop(process_id, None)
    return list(live)


def boot_of(journal: str) -> str | None:
    """Return in which boot a journal was begun; None where it is missing, or its beginning is damaged."""
    line, newline, _ = read_all(journal).partition(b"\n")
    return line[1:].decode("ascii", "replace") if newline and line.startswith(b"#") else None


def is_server_wanted(layout: Layout) -> bool:
    """Return whether a server that is gone has to be started again from here.

    Not after an ordered stop, which counts until the next boot, and not where a service manager does it
    (decision 141).
    """
    # A machine that has joined others is a node: no client of its own may ever come to start its server
    # again.
    is_needed = os.path.exists(layout.server_wanted) or os.path.exists(layout.gateways)
    return is_needed and not is_stopped(layout) and unit_file(layout) is None


def is_stopped(layout: Layout) -> bool:
    """Return whether the last server was stopped on purpose since this machine was booted."""
    return read_small(layout.server_stopped) == this_boot().encode()


def unit_file(layout: Layout) -> str | None:
    """Return the path of the unit's file that owns the folder's server; None when none does, or the file is
    gone.
    """
    path = decoded(read_small(layout.service), lambda raw: str(decode_json(raw)["unit_file"]))
    return path if path is not None and os.path.exists(path) else None
