"""The reader of one process's output: offsets by stream, order and time by the index, gaps, torn tails:
`OutputLog`.

Never writes: the supervisor is the only writer, and may be writing while this reads. Descriptors are opened
at the first read and closed by `close` (or with the last reference); a closed log opens again by itself.
`pread` is the one blocking call that the event loop may make, at most 256 KiB a turn. What is redacted is
decided in `log_mask`.

`IdxReader` reads a process's index file `idx`: it finds the run at a position without reading the whole file.

The search is here; what a record means is defined in `protocols.frames`, and output is read with it in
`output_log`.
"""

import os
from collections.abc import Callable, Iterable, Iterator

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import StoreCorrupt
from outlive.core.layout import STREAM_FILES
from outlive.core.redactions import HiddenSpans, spans_within
from outlive.core.values import dataclass
from outlive.protocols.frames import IDX, IdxRecord, decode_idx
from outlive.store.log_mask import Hiding, LogMask

_BLOCK_RECORDS = 128  # in one read: a page of the file
_BLOCK_BYTES = _BLOCK_RECORDS * IDX.size


def totals(record: IdxRecord) -> tuple[int, int]:
    """Return the bytes of stdout and of stderr before a run; both only grow along the file."""
    other = record.start - record.offset
    return (record.offset, other) if record.stream == 0 else (other, record.offset)


class IdxReader:
    """Random access to the records behind one descriptor, which the caller opens and closes.

    Records of a released range read as zeros, in one piece; a tail shorter than a record is ignored.
    """

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def records(self, index: int = 0) -> Iterator[IdxRecord]:
        """Yield the records from `index` on, oldest first, as far as the file goes."""
        offset: int | None = index * IDX.size
        while offset is not None:
            block = os.pread(self._fd, _BLOCK_BYTES, offset)
            yield from decode_idx(block)
            offset = self._following(offset, block)

    def last_where(self, claim: Callable[[IdxRecord], bool]) -> int:
        """Return the index of the last record for which `claim` holds; 0 when it holds for none.

        `claim` must be true for some first part of the file and false for the rest, so that halving the range
        finds it.
        """
        # By halving the range: some 20 reads for a million records. A torn last record does not count.
        low, high = 0, os.fstat(self._fd).st_size // IDX.size
        best = 0
        while low < high:
            middle = (low + high) // 2
            found = self._first_at(middle)
            if found is None or found[0] >= high:
                high = middle  # from here to `high` there are only released records
            elif claim(found[1]):
                best, low = found[0], found[0] + 1
            else:
                high = middle
        return best

    def _first_at(self, index: int) -> tuple[int, IdxRecord] | None:
        """Return the first record at or after `index` that was not released, with its own index."""
        offset: int | None = index * IDX.size
        size = IDX.size  # one record is enough, unless it is released
        while offset is not None:
            block = os.pread(self._fd, size, offset)
            for place, record in enumerate(decode_idx(block)):
                skipped = _leading_zero_records(block)
                return offset // IDX.size + skipped + place, record
            offset = self._following(offset, block)
            size = _BLOCK_BYTES
        return None

    def _following(self, offset: int, block: bytes) -> int | None:
        """Return where to read after `block`; None at the end.

        Holes are skipped without being read (lseek(2)).
        """
        whole = len(block) - len(block) % IDX.size
        if whole == 0:
            return None
        if any(block):
            return offset + whole
        try:
            data = os.lseek(self._fd, offset + whole, os.SEEK_DATA)
        except OSError:
            return None  # ENXIO: only a hole up to the end
        return max(offset + whole, data - data % IDX.size)


def _leading_zero_records(block: bytes) -> int:
    return (len(block) - len(block.lstrip(b"\0"))) // IDX.size


