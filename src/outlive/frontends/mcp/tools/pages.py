"""Pages of output for the lean tools: `LeanPage`, read from the log at a cursor and made plain. Nothing is
consumed.

A page is read at its ends; what lies between is looked through for reported errors, up to a bound. Its lines
are without terminal noise and repetition, binary data is one line or hexadecimal digits. Which of them are
shown is decided in `protocols.output`. The output that a waiting call has not reported yet: `News`, a cursor
on the log.

The log is read in turns of the event loop (`turns`), each ended at a newline where there is one, by a reader
that knows up to where it has looked for secrets. What is made of the bytes is made in a thread (`in_thread`):
half a second for the 128,000 lines that 256 KiB may be.
"""

import asyncio
import codecs
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TypeVar, TypeVarTuple, Unpack

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.values import dataclass, replace
from outlive.engine import OutputChunk, OutputLog, Process
from outlive.protocols.output.binary import (
    BINARY,
    MAGIC_BYTES,
    BinaryRun,
    binary_mark,
    binary_runs,
    is_binary,
    with_visible_nuls,
)
from outlive.protocols.output.body import CONTEXT_LINES, Excerpt, Source, body, redacted_in
from outlive.protocols.output.collapse import collapse
from outlive.protocols.output.error_lines import error_spans, with_errors
from outlive.protocols.output.matches import Matches
from outlive.protocols.plain import Line, LineSplitter, strip_ansi

_TURN_BYTES = 256 * 1024  # what the event loop may read in one turn
# A page of so few bytes is made on the loop: 5 ms where each line is one character, 0.3 ms where lines are
# words.
_SMALL_BYTES = 2048

