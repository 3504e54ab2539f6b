"""The folder of a process that another server runs: the files that the keeper would have written here, in its
formats.

Blocking, and for one writer at a time: run it in a thread. A kill between any two system calls leaves a
folder that `resume` goes on with at the next byte: the sizes of the logs are the position (see
`protocols.frames` for `idx`).
"""

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable

from outlive.core.cursor import Cursor
from outlive.core.identity import is_process_id
from outlive.core.layout import STREAM_FILES
from outlive.kernel.files import read_small, write_whole
from outlive.protocols.frames import (
    IDX,
    NODE_BOOT,
    ExitRecord,
    IdxRecord,
    decode_gaps,
    decoded,
    encode_exit,
    pid_line,
)

Punch = Callable[[int, int, int], None]  # descriptor, offset, length: releases a range of a file
_CLOSED = -1
_RUN_NS = 100_000_000  # the longest run that one idx record stands for (`native/flow`)
_PAGE = 4096
_STEP_BYTES = 8 << 20  # punch seldom


def pid_record(pid: int, started_ns: int) -> bytes:
    """Return the beginning of the file `pid` of what runs on a node.

    Times are its own; the pid means nothing here.
    """
    return b"starting\n" + pid_line(pid, 0, started_ns, 0, 0, 0, NODE_BOOT.encode())


def make_folder(prepared: str, folder: str, *, spec: bytes, script: bytes, pid: bytes = b"") -> bool:
    """Make a process's folder with all that a start needs, in one step; False when there is one already.

    Raises:
        OSError: The disk does not take it.
    """
    try:
        os.mkdir(prepared, 0o700)
    except OSError:  # one of an earlier attempt, or the first of this node
        os.makedirs(prepared, mode=0o700, exist_ok=True)
    # A file costs most of what a start costs here: `out` is made with its first bytes, as `err` is.
    write_file(f"{prepared}/spec", spec)
    if script:
        write_file(f"{prepared}/script", script, mode=0o700)
    if pid:
        write_file(f"{prepared}/pid", pid)
    try:
        os.rename(prepared, folder)  # rename(2): a folder that is not empty is not replaced
    except FileNotFoundError:  # the first process of this state folder
        os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        os.rename(prepared, folder)
    except OSError:
        if not os.path.exists(f"{folder}/spec"):
            raise
        return False
    return True


def unfinished_folders(beginning: str) -> list[str]:
    """Return the folders that a kill has left before they were in their place, or on their way out of it.

    Args:
        beginning: What `make_folder` was given as `prepared`, without the id of the process.
    """
    parent, prefix = os.path.split(beginning)
    with contextlib.suppress(OSError):
        return [
            f"{parent}/{name}"
            for name in os.listdir(parent)
            if name.startswith(prefix) and is_process_id(name.removeprefix(prefix))
        ]
    return []


