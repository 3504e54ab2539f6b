"""The reader of one process's output: offsets per stream, order and time by idx, gaps, torn tails.

Never writes: the supervisor is the only writer, and it may be writing while this reads. Descriptors are opened
at the first read and closed by `close` (or with the last reference); a closed log opens again by itself.
`pread` is the one blocking call the event loop may make, at most 256 KiB a turn.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from outlive.core.cursor import Cursor
from outlive.core.layout import STREAM_FILES
from outlive.protocols.frames import IDX, IdxRecord

__all__ = ["MAX_PREAD_BYTES", "OutputChunk", "OutputLog"]

MAX_PREAD_BYTES = 256 * 1024
_IDX_BLOCK_RECORDS = 128  # one page
_ZERO_RECORD = bytes(IDX.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChunk:
    """A piece of one stream (0 stdout, 1 stderr): bytes `offset` to `end`, written from `time_ns` on.

    `is_gap`: the log no longer holds these bytes; `data` is empty. `time_ns` is 0 when it is not known.
    """

    stream: int
    offset: int
    end: int
    data: bytes
    time_ns: int = 0

    @property
    def is_gap(self) -> bool:
        """Whether this stands for released output."""
        return not self.data

    @staticmethod
    def after(cursor: Cursor, chunks: Iterable["OutputChunk"]) -> Cursor:
        """Return the cursor behind `chunks`."""
        for chunk in chunks:
            cursor = replace(cursor, **{("stdout", "stderr")[chunk.stream]: chunk.end})
        return cursor


class OutputLog:
    """The output of one process on disk."""

    __slots__ = ("_err_fd", "_folder", "_idx_fd", "_out_fd")

    def __init__(self, folder: str) -> None:
        """Remember the process's folder; nothing is opened yet."""
        self._folder = folder
        self._out_fd = self._err_fd = self._idx_fd = -1

    def pread(self, stream: int, size: int, offset: int) -> bytes:
        """Return up to `size` (at most 256 KiB) bytes of a stream from `offset`; empty at the end and in a gap.

        Released ranges read as zeros on disk; they are never returned: the data stops before a gap, and at
        its beginning nothing comes. Then `gap` tells where to go on.
        """
        raise NotImplementedError

    def size(self, stream: int) -> int:
        """Return the bytes of a stream in the log (of merged and pty output: stream 0)."""
        raise NotImplementedError

    def gap(self, stream: int) -> tuple[int, int] | None:
        """Return the released range [from, to) of a stream; None when everything is there."""
        raise NotImplementedError

    def runs(self) -> Iterator[IdxRecord]:
        """Yield all idx records, oldest first. Reads the whole file: not for the event loop."""
        raise NotImplementedError

    def read(self, cursor: Cursor, limit_bytes: int) -> list[OutputChunk]:
        """Return output from `cursor` on in the order it was written; stop when `limit_bytes` are reached.

        Empty means caught up. Small reads (<= 256 KiB) may run on the event loop.
        """
        raise NotImplementedError

    def tail_cursor(self, limit_bytes: int) -> Cursor:
        """Return the cursor `limit_bytes` before the end, in the order of writing."""
        raise NotImplementedError

    def tail(self, limit_bytes: int) -> list[OutputChunk]:
        """Return the last `limit_bytes` of output, both streams in order."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the descriptors; may be called more than once."""
        raise NotImplementedError