MAX_PREAD_BYTES = 256 * 1024  # in one call: what the event loop may read in a turn without a noticeable delay
_IDX = len(STREAM_FILES)  # the index's position in the list of descriptors
_FILES = (*STREAM_FILES, "idx")
_CLOSED = -1
_ALL_CLOSED = [_CLOSED] * len(_FILES)
_RUN_NS = 100_000_000  # the longest run that one index record stands for (`native/flow`)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChunk:
    """A piece of one stream (0 stdout, 1 stderr): bytes `offset` to `end`, written from `time_ns` on.

    `is_gap`: the log no longer holds these bytes; `data` is empty. `time_ns` is 0 when it is not known.
    `hidden` lists the spans of the bytes that are stars in place of a secret.
    """

    stream: int
    offset: int
    end: int
    data: bytes
    time_ns: int = 0
    hidden: HiddenSpans = ()

    @property
    def is_gap(self) -> bool:
        """Whether this stands for output that was released."""
        return not self.data

    @staticmethod
    def after(cursor: Cursor, chunks: Iterable["OutputChunk"]) -> Cursor:
        """Return the cursor behind `chunks`."""
        ends = [cursor.stdout, cursor.stderr]
        for chunk in chunks:
            ends[chunk.stream] = chunk.end
        return Cursor(*ends)


