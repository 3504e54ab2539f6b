"""Output in turns: what one turn of the event loop reads of a log, ended at a newline where there is one.

Nothing is consumed.

The log is read on the loop, whose reader knows up to where it has looked for secrets. What is made of the
bytes is made in a thread (`in_thread`): half a second for the 128,000 lines that 256 KiB may be.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar, TypeVarTuple, Unpack

from outlive.core.cursor import Cursor
from outlive.core.values import dataclass
from outlive.engine import OutputChunk, OutputLog
from outlive.protocols.plain import Line, LineSplitter

TURN_BYTES = 256 * 1024  # what the event loop may read in one turn
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
    while read := log.read(position, TURN_BYTES):
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
