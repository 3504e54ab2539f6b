"""Finding places in a process's output: lines with a text or a number, the last lines, a byte's place among
both streams.

Reads logs of any size with bounded memory; one turn reads at most 256 KiB. Blocking: run turns in a thread.
Never writes. Bytes come from `output_log`, which has redacted them.
"""

from collections.abc import Iterator

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import InvalidRequest
from outlive.store.output_log import MAX_PREAD_BYTES, OutputChunk, OutputLog, totals
from outlive.store.search.log_lines import SHOWN_BYTES, LogLine, lines_after, lines_before, redacted_around

MAX_TAIL_BYTES = 16 * 1024 * 1024  # from the end: the last lines are looked for within so much
_BLOCK_BYTES = 64 * 1024  # read at a time when looking backwards
_NEWLINE = b"\n"


class LogSearch:
    """Searches for a text from a cursor on, in the order of writing; call `turn` until `is_over`.

    Attributes:
        cursor: A search that begins here later misses no line and finds none twice.
        is_over: Everything that was there at the last turn has been searched.
    """

    def __init__(
        self,
        log: OutputLog,
        text: bytes,
        *,
        cursor: Cursor = BEGINNING,
        streams: frozenset[int] = frozenset({0, 1}),
        is_case_sensitive: bool = True,
        context: int = 0,
    ) -> None:
        """Search `log`; without case, ASCII letters match in either case.

        Raises:
            InvalidRequest: The text is empty or contains a newline.
        """
        if not text or _NEWLINE in text:
            raise InvalidRequest(
                "invalid_params", "What is looked for has one character at least, and no newline."
            )
        self.is_over = False
        self._log = log
        self._needle = text if is_case_sensitive else text.lower()
        self._is_case_sensitive = is_case_sensitive
        self._streams = streams
        self._context = context
        self._position = cursor
        self._scans = [_LineScan(cursor.stdout), _LineScan(cursor.stderr)]
        self._buffer = bytearray(MAX_PREAD_BYTES)

    @property
    def cursor(self) -> Cursor:
        """Where to go on: before an unfinished line, behind everything else that was searched."""
        return Cursor(*(scan.line_start for scan in self._scans))

    def turn(self, most: int) -> list[LogLine]:
        """Search the next piece; return at most `most` lines, in the order of writing.

        Raises:
            StoreCorrupt: The disk does not give the bytes.
        """
        found: list[LogLine] = []
        only = self._only_stream()
        # Bytes of one stream only need no index, which may have a record for every line.
        self.is_over = False
        if only is not None and self._skip(*only):
            return found
        chunks = self._log.read(self._position, MAX_PREAD_BYTES) if only is None else self._chunk_of(*only)
        self.is_over = not chunks
        for chunk in chunks:
            if chunk.stream in self._streams and not chunk.is_gap:
                for start, end in self._matches(chunk):
                    found.append(self._line(chunk.stream, start, end, chunk))
                    if len(found) == most:
                        self._stop_behind(chunk, end)
                        return found
            else:
                self._scans[chunk.stream].jump(chunk.end)
            self._position = OutputChunk.after(self._position, [chunk])
        return found

    def last(self) -> list[LogLine]:
        """Return matching lines that have no newline.

        To be called when `is_over` and the stream is complete.
        """
        found = []
        for stream, scan in enumerate(self._scans):
            if scan.is_hit:
                end = self._log.size(stream)
                found.append(self._line(stream, scan.line_start, end))
                scan.jump(end)
        return found

    def _only_stream(self) -> tuple[int, int] | None:
        """Return the one stream that has unread bytes, and how many; None if the order of two streams must be
        looked up.

        Looking it up reads the index, which may have a record for every line.
        """
        if len(self._streams) == 1:
            (stream,) = self._streams
            return stream, MAX_PREAD_BYTES
        here = (self._position.stdout, self._position.stderr)
        for stream in (0, 1):
            left = self._log.size(stream) - here[stream]
            if left > 0 and self._log.size(1 - stream) <= here[1 - stream]:
                return stream, min(left, MAX_PREAD_BYTES)  # the other stream has nothing to read
        return None

    def _skip(self, stream: int, most: int) -> bool:
        """Pass over a piece in which the text does not occur; return whether it was one.

        Most of a long log is like that, and a new object for each piece would cost more than searching it. A
        text with "*" may match redacted bytes, which only `read` shows: then nothing is skipped.
        """
        scan = self._scans[stream]
        if most < MAX_PREAD_BYTES or scan.is_hit or not self._is_case_sensitive or b"*" in self._needle:
            return False
        offset = (self._position.stdout, self._position.stderr)[stream]
        count = self._log.read_plain(stream, self._buffer, offset)
        if count < MAX_PREAD_BYTES or not scan.skip(self._buffer, offset, self._needle):
            return False
        end = offset + count
        self._position = Cursor(self._position.stdout, end) if stream else Cursor(end, self._position.stderr)
        return True

    def _chunk_of(self, stream: int, size: int) -> list[OutputChunk]:
        """Return the next piece of one stream."""
        offset = (self._position.stdout, self._position.stderr)[stream]
        data, hidden = self._log.look(stream, size, offset)
        if data:
            end = offset + len(data)
            return [OutputChunk(stream=stream, offset=offset, end=end, data=data, hidden=hidden)]
        gap = self._log.gap(stream)
        if gap is not None and gap[0] <= offset < gap[1]:
            return [OutputChunk(stream=stream, offset=offset, end=gap[1], data=b"")]
        return []

    def _matches(self, chunk: OutputChunk) -> Iterator[tuple[int, int]]:
        data = chunk.data if self._is_case_sensitive else chunk.data.lower()
        return self._scans[chunk.stream].feed(data, chunk.offset, self._needle)

    def _stop_behind(self, chunk: OutputChunk, end: int) -> None:
        """Drop what is behind a line: the next turn begins there."""
        following = end + 1
        self._scans[chunk.stream].jump(following)
        ends = [self._position.stdout, self._position.stderr]
        ends[chunk.stream] = following
        self._position = Cursor(*ends)

    def _line(self, stream: int, start: int, end: int, chunk: OutputChunk | None = None) -> LogLine:
        before: tuple[bytes, ...] = ()
        after: tuple[bytes, ...] = ()
        if self._context:
            before = lines_before(self._log, stream, start, self._context)
            after = lines_after(self._log, stream, end, self._context)
        # The chunk that was just searched mostly holds the line; only a longer line has to be read again.
        shown = min(end, start + SHOWN_BYTES)
        if chunk is not None and chunk.offset <= start:
            data, hidden = chunk.data[start - chunk.offset : shown - chunk.offset], chunk.hidden
        else:
            data, hidden = self._log.look(stream, shown - start, start) if end > start else (b"", ())
        return LogLine(
            stream=stream,
            offset=start,
            end=end,
            data=data,
            before=before,
            after=after,
            redacted=redacted_around(self._log, stream, (start, shown, end), hidden, before, after),
        )