_Made = TypeVar("_Made")
_Arguments = TypeVarTuple("_Arguments")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Chunks between two cursors, in the order of writing."""

    start: Cursor
    end: Cursor
    chunks: list[OutputChunk]

    def lines(self) -> list[Line]:
        """Return the lines in it; the last one may go on in the next turn, and says so."""
        splitter = LineSplitter(self.start)
        self.feed(splitter)
        splitter.finish()
        return splitter.lines

    def feed(self, splitter: LineSplitter) -> None:
        """Give its chunks to a splitter that ends where it begins."""
        for chunk in self.chunks:
            if chunk.is_gap:
                splitter.skip(chunk.stream, chunk.end - chunk.offset)
            else:
                splitter.feed(chunk.stream, chunk.data, chunk.hidden)

    def stream(self, stream: int) -> bytes:
        """Return the bytes of one stream in it, one behind the other."""
        return b"".join(chunk.data for chunk in self.chunks if chunk.stream == stream)

    def last_lines(self, count: int) -> list[Line]:
        """Return its last `count` lines, as far as its last chunk has them."""
        chunk = self.chunks[-1]
        if chunk.is_gap or not count:
            return []
        # The last chunk mostly ends with a newline, which separates no lines.
        begin = lines_back(chunk.data, len(chunk.data) - chunk.data.endswith(b"\n"), count)
        return self.part(len(self.chunks) - 1, begin, len(chunk.data))[-count:]

    def part(self, place: int, begin: int, end: int) -> list[Line]:
        """Return the lines of bytes `begin` to `end` of the chunk at `place`."""
        chunk = self.chunks[place]
        ends = OutputChunk.after(self.start, self.chunks[:place])
        offset = chunk.offset + begin
        splitter = LineSplitter(Cursor(ends.stdout, offset) if chunk.stream else Cursor(offset, ends.stderr))
        splitter.feed(chunk.stream, chunk.data[begin:end], chunk.hidden)
        splitter.finish()
        return splitter.lines


def lines_back(data: bytes, place: int, count: int) -> int:
    """Return where the line begins that lies `count` newlines before `place`, a place in or behind a line."""
    for _ in range(count):
        place = data.rfind(b"\n", 0, place)
        if place < 0:
            return 0
    return place + 1


def lines_on(data: bytes, place: int, count: int) -> int:
    """Return the place behind `count` newlines after `place`, or the end."""
    for _ in range(count):
        place = data.find(b"\n", place) + 1
        if not place:
            return len(data)
    return place


async def turns(log: OutputLog, start: Cursor, end: Cursor) -> AsyncIterator[Turn]:
    """Yield what was written between two cursors, at most 256 KiB at a time; other tasks run in between.

    Cancellation: safe; nothing is consumed.
    """
    position = start
    ends = (end.stdout, end.stderr)
    while read := log.read(position, _TURN_BYTES):
        chunks = [one for chunk in read if (one := _within(chunk, ends[chunk.stream])) is not None]
        if not chunks:
            return
        # The rest is read again with the next turn: at most one line twice, where no state has to be kept
        # between turns.
        chunks[-1] = _whole_lines(chunks[-1])
        after = OutputChunk.after(position, chunks)
        yield Turn(start=position, end=after, chunks=chunks)
        position = after
        await asyncio.sleep(0)  # bounded work per turn


async def in_thread(size: int, work: Callable[[Unpack[_Arguments]], _Made], *arguments: *_Arguments) -> _Made:
    """Return what `work` makes of `size` bytes of output: in a thread, unless they are so few that this would
    take longer.

    Cancellation: safe; `work` must change nothing that others use, since it goes on.
    """
    return work(*arguments) if size <= _SMALL_BYTES else await asyncio.to_thread(work, *arguments)


async def read_lines(log: OutputLog, start: Cursor, end: Cursor) -> list[Line]:
    """Return the lines between two cursors, which the caller has bounded.

    Cancellation: safe; nothing is consumed.
    """
    read = [turn async for turn in turns(log, start, end)]
    return await in_thread(between(start, end), _lines_of, start, read)


def _lines_of(start: Cursor, read: list[Turn]) -> list[Line]:
    splitter = LineSplitter(start)
    for turn in read:
        turn.feed(splitter)
    splitter.finish()
    return splitter.lines


def between(start: Cursor, end: Cursor) -> int:
    """Return how many bytes of both streams lie between two cursors."""
    return max(0, end.stdout - start.stdout) + max(0, end.stderr - start.stderr)


def _within(chunk: OutputChunk, end: int) -> OutputChunk | None:
    """Return what of a chunk lies before `end`; None if nothing does."""
    if chunk.offset >= end:
        return None
    return chunk if chunk.end <= end else _first_bytes(chunk, end - chunk.offset)


def _whole_lines(chunk: OutputChunk) -> OutputChunk:
    """Return a chunk up to its last newline: the beginning of a line belongs into the next turn."""
    newline = chunk.data.rfind(b"\n")
    return chunk if newline < 0 else _first_bytes(chunk, newline + 1)


def _first_bytes(chunk: OutputChunk, size: int) -> OutputChunk:
    if size == chunk.end - chunk.offset:
        return chunk
    # Redacted spans behind the end do no harm: they are offsets, and are cut to the bytes that they are asked
    # about.
    return OutputChunk(
        stream=chunk.stream,
        offset=chunk.offset,
        end=chunk.offset + size,
        data=chunk.data[:size],
        time_ns=chunk.time_ns,
        hidden=chunk.hidden,
    )


_HEX_BYTES = 32  # in a line of hexadecimal digits: 64 characters
# Of binary data that was not read: so many samples, and the length of each.
_SAMPLES = 16
_SAMPLE_BYTES = 2048
_PREAD_BYTES = 64 * 1024  # in one call, while a page's binary data is read once more

_Pieces = list[tuple[int, bytes]]  # bytes one behind the other, each piece with its stream


async def prepared(log: OutputLog, lines: list[Line], *, raw: bool) -> list[Line]:
    """Return lines for an answer; those that report an error say so.

    With `raw`, only binary data is changed: it becomes hexadecimal digits, 32 bytes a line, which a text can
    carry.

    Cancellation: safe; nothing is consumed.
    """
    size = between(lines[0].start, lines[-1].end) if lines else 0
    runs = await in_thread(size, _binary_runs, lines)
    # The log is read here, on the loop; what is made of it, in a thread.
    if raw:
        return await in_thread(size, _with_digits, lines, runs, [_bytes_of(log, run) for run in runs])
    return await in_thread(size, _collapsed, lines, runs, [[_mark(log, run.start, run.end)] for run in runs])


def _binary_runs(lines: list[Line]) -> list[BinaryRun]:
    return list(binary_runs(lines))


def _with_digits(lines: list[Line], runs: list[BinaryRun], found: list[_Pieces]) -> list[Line]:
    digits = [_hex_lines(run, pieces) for run, pieces in zip(runs, found, strict=True)]
    return with_errors(_replaced(lines, runs, digits))


def _collapsed(lines: list[Line], runs: list[BinaryRun], marks: list[list[Line]]) -> list[Line]:
    return with_errors(collapse(stripped(_replaced(lines, runs, marks), raw=False)))


def _replaced(lines: list[Line], runs: list[BinaryRun], found: list[list[Line]]) -> list[Line]:
    """Return lines with what was found in the place of each run of binary data."""
    shown: list[Line] = []
    position = 0
    for run, instead in zip(runs, found, strict=True):
        shown += [*lines[position : run.first], *instead]
        position = run.last
    return [*shown, *lines[position:]]


def joined_binary(log: OutputLog, head: list[Line], tail: list[Line]) -> list[Line] | None:
    """Return both ends of an output with one mark for the binary data between them; None if it is not all
    binary.

    What lies between was not read: samples of it must be binary, too.
    """
    if not (head and tail and _is_binary_mark(head[-1]) and _is_binary_mark(tail[0])):
        return None
    stream, begin = _place(head[-1].end, tail[0].start)
    end = tail[0].start.stderr if stream else tail[0].start.stdout
    # A log of gigabytes is not read for one line of an answer: samples from all over it decide.
    for place in range(begin, end, max(_SAMPLE_BYTES, (end - begin) // _SAMPLES)):
        data, _ = log.look(stream, min(_SAMPLE_BYTES, end - place), place)
        # A piece of a few bytes between the two says nothing.
        if len(data) == _SAMPLE_BYTES and not is_binary(data.decode("utf-8", "replace")):
            return None
    return [*head[:-1], _mark(log, head[-1].start, tail[0].end), *tail[1:]]


def stripped(lines: list[Line], *, raw: bool) -> list[Line]:
    """Return lines without escape sequences and overwritten text, unless they are wanted raw."""
    return lines if raw else [_stripped(line) for line in lines]


def _stripped(line: Line) -> Line:
    text = strip_ansi(with_visible_nuls(line.text))
    # Most lines have nothing to strip, and a new object costs more than the comparison.
    return line if text == line.text else replace(line, text=text)


def _mark(log: OutputLog, start: Cursor, end: Cursor) -> Line:
    stream, offset = _place(start, end)
    first, _ = log.look(stream, MAGIC_BYTES, offset)
    mark = Line(text="", start=start, end=end, is_mark=True)
    return replace(mark, text=binary_mark(mark.size, first))


def _is_binary_mark(line: Line) -> bool:
    return line.is_mark and line.text.startswith(BINARY)


def _bytes_of(log: OutputLog, run: BinaryRun) -> _Pieces:
    """Return binary data, stdout first: each piece with its stream."""
    pieces: _Pieces = []
    begins = (run.start.stdout, run.start.stderr)
    for stream, end in ((0, run.end.stdout), (1, run.end.stderr)):
        position = begins[stream]
        while position < end:
            data, _ = log.look(stream, min(_PREAD_BYTES, end - position), position)
            if not data:  # released meanwhile: what is left is said by the next line's cursor
                break
            pieces.append((stream, data))
            position += len(data)
    return pieces


def _hex_lines(run: BinaryRun, pieces: _Pieces) -> list[Line]:
    """Return binary data as lines of digits below a line that says so."""
    lines = [Line(text="[binary data as hexadecimal digits]", start=run.start, end=run.start)]
    position = [run.start.stdout, run.start.stderr]
    for stream, data in pieces:
        for begin in range(0, len(data), _HEX_BYTES):
            piece = data[begin : begin + _HEX_BYTES]
            start = Cursor(*position)
            position[stream] += len(piece)
            lines.append(Line(text=piece.hex(), start=start, end=Cursor(*position)))
    return lines


def _place(start: Cursor, end: Cursor) -> tuple[int, int]:
    """Return the stream and the offset of the first byte between two cursors."""
    return (0, start.stdout) if start.stdout != end.stdout else (1, start.stderr)


# A page is made from at most this much at each end; what lies between is named by the omission mark.
_END_BYTES = 128 * 1024
# What lies between is looked through for errors: so much from each of its ends. The first error of a flood
# lies near its beginning and the last one near its end, and 8 MiB take about half a second beside everything
# else.
_SCAN_BYTES = 4 * 1024 * 1024
# Lines that are kept of each of these: 40 errors with the lines around them fill the largest usual budget.
_MOST_KEPT = 40 * (2 * CONTEXT_LINES + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeanPage:
    """A piece of output: what was read of it, and where it ends.

    `matches` is set by a search, with its `pattern`; `note` is said before them.
    """

    excerpt: Excerpt
    cursor: Cursor
    matches: Matches | None = None
    pattern: str = ""
    note: str = ""

    def text(self, source: Source, *, budget: int) -> str:
        """Return it within a budget of characters; `source` is how the caller reads what its marks leave
        out.
        """
        if self.matches is None:
            return body(self.excerpt, budget=budget, source=source)
        found = self.matches.text(budget, source=source, pattern=self.pattern)
        return "\n".join(part for part in (self.note, found) if part)

    async def shown(self, source: Source, *, budget: int) -> tuple[str, int]:
        """Return its text, and how many secrets are stars in that. Cancellation: safe."""

        def make() -> tuple[str, int]:
            return self.text(source, budget=budget), self.redacted(budget=budget)

        return await in_thread(between(self.excerpt.start, self.excerpt.end), make)

    def redacted(self, *, budget: int) -> int:
        """Return how many secrets are stars in the lines that `text` shows."""
        if self.matches is None:
            return redacted_in(self.excerpt, budget=budget)
        return sum(one.line.redacted for part in self.matches.shown(budget) for one in part)


async def read_page(
    log: OutputLog, cursor: Cursor, end: Cursor | None = None, *, raw: bool = False
) -> LeanPage:
    """Return the output from `cursor` to `end`, or to what there is now.

    Cancellation: safe; nothing is consumed.
    """
    # One end for the whole page: what is written meanwhile belongs to the next one, and cursors stay exact.
    end = earlier(end, log.end)
    if between(cursor, end) <= 2 * _END_BYTES:
        lines = await read_lines(log, cursor, end)
        stop = lines[-1].end if lines else cursor
        return LeanPage(
            excerpt=Excerpt(lines=await prepared(log, lines, raw=raw), start=cursor, end=stop),
            cursor=end,
        )
    begin = _before(log, end, cursor, _END_BYTES)
    head = await _first_lines(log, cursor, begin)
    tail = await read_lines(log, begin, end)
    # Its first line was cut by the window; the hole's mark takes those bytes.
    if len(tail) > 1:
        tail = tail[1:]  # it begins in the middle
    hole = (head[-1].end if head else cursor, tail[0].start if tail else end)
    errors, unsearched = await _errors_between(log, *hole)
    shown = await prepared(log, head, raw=raw), await prepared(log, tail, raw=raw)
    lines = joined_binary(log, *shown) or [*shown[0], *errors, *shown[1]]
    stop = tail[-1].end if tail else end
    return LeanPage(excerpt=Excerpt(lines=lines, start=cursor, end=stop, unsearched=unsearched), cursor=end)


async def read_tail(log: OutputLog, count: int, *, raw: bool = False) -> LeanPage:
    """Return the last `count` lines, as far as 128 KiB reach."""
    end = log.end
    begin = _before(log, end, BEGINNING, _END_BYTES)
    lines = await read_lines(log, begin, end)
    if begin != BEGINNING and len(lines) > 1:
        lines = lines[1:]  # it may begin in the middle
    lines = lines[-count:]
    start, stop = (lines[0].start, lines[-1].end) if lines else (end, end)
    return LeanPage(
        excerpt=Excerpt(lines=await prepared(log, lines, raw=raw), start=start, end=stop), cursor=end
    )


async def read_head(log: OutputLog, count: int, *, raw: bool = False) -> LeanPage:
    """Return the first `count` lines, as far as one turn reaches."""
    lines = (await _first_lines(log, BEGINNING, log.end))[:count]
    start, stop = (lines[0].start, lines[-1].end) if lines else (BEGINNING, BEGINNING)
    return LeanPage(
        excerpt=Excerpt(lines=await prepared(log, lines, raw=raw), start=start, end=stop), cursor=stop
    )


def earlier(end: Cursor | None, now: Cursor) -> Cursor:
    """Return where a page ends that was asked for up to `end`, of what there is `now`."""
    return now if end is None else Cursor(min(end.stdout, now.stdout), min(end.stderr, now.stderr))


async def _first_lines(log: OutputLog, start: Cursor, end: Cursor) -> list[Line]:
    """Return the lines of the first turn between two cursors."""
    async for turn in turns(log, start, end):
        return await in_thread(between(turn.start, turn.end), turn.lines)
    return []


async def _errors_between(
    log: OutputLog, start: Cursor, end: Cursor
) -> tuple[list[Line], tuple[Cursor, Cursor] | None]:
    """Return the lines of a hole that report errors, with those around them, and what of it was not looked
    through.
    """
    first: list[Line] = []
    position = start
    async for turn in turns(log, start, end):
        first += await in_thread(between(turn.start, turn.end), _error_lines, turn)
        position = turn.end
        if len(first) >= _MOST_KEPT or between(start, position) >= _SCAN_BYTES:
            break
    if not between(position, end):
        return first, None
    last: deque[Line] = deque(maxlen=_MOST_KEPT)
    begin = _before(log, end, position, _SCAN_BYTES)
    async for turn in turns(log, begin, end):
        last += await in_thread(between(turn.start, turn.end), _error_lines, turn)
    return [*first, *last], (position, begin) if between(position, begin) else None


def _error_lines(turn: Turn) -> list[Line]:
    """Return the lines of a turn that report errors, with those around them that the same stream has
    written.
    """
    found: list[Line] = []
    for place, chunk in enumerate(turn.chunks):
        taken = 0  # bytes of the chunk that are in `found`, or before it
        for begin, end in error_spans(chunk.data):
            first = max(taken, lines_back(chunk.data, begin, CONTEXT_LINES + 1))
            taken = lines_on(chunk.data, end, CONTEXT_LINES + 1)
            found += turn.part(place, first, taken)
    return with_errors(stripped(found, raw=False))


def _before(log: OutputLog, end: Cursor, bound: Cursor, size: int) -> Cursor:
    """Return a cursor some `size` bytes before `end` (the end of the log, or a cursor of an earlier
    answer).
    """
    if end == log.end:
        near = log.tail_cursor(size)
    else:
        # As much of each stream as there is of it before `end`: the order of the two is not asked for.
        share = size * end.stdout // max(1, end.stdout + end.stderr)
        near = Cursor(max(0, end.stdout - share), max(0, end.stderr - (size - share)))
    return Cursor(max(near.stdout, bound.stdout), max(near.stderr, bound.stderr))


def has_more(process: Process, cursor: Cursor) -> bool:
    """Tell whether a process has written more than what ends at `cursor`, as far as the keeper has
    reported.
    """
    status = process.status
    return cursor.stdout < status.stdout_bytes or cursor.stderr < status.stderr_bytes


# A progress message is for watching; the result and the log have everything. What is more is skipped, and
# said.
_MOST_BYTES = 16 * 1024


class News:
    """Takes new output of both streams, in the order of writing, as text."""

    def __init__(self, process: Process, cursor: Cursor = BEGINNING) -> None:
        """Begin at `cursor`."""
        self._process = process
        self._cursor = cursor
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(2)]

    @property
    def is_waiting(self) -> bool:
        """Whether there is output that was not taken, as far as the keeper has reported."""
        return has_more(self._process, self._cursor)

    def take(self, *, is_last: bool) -> str:
        """Return what is new, its last 16 KiB if it is more; `is_last` also the beginning of a character."""
        log = self._process.log
        text = ""
        behind = log.size(0) + log.size(1) - self._cursor.stdout - self._cursor.stderr
        if behind > _MOST_BYTES:
            tail = log.tail_cursor(_MOST_BYTES)
            ahead = Cursor(max(tail.stdout, self._cursor.stdout), max(tail.stderr, self._cursor.stderr))
            skipped = ahead.stdout + ahead.stderr - self._cursor.stdout - self._cursor.stderr
            self._cursor = ahead
            for decoder in self._decoders:
                decoder.reset()
            text = f"[... {skipped} bytes not shown here ...]\n"
        # Once more than once: a read charges for each run, and many short ones must not be left for later.
        while chunks := log.read(self._cursor, 2 * _MOST_BYTES):
            self._cursor = OutputChunk.after(self._cursor, chunks)
            text += "".join(self._decoders[chunk.stream].decode(chunk.data) for chunk in chunks)
            if len(text) > 2 * _MOST_BYTES:
                break
        if is_last:
            text += "".join(decoder.decode(b"", final=True) for decoder in self._decoders)
        return text