class ProcessFolder:
    """One process's files, opened when they are first needed and closed by `close`.

    Attributes (written here only):
        sizes: Bytes of stdout and stderr, gaps included.
        released: The range of each stream that is not there any more; (0, 0) where there is none.
        output_lost: The node lost some of the output (set by `RemoteProcess`).
    """

    def __init__(self, folder: str, *, limit: int | None, punch: Punch, is_new: bool = False) -> None:
        """Stand where the files end, and cut off what a kill left of a record.

        Args:
            folder: The process's folder; a missing one has no bytes.
            limit: Bytes of output that are kept; beyond it the middle is released. None: all are.
            punch: Releases a range of a file; raises OSError where the file system cannot.
            is_new: `make_folder` has just made it: nothing is looked for.
        """
        self._folder = folder
        self._limit = limit
        self._punch = punch
        self._lock = threading.Lock()  # `release` comes from another thread than output
        self._fds = [_CLOSED] * (len(STREAM_FILES) + 1)
        self.sizes = [0] * len(STREAM_FILES)
        self.released = [(0, 0), (0, 0)]
        self.output_lost = False
        self._run_stream: int | None = None  # unknown after a kill: the next bytes begin a run
        self._run_ns = 0
        if is_new:
            return
        self.sizes = [_size(f"{folder}/{name}") for name in STREAM_FILES]
        self.released = _read_gaps(folder)
        with contextlib.suppress(OSError):
            size = os.stat(f"{folder}/idx").st_size
            os.truncate(f"{folder}/idx", size - size % IDX.size)

    @property
    def cursor(self) -> Cursor:
        """The position behind all that is here."""
        return Cursor(self.sizes[0], self.sizes[1])

    @property
    def kept_bytes(self) -> int:
        """How much output is here that was not released."""
        return sum(self.sizes) - sum(end - begin for begin, end in self.released)

    def append(self, stream: int, data: bytes, end: int) -> None:
        """Write what of these bytes (up to offset `end`) is new.

        A repeated call goes on where an error stopped it.

        Raises:
            OSError: The disk does not take them now.
            ValueError: Bytes before them were never reported.
        """
        with self._lock:
            start = end - len(data)
            if start > self.sizes[stream]:
                raise ValueError(f"bytes {self.sizes[stream]} to {start} of stream {stream} were left out")
            view = memoryview(data)[self.sizes[stream] - start :]
            if not view:
                return
            self._begin_run(stream)
            fd = self._open(stream)
            while view:
                count = os.pwrite(fd, view, self.sizes[stream])
                self.sizes[stream] += count
                view = view[count:]
            if self._limit is not None:
                self._truncate(stream, self._limit)

    def skip(self, stream: int, start: int, end: int) -> None:
        """Record a gap of the node's log; what of it is here already stays readable until it is released.

        Raises:
            OSError: The disk does not take it now.
            ValueError: Bytes before it were never reported.
        """
        with self._lock:
            if start > self.sizes[stream]:
                raise ValueError(f"bytes {self.sizes[stream]} to {start} of stream {stream} were left out")
            here = self.sizes[stream]
            if end <= here:
                return
            begin = here if self.released[stream] == (0, 0) else min(self.released[stream][0], here)
            self._note_gap(stream, begin, end)
            self._begin_run(stream)
            os.ftruncate(self._open(stream), end)
            self.sizes[stream] = end

    def release(self, cursor: Cursor) -> None:
        """Let go of output before `cursor`, which was delivered.

        A disk that does not take the note keeps it.
        """
        with self._lock, contextlib.suppress(OSError):
            for stream, upto in enumerate((cursor.stdout, cursor.stderr)):
                end = min(upto, self.sizes[stream]) // _PAGE * _PAGE
                if end > self.released[stream][1]:
                    self._give_up(stream, 0, end)

    def write_pid(self, pid: int, started_ns: int, end: ExitRecord | None = None) -> None:
        """Record that the node has started it, and how it ended, as the shim does."""
        content = pid_record(pid, started_ns)
        # In its place: what is there already is the beginning of it, and of a torn line readers know that it
        # is none.
        write_file(
            f"{self._folder}/pid", content + (b"" if end is None else encode_exit(end)), truncates=False
        )

    def write_end(self, end: ExitRecord) -> None:
        """Record how a process ended of which no pid is known."""
        write_whole(f"{self._folder}/exit", encode_exit(end))

    def write_done(self, ends: Cursor, *, cause: int, note: str, descendants: int, is_closed: bool) -> None:
        """Record that it has ended and that its output is whole up to `ends`.

        The first one counts for these.
        """
        path = f"{self._folder}/done"
        record = {
            "out": ends.stdout,
            "err": ends.stderr,
            "cause": cause,
            "note": note,
            "at_ns": time.time_ns(),
            "descendants": descendants,
            "gaps": self.released != [(0, 0), (0, 0)],
            "holder_lost": self.output_lost,
            "closed": is_closed,
        }
        write_whole(path, json.dumps(record).encode())

    def write_closed(self) -> None:
        """Record that its streams have ended after its completion."""
        record = {"out": self.sizes[0], "err": self.sizes[1], "at_ns": time.time_ns()}
        write_whole(f"{self._folder}/closed", json.dumps(record).encode())

    def close(self) -> None:
        """Close the files; may be called more than once."""
        with self._lock:
            for place, fd in enumerate(self._fds):
                if fd != _CLOSED:
                    self._fds[place] = _CLOSED
                    os.close(fd)

    def _begin_run(self, stream: int) -> None:
        """Add an idx record before the first byte of a run is written."""
        now_ns = time.time_ns()
        if self._run_stream == stream and now_ns - self._run_ns < _RUN_NS:
            return
        fd = self._open(len(STREAM_FILES))
        record = IdxRecord(now_ns, sum(self.sizes), self.sizes[stream], stream).encode()
        size = os.fstat(fd).st_size // IDX.size * IDX.size  # a full disk may have taken a part of one
        os.ftruncate(fd, size)
        if os.pwrite(fd, record, size) != len(record):
            raise OSError("no room for a record")
        self._run_stream, self._run_ns = stream, now_ns

    def _truncate(self, stream: int, limit: int) -> None:
        """Release the middle of a stream when too much is kept, as the keeper does
        (`keeper.supervisor.output`).
        """
        if self.kept_bytes <= limit:
            return
        begin, released_end = self.released[stream]
        others = self.kept_bytes - (self.sizes[stream] - (released_end - begin))
        budget = max(limit - others, limit // 2)
        step = min(_STEP_BYTES, max(_PAGE, limit // 8))
        end = (self.sizes[stream] - budget // 2) // _PAGE * _PAGE
        if not released_end:
            begin = released_end = budget // 2 // _PAGE * _PAGE
        if end - released_end >= step:
            with contextlib.suppress(
                OSError
            ):  # a gap that cannot be recorded is not made: readers would take it for output
                self._give_up(stream, begin, end)

    def _give_up(self, stream: int, begin: int, end: int) -> None:
        self._note_gap(stream, begin, end)
        # EOPNOTSUPP: the bytes stay, and readers see the gap all the same.
        with contextlib.suppress(OSError):
            self._punch(self._open(stream), begin, end - begin)

    def _note_gap(self, stream: int, begin: int, end: int) -> None:
        ranges = [*self.released]
        ranges[stream] = (begin, end)
        write_whole(f"{self._folder}/gaps", "{} {} {} {}\n".format(*ranges[0], *ranges[1]).encode())
        self.released = ranges

    def _open(self, place: int) -> int:
        if self._fds[place] == _CLOSED:
            name = "idx" if place == len(STREAM_FILES) else STREAM_FILES[place]
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._fds[place] = os.open(f"{self._folder}/{name}", flags, 0o600)
        return self._fds[place]


def write_stop(folder: str, cause: int, note: str) -> None:
    """Record why a process's end was asked for; the first record counts."""
    if not os.path.exists(f"{folder}/stop"):
        write_whole(f"{folder}/stop", json.dumps({"cause": cause, "note": note}).encode())


def write_paused(folder: str, *, is_paused: bool) -> None:
    """Record whether a process is paused."""
    path = f"{folder}/paused"
    if is_paused:
        write_whole(path, b"\n")
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _read_gaps(folder: str) -> list[tuple[int, int]]:
    return [*(decoded(read_small(f"{folder}/gaps"), decode_gaps) or ((0, 0), (0, 0)))]


def write_file(path: str, content: bytes, *, mode: int = 0o600, truncates: bool = True) -> None:
    """Write a file from its beginning.

    Three system calls: each lets go of the interpreter's lock, and waits for it again.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if truncates else 0), mode)
    try:
        while content:
            content = content[os.write(fd, content) :]
    finally:
        os.close(fd)
