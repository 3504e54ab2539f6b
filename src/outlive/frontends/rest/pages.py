"""Output from the log for one answer: a page of pieces, a search, a stream of bytes. Nothing is consumed.

The event loop reads at most 256 KiB a turn; what takes longer is done in a thread, on a log of its own.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import CursorExpired
from outlive.core.redactions import Redactions
from outlive.engine import Process
from outlive.protocols.jsonrpc.output import STREAM_NAMES
from outlive.protocols.jsonrpc.views import Piece
from outlive.protocols.rest.answers import match_view
from outlive.store.log_search import LogLine, LogSearch, tail_start
from outlive.store.output_log import MAX_PREAD_BYTES, OutputLog

_NUMBERS: dict[str, int] = {name: number for number, name in enumerate(STREAM_NAMES)}
_TURNS = 32  # of 256 KiB each, in one visit to a thread: some ms, and it can be stopped between two
# One request searches at most this much; then the cursor tells where to go on.
_MOST_SEARCHED_BYTES = 1024**3
_COUNTED_BYTES = 64 * 1024**2  # some 50 ms in a thread


@dataclass(frozen=True, slots=True)
class Extent:
    """From where to where; `stream` None means both in the order of writing, else the other half stands still."""

    begin: Cursor
    end: Cursor
    stream: int | None

    @property
    def sizes(self) -> tuple[int, int]:
        """How many bytes of stdout and of stderr lie between."""
        out = max(0, self.end.stdout - self.begin.stdout)
        err = max(0, self.end.stderr - self.begin.stderr)
        return (0 if self.stream == 1 else out, 0 if self.stream == 0 else err)


def read_pieces(log: OutputLog, extent: Extent, limit_bytes: int, redactions: Redactions) -> list[Piece]:
    """Return the next pieces, at most 256 KiB; none means that there is nothing up to the end of `extent`.

    `redactions` counts what one reader is shown.
    """
    limit = min(limit_bytes, MAX_PREAD_BYTES)
    if extent.stream is not None:
        return _read_one(log, extent, extent.stream, limit, redactions)
    ends = (extent.end.stdout, extent.end.stderr)
    pieces = []
    for chunk in log.read(extent.begin, limit):
        end = min(chunk.end, ends[chunk.stream])
        if end > chunk.offset:
            data = None if chunk.is_gap else chunk.data[: end - chunk.offset]
            redacted = redactions.count(chunk.stream, chunk.offset, end, chunk.hidden)
            pieces.append(Piece(chunk.stream, chunk.offset, end, data, redacted))
    return pieces


def _read_one(log: OutputLog, extent: Extent, stream: int, limit: int, redactions: Redactions) -> list[Piece]:
    places = (extent.begin.stderr, extent.end.stderr) if stream else (extent.begin.stdout, extent.end.stdout)
    begin, end = places
    if begin >= end:
        return []
    data, hidden = log.look(stream, min(limit, end - begin), begin)
    if data:
        last = begin + len(data)
        return [Piece(stream, begin, last, data, redactions.count(stream, begin, last, hidden))]
    gap = log.gap(stream)
    if gap is not None and gap[0] <= begin < gap[1]:
        return [Piece(stream, begin, min(gap[1], end), None)]
    return []


def gaps_within(log: OutputLog, extent: Extent) -> list[tuple[int, int, int]]:
    """Return (stream, from, to) of what the log no longer holds of `extent`."""
    found = []
    places = ((extent.begin.stdout, extent.end.stdout), (extent.begin.stderr, extent.end.stderr))
    for stream, (begin, end) in enumerate(places):
        gap = log.gap(stream) if extent.sizes[stream] else None
        if gap is not None and max(begin, gap[0]) < min(end, gap[1]):
            found.append((stream, max(begin, gap[0]), min(end, gap[1])))
    return found


async def raw_pieces(log: OutputLog, extent: Extent, *, skips_gaps: bool) -> AsyncIterator[bytes]:
    """Yield the bytes of `extent`.

    Raises:
        CursorExpired: Some of it was released meanwhile; what was yielded before is right.
    """
    begin = extent.begin
    redactions = Redactions()  # told in the head of the answer, before
    while pieces := read_pieces(log, Extent(begin, extent.end, extent.stream), MAX_PREAD_BYTES, redactions):
        ends = [begin.stdout, begin.stderr]
        for piece in pieces:
            if piece.data is None and not skips_gaps:
                raise CursorExpired("cursor_expired", "Output was released while it was read.")
            ends[piece.stream] = piece.end
        begin = Cursor(*ends)
        yield b"".join(piece.data for piece in pieces if piece.data is not None)
        await asyncio.sleep(0)  # one large answer must not starve the rest


async def redacted_in(process: Process, extent: Extent) -> str:
    """Return how many secrets `extent` shows as stars, as the head of an answer tells it: "0", "3", or "3+" of more than 64 MiB.

    What lies behind that much is not looked through: an answer would wait for it.
    """
    redactions = Redactions()

    def look() -> bool:
        log = process.open_log()
        begin, left = extent.begin, _COUNTED_BYTES
        try:
            while left > 0:
                pieces = read_pieces(
                    log, Extent(begin, extent.end, extent.stream), MAX_PREAD_BYTES, redactions
                )
                if not pieces:
                    return True
                ends = [begin.stdout, begin.stderr]
                for piece in pieces:
                    ends[piece.stream] = piece.end
                    left -= piece.end - piece.start
                begin = Cursor(*ends)
        finally:
            log.close()
        return begin == extent.end

    is_all = await asyncio.to_thread(look)
    return f"{redactions.total}{'' if is_all else '+'}"


async def tail_of(process: Process, count: int, stream: int | None) -> Cursor:
    """Return the cursor before the last `count` lines."""

    def find() -> Cursor:
        log = process.open_log()
        try:
            return tail_start(log, count, stream=stream)
        finally:
            log.close()

    return await asyncio.to_thread(find)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """What a search has found, where to go on, and whether there is anything left to search."""

    lines: list[dict[str, object]]
    redacted: int
    cursor: Cursor
    has_more: bool


async def search(
    process: Process,
    text: str,
    *,
    cursor: Cursor,
    stream: int | None,
    is_case_sensitive: bool,
    context: int,
    most: int,
    stopping: asyncio.Event,
) -> Matches:
    """Return the first lines from `cursor` on that contain `text`.

    Raises:
        InvalidRequest: No line can contain it.
    """
    is_complete = process.is_complete  # asked before the search: then it sees everything
    log = process.open_log()
    searching = LogSearch(
        log,
        text.encode(),
        cursor=cursor,
        streams=frozenset({0, 1} if stream is None else {stream}),
        is_case_sensitive=is_case_sensitive,
        context=context,
    )
    found: list[LogLine] = []
    visited = 0

    def visit() -> None:
        for _ in range(_TURNS):
            if searching.is_over or len(found) >= most:
                return
            found.extend(searching.turn(most - len(found)))

    # The descriptors are closed with the last reference: a cancelled request may leave a visit behind.
    while not (searching.is_over or len(found) >= most or stopping.is_set()):
        if visited * _TURNS * MAX_PREAD_BYTES >= _MOST_SEARCHED_BYTES:
            break
        await asyncio.to_thread(visit)
        visited += 1
    if searching.is_over and is_complete and len(found) < most:
        found += await asyncio.to_thread(searching.last)
    lines = [match_view(one.stream, one.offset, one.end, one.data, one.before, one.after) for one in found]
    redacted = sum(one.redacted for one in found)
    return Matches(lines=lines, redacted=redacted, cursor=searching.cursor, has_more=not searching.is_over)


def end_of(log: OutputLog) -> Cursor:
    """Return the end of the output as it is now for readers of this log."""
    return Cursor(log.size(0), log.size(1))


def start_of(text: str | None) -> Cursor:
    """Read a cursor; None is the beginning."""
    return BEGINNING if text is None else Cursor.parse(text)


def stream_number(name: str) -> int | None:
    """Return 0, 1, or None for both."""
    return _NUMBERS.get(name)