class OutputLog:
    """The output of one process on disk; a missing file counts as an empty one."""

    __slots__ = ("_fds", "_folder", "_mask")

    def __init__(self, folder: str, *, hiding: Hiding | None = None) -> None:
        """Remember the process's folder; nothing is opened yet.

        Args:
            folder: The process's folder.
            hiding: What is redacted in everything that is read; None returns the bytes unchanged, for the
                server's own use and for callers that may see them.
        """
        self._folder = folder
        self._fds = [_CLOSED] * len(_FILES)
        is_raw = hiding is None or (hiding.redactor.is_idle and not hiding.needs_masks)
        self._mask = None if hiding is None or is_raw else LogMask(folder, hiding)

    def __del__(self) -> None:
        """Close the descriptors with the last reference."""
        self.close()

    def close(self) -> None:
        """Close the descriptors; may be called more than once, and the next read opens them again."""
        if self._fds == _ALL_CLOSED:
            return
        for place, fd in enumerate(self._fds):
            if fd != _CLOSED:
                self._fds[place] = _CLOSED
                os.close(fd)

    def pread(self, stream: int, size: int, offset: int) -> bytes:
        """Return up to `size` (at most 256 KiB) bytes of a stream from `offset`.

        Empty at the end and in a gap.

        Released ranges read as zeros on disk, and are never returned: the data ends before a gap, and at the
        beginning of one it is empty; then `gap` says where to go on. Secrets are redacted; bytes that could
        be the beginning of one are not returned yet (`log_mask`).

        Raises:
            StoreCorrupt: The disk does not give the bytes.
        """
        return self.look(stream, size, offset)[0]

    def look(self, stream: int, size: int, offset: int) -> tuple[bytes, HiddenSpans]:
        """Return what `pread` does, and the spans of these bytes that are stars in place of a secret.

        Raises:
            StoreCorrupt: The disk does not give the bytes.
        """
        data = self.pread_raw(stream, size, offset)
        return (data, ()) if self._mask is None or not data else self._mask.apply(self, stream, data, offset)

    def pread_raw(self, stream: int, size: int, offset: int) -> bytes:
        """Return bytes as `pread` does, secrets included: never for a frontend.

        Raises:
            StoreCorrupt: The disk does not give the bytes.
        """
        fd = self._fds[stream]
        if fd == _CLOSED and (fd := self._open(stream)) == _CLOSED:
            return b""
        try:
            data = os.pread(fd, min(size, MAX_PREAD_BYTES), offset)
        except OSError as error:
            raise StoreCorrupt(
                "store_corrupt", f"The output log cannot be read: {error.strerror}."
            ) from error
        # Asked after the read: `gaps` is written before the hole is punched, so zeros that were read from a
        # hole are listed by now. Without a zero byte there is no need to ask (memchr: 20 GB/s).
        if 0 in data:
            gap = self.gap(stream)
            if gap is not None and gap[0] < offset + len(data) and offset < gap[1]:
                return data[: max(0, gap[0] - offset)]
        return data

    def read_plain(self, stream: int, buffer: bytearray, offset: int) -> int:
        """Fill `buffer` with bytes of a stream, as `pread` would but without a new object for them.

        Return how many.

        Nothing is redacted here: it serves to look for a text, which is then read by `pread`. 0: at the end,
        or where there are zero bytes, since only `pread` finds out whether they were written or released.
        """
        fd = self._open(stream)
        if fd == _CLOSED:
            return 0
        try:
            count = os.preadv(fd, [buffer], offset)
        except OSError:
            return 0  # `pread`, which comes next, reports the error
        return 0 if buffer.find(0, 0, count) >= 0 else count

    def size(self, stream: int) -> int:
        """Return the number of readable bytes of a stream (merged and pty output are stream 0)."""
        size = _size(self._open(stream))
        return size if self._mask is None or not size else self._mask.visible_end(self, stream, size)

    @property
    def end(self) -> Cursor:
        """The end of the output as it is now for readers of this log."""
        return Cursor(self.size(0), self.size(1))

    def gap(self, stream: int) -> tuple[int, int] | None:
        """Return the released range [from, to) of a stream; None when everything is there.

        Read anew at each call.
        """
        try:
            fd = os.open(f"{self._folder}/gaps", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            raw = os.pread(fd, 4096, 0)
        finally:
            os.close(fd)
        # The last complete line counts: a crash may have torn a line behind it.
        words = raw[: raw.rfind(b"\n") + 1].rpartition(b"\n")[0].rpartition(b"\n")[2].split()
        if len(words) != 4 or not all(word.isdigit() for word in words):
            return None
        start, end = int(words[2 * stream]), int(words[2 * stream + 1])
        return (start, end) if start < end else None

    def index(self) -> IdxReader | None:
        """Return the index; None while nothing was written. It reads through a descriptor of this log's."""
        fd = self._open(_IDX)
        return None if fd == _CLOSED else IdxReader(fd)

    def read(self, cursor: Cursor, limit_bytes: int) -> list[OutputChunk]:
        """Return output from `cursor` on in the order of writing; stop when `limit_bytes` are reached.

        Empty means caught up. Up to 256 KiB it may run on the event loop. Bytes that were written to both
        streams within the same moment are in the order in which the keeper took them from the two pipes.
        """
        # Sizes before the index: a run is recorded before its bytes, so the index explains every byte that is
        # counted here.
        sizes = (_size(self._open(0)), _size(self._open(1)))
        taking = _Taking(self, cursor, limit_bytes)
        if taking.is_behind(sizes):
            for time_ns, stream, ends in _segments(self._open(_IDX), cursor, sizes):
                # The other stream, too: a segment covers both where records in between were released or lost.
                taking.take(stream, ends[stream], time_ns)
                taking.take(1 - stream, ends[1 - stream], time_ns)
                if taking.budget <= 0 or not taking.is_behind(sizes):
                    break
        return taking.chunks

    def tail_cursor(self, limit_bytes: int) -> Cursor:
        """Return the cursor `limit_bytes` before the end, in the order of writing."""
        sizes = (_size(self._open(0)), _size(self._open(1)))
        # The index orders both streams' bytes as one sequence: look for the run that holds this position of
        # it.
        target = sum(sizes) - limit_bytes
        if target <= 0:
            return BEGINNING
        fd = self._open(_IDX)
        records: list[IdxRecord] = []
        if fd != _CLOSED:
            idx = IdxReader(fd)
            reader = idx.records(idx.last_where(lambda record: record.start <= target))
            records = [record for record, _ in zip(reader, range(2), strict=False)]
        if not records or records[0].start > target:
            stderr = min(sizes[1], limit_bytes // 2)  # without an index: half of the limit for each stream
            return Cursor(max(0, sizes[0] - (limit_bytes - stderr)), sizes[1] - stderr)
        ends = totals(records[1]) if len(records) > 1 else sizes
        place = list(totals(records[0]))
        for stream in (records[0].stream, 1 - records[0].stream):
            step = max(0, min(target - sum(place), ends[stream] - place[stream]))
            place[stream] += step
        return Cursor(min(place[0], sizes[0]), min(place[1], sizes[1]))

    def cursor_at(self, time_ns: int) -> Cursor:
        """Return a cursor with everything behind it that was written at `time_ns` (Unix) or later.

        What was written up to a tenth of a second earlier may be behind it, too: a run of the index covers so
        much. If nothing was written since, the cursor is the end of the output.
        """
        sizes = (_size(self._open(0)), _size(self._open(1)))
        fd = self._open(_IDX)
        if fd == _CLOSED:
            return BEGINNING
        # A record has the time of its run's first byte; the last one may be a tenth of a second younger.
        begin = time_ns - _RUN_NS
        idx = IdxReader(fd)
        for record in idx.records(idx.last_where(lambda record: record.time_ns < begin)):
            if record.time_ns >= begin:
                stdout, stderr = totals(record)
                return Cursor(min(stdout, sizes[0]), min(stderr, sizes[1]))
        return Cursor(*sizes)

    def tail(self, limit_bytes: int) -> list[OutputChunk]:
        """Return the last `limit_bytes` (at most 256 KiB on the event loop) of output, both streams in
        order.
        """
        cursor = self.tail_cursor(limit_bytes)
        chunks: list[OutputChunk] = []
        # `read` counts every chunk's record, too, so a single call may stop early.
        while (more := self.read(cursor, limit_bytes)) and sum(
            len(chunk.data) for chunk in chunks
        ) < limit_bytes:
            chunks += more
            cursor = OutputChunk.after(cursor, more)
        return chunks

    def _open(self, place: int) -> int:
        fd = self._fds[place]
        if fd == _CLOSED:
            try:
                fd = self._fds[place] = _open_quietly(f"{self._folder}/{_FILES[place]}")
            except FileNotFoundError:
                return _CLOSED
            except OSError as error:
                raise StoreCorrupt(
                    "store_corrupt", f"The output log cannot be opened: {error.strerror}."
                ) from error
        return fd


def _segments(fd: int, cursor: Cursor, sizes: tuple[int, int]) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Yield (time, stream, ends of both streams) for each run, from the one that holds the cursor's first
    byte.
    """
    before: IdxRecord | None = None
    if fd != _CLOSED:
        idx = IdxReader(fd)

        def is_not_past(record: IdxRecord) -> bool:
            stdout, stderr = totals(record)
            return stdout <= cursor.stdout and stderr <= cursor.stderr

        for record in idx.records(idx.last_where(is_not_past)):
            if before is not None:
                yield before.time_ns, before.stream & 1, totals(record)
            before = record
    if before is None:
        yield 0, 0, sizes
    else:
        yield before.time_ns, before.stream & 1, sizes


class _Taking:
    """One `read` in progress: the chunks so far, the position of both streams, the budget that is left.

    Each stream is read ahead by one pread(2), because a run may be only a few bytes long.
    """

    __slots__ = ("_ahead", "_log", "budget", "chunks", "position")

    def __init__(self, log: OutputLog, cursor: Cursor, budget: int) -> None:
        self._log = log
        self.position = [cursor.stdout, cursor.stderr]
        self.budget = budget
        self.chunks: list[OutputChunk] = []
        self._ahead: list[tuple[int, bytes, HiddenSpans]] = [(0, b"", ()), (0, b"", ())]

    def is_behind(self, ends: tuple[int, int]) -> bool:
        return self.position[0] < ends[0] or self.position[1] < ends[1]

    def take(self, stream: int, end: int, time_ns: int) -> None:
        """Take the bytes of a stream from its position to `end`, as far as budget and file allow."""
        while self.position[stream] < end and self.budget > 0:
            offset = self.position[stream]
            data = self._bytes_at(stream, offset, end)
            if data:
                stop = offset + len(data)
            else:
                gap = self._log.gap(stream)
                if gap is None or not gap[0] <= offset < gap[1]:
                    return  # shorter than the index says (a machine crash): the next run continues here
                stop = gap[1]
            self.chunks.append(
                OutputChunk(
                    stream=stream,
                    offset=offset,
                    end=stop,
                    data=data,
                    time_ns=time_ns,
                    hidden=spans_within(self._ahead[stream][2], offset, stop),
                )
            )
            self.position[stream] = stop
            # The record counts, too: many runs of one byte are work as well.
            self.budget -= len(data) + IDX.size

    def _bytes_at(self, stream: int, offset: int, end: int) -> bytes:
        start, ahead, _ = self._ahead[stream]
        if not start <= offset < start + len(ahead):
            start = offset
            ahead, hidden = self._log.look(stream, self.budget, offset)
            self._ahead[stream] = start, ahead, hidden
        return ahead[offset - start : min(end - start, offset - start + self.budget)]


def _open_quietly(path: str) -> int:
    """Open for reading without recording the time of the last access, which would be a write for every
    read.
    """
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOATIME)
    except PermissionError:  # only the owner may use O_NOATIME (open(2))
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _size(fd: int) -> int:
    return 0 if fd == _CLOSED else os.fstat(fd).st_size