class _LineScan:
    """The unfinished line of one stream: where it began, and as much of its end as may be the beginning of
    the text.

    Attributes:
        line_start: Offset of the unfinished line's first byte.
        is_hit: The text was found in it already.
    """

    __slots__ = ("_carry", "is_hit", "line_start")

    def __init__(self, offset: int) -> None:
        self.line_start = offset
        self.is_hit = False
        self._carry = b""

    def jump(self, offset: int) -> None:
        """Go on at `offset`, as at the beginning of a line."""
        self.line_start = offset
        self.is_hit = False
        self._carry = b""

    def skip(self, data: bytearray, offset: int, needle: bytes) -> bool:
        """Pass over bytes if no line that ends or continues in them can contain `needle`.

        Return whether that was so.
        """
        # The text may lie across two pieces: so many bytes of the first belong to the search in the second.
        keep = len(needle) - 1
        if keep >= len(data) or data.find(needle) >= 0 or (self._carry + data[:keep]).find(needle) >= 0:
            return False
        newline = data.rfind(_NEWLINE)
        if newline >= 0:
            self.line_start = offset + newline + 1
        rest = max(newline + 1, len(data) - keep)
        self._carry = bytes(data[rest:]) if keep else b""
        return True

    def feed(self, data: bytes, offset: int, needle: bytes) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of the finished lines that contain `needle`."""
        searched = 0
        # The text was found in this line before: only its end is still needed.
        if self.is_hit:
            newline = data.find(_NEWLINE)
            if newline < 0:
                return
            start = self.line_start
            self.jump(offset + newline + 1)
            yield start, offset + newline
            searched = newline + 1
        buffer = self._carry + data
        base = offset - len(self._carry)
        while (hit := buffer.find(needle, searched)) >= 0:
            line = buffer.rfind(_NEWLINE, 0, hit) + 1
            start = base + line if line else self.line_start
            newline = buffer.find(_NEWLINE, hit)
            if newline < 0:
                self.line_start, self.is_hit, self._carry = start, True, b""
                return
            searched = newline + 1
            yield start, base + newline
        newline = buffer.rfind(_NEWLINE)
        if newline >= 0:
            self.line_start = base + newline + 1
        rest = buffer[newline + 1 :]
        keep = len(needle) - 1
        self._carry = rest[-keep:] if keep else b""


def tail_start(log: OutputLog, count: int, *, stream: int | None = None) -> Cursor:
    """Return the cursor before the last `count` lines of a stream (0 stdout, 1 stderr), or of both in order
    of writing.

    With one stream, the other half of the cursor is the other stream's end. At most the last 16 MiB are
    searched: if lines are longer than that, fewer than `count` are behind the cursor.

    Raises:
        StoreCorrupt: The disk does not give the bytes.
    """
    sizes = (log.size(0), log.size(1))
    if stream is None:
        return _tail_of_both(log, count)
    start = _tail_of_one(log, count, stream, sizes[stream])
    return Cursor(sizes[0], start) if stream else Cursor(start, sizes[1])


def _tail_of_one(log: OutputLog, count: int, stream: int, size: int) -> int:
    gap = log.gap(stream)
    floor = max(0 if gap is None else gap[1], size - MAX_TAIL_BYTES)
    position, wanted = size, count
    while position > floor:
        begin = max(floor, position - _BLOCK_BYTES)
        data = log.pread(stream, position - begin, begin)
        if len(data) < position - begin:
            return position  # released meanwhile
        if position == size and data.endswith(_NEWLINE):
            wanted += 1  # the last line's own newline does not separate two lines
        newlines = data.count(_NEWLINE)
        if newlines >= wanted:
            return begin + _nth_newline_from_end(data, wanted) + 1
        wanted -= newlines
        position = begin
    return floor


def _tail_of_both(log: OutputLog, count: int) -> Cursor:
    # In larger and larger steps: the last lines are mostly short, and then the first step is enough.
    limit = _BLOCK_BYTES
    while True:
        begin = log.tail_cursor(limit)
        chunks = _everything(log, begin)
        wanted = count + bool(chunks and chunks[-1].data.endswith(_NEWLINE))
        if begin == BEGINNING or limit >= MAX_TAIL_BYTES:
            break
        if sum(chunk.data.count(_NEWLINE) for chunk in chunks) >= wanted:
            break
        limit *= 4
    for place in range(len(chunks) - 1, -1, -1):
        chunk = chunks[place]
        newlines = chunk.data.count(_NEWLINE)
        if newlines >= wanted:
            ends = OutputChunk.after(begin, chunks[:place])
            cut = chunk.offset + _nth_newline_from_end(chunk.data, wanted) + 1
            return Cursor(ends.stdout, cut) if chunk.stream else Cursor(cut, ends.stderr)
        wanted -= newlines
    return begin


def _everything(log: OutputLog, cursor: Cursor) -> list[OutputChunk]:
    chunks: list[OutputChunk] = []
    while (more := log.read(cursor, MAX_PREAD_BYTES)) and sum(
        len(one.data) for one in chunks
    ) < MAX_TAIL_BYTES:
        chunks += more
        cursor = OutputChunk.after(cursor, more)
    return chunks


def _nth_newline_from_end(data: bytes, count: int) -> int:
    place = len(data)
    for _ in range(count):
        place = data.rfind(_NEWLINE, 0, place)
    return place


class LineFinder:
    """Goes through a log from its beginning until a line begins, in turns of 256 KiB.

    Of two streams a line's number counts the newlines that were written before it, to either of them. Lines
    that the log no longer holds are not counted.

    Everything before `cursor` was counted, and `left` newlines lie between it and the line. `is_over`: it
    stands where the line begins, or at the log's end.
    """

    __slots__ = ("_buffer", "_is_single", "_log", "cursor", "is_over", "left")

    def __init__(self, log: OutputLog, line: int) -> None:
        self._log = log
        self._buffer = bytearray(MAX_PREAD_BYTES)
        self._is_single = log.size(1) == 0
        self.cursor = BEGINNING
        self.left = line - 1
        self.is_over = not self.left

    def turn(self) -> None:
        """Go on by at most 256 KiB.

        Raises:
            StoreCorrupt: The disk does not give the bytes.
        """
        # Of one stream the bytes are counted where they lie.
        if self._is_single and (count := self._log.read_plain(0, self._buffer, self.cursor.stdout)):
            found = self._buffer.count(_NEWLINE, 0, count)
            if found >= self.left:
                self._stop(0, bytes(self._buffer[:count]))
            else:
                self.left -= found
                self.cursor = Cursor(self.cursor.stdout + count, 0)
            return
        chunks = self._log.read(self.cursor, MAX_PREAD_BYTES)
        self.is_over = not chunks
        for chunk in chunks:
            found = chunk.data.count(_NEWLINE)
            if found >= self.left:
                self._stop(chunk.stream, chunk.data)
                return
            self.left -= found
            self.cursor = OutputChunk.after(self.cursor, (chunk,))

    def _stop(self, stream: int, data: bytes) -> None:
        """Stand behind the last newline that was looked for; `data` begins at the cursor."""
        place = 0
        for _ in range(self.left):
            place = data.index(_NEWLINE, place) + 1
        self.left = 0
        self.is_over = True
        stdout, stderr = self.cursor.stdout, self.cursor.stderr
        self.cursor = Cursor(stdout, stderr + place) if stream else Cursor(stdout + place, stderr)


def position_of(log: OutputLog, stream: int, offset: int) -> int:
    """Return how many bytes of both streams were written before byte `offset` of a stream (0 stdout, 1
    stderr).
    """
    index = log.index()
    if index is None:
        return offset
    # Totals only grow, so that the last run that does not begin behind the byte has it.
    place = index.last_where(lambda record: totals(record)[stream] <= offset)
    record = next(index.records(place), None)
    return offset if record is None else record.start + max(0, offset - totals(record)[stream])
