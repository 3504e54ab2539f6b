"""Pages of output for the lean tools: `LeanPage`, read from the log at a cursor and made plain. Nothing is consumed.

The output that a waiting call has not reported yet: `News`, a cursor on the log.
"""

import asyncio
import codecs
from collections import deque
from dataclasses import dataclass, replace

from outlive.core.cursor import BEGINNING, Cursor
from outlive.engine import OutputChunk, Process
from outlive.protocols.mcp.texts import body, redacted_in
from outlive.protocols.plain import Line, LineSplitter, collapse, strip_ansi

_TURN_BYTES = 256 * 1024  # what the event loop may read in one turn
# A page is made from at most this much at each end; what lies between is named by the omission mark.
_END_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LeanPage:
    """A piece of output: its lines, those behind a hole, and where it ends. `lines` is None when not all were counted."""

    head: list[Line]
    tail: list[Line]
    cursor: Cursor
    lines: int | None

    def text(self, process_id: str, *, budget: int) -> str:
        """Return it within a budget of characters."""
        return body(self.head, self.tail, budget=budget, process_id=process_id)

    def redacted(self, *, budget: int) -> int:
        """Return how many secrets are stars in the lines that `text` shows."""
        return redacted_in(self.head, self.tail, budget=budget)


async def read_page(
    process: Process, cursor: Cursor, end: Cursor | None = None, *, raw: bool = False
) -> LeanPage:
    """Return the output from `cursor` to `end`, or to what there is now.

    Cancellation: safe; nothing is consumed.
    """
    log = process.log
    now = Cursor(log.size(0), log.size(1))
    end = now if end is None else Cursor(min(end.stdout, now.stdout), min(end.stderr, now.stderr))
    if _between(cursor, end) <= 2 * _END_BYTES:
        lines = await _lines(process, cursor, end)
        is_all = cursor == BEGINNING and end == now
        return LeanPage(
            head=_plain(lines, raw=raw), tail=[], cursor=end, lines=len(lines) if is_all else None
        )
    head = await _lines(process, cursor, end, most_bytes=_END_BYTES)
    begin = _before(process, end, cursor)
    tail = await _lines(process, begin, end)
    return LeanPage(head=_plain(head[:-1], raw=raw), tail=_plain(tail[1:], raw=raw), cursor=end, lines=None)


async def read_tail(process: Process, count: int, *, raw: bool = False) -> LeanPage:
    """Return the last `count` lines, as far as 128 KiB reach."""
    end = Cursor(process.log.size(0), process.log.size(1))
    begin = _before(process, end, BEGINNING)
    lines = await _lines(process, begin, end)
    if begin != BEGINNING:
        lines = lines[1:]  # it may begin in the middle
    return LeanPage(head=_plain(lines[-count:], raw=raw), tail=[], cursor=end, lines=None)


async def read_matches(
    process: Process, cursor: Cursor, wanted: str, *, context: int, most: int, raw: bool = False
) -> LeanPage:
    """Return the lines from `cursor` on that contain one of the texts of `wanted` ("a|b"), with lines around them.

    Plain text in either case, no pattern: a pattern may take for ever. Stops after `most` characters.
    """
    texts = [text.lower() for text in wanted.split("|") if text]
    found: list[Line] = []
    before: deque[Line] = deque(maxlen=context)
    after = size = 0
    splitter = LineSplitter(cursor)
    while size < most and (chunks := process.log.read(splitter.cursor, _TURN_BYTES)):
        for chunk in chunks:
            if chunk.is_gap:
                splitter.skip(chunk.stream, chunk.end - chunk.offset)
            else:
                splitter.feed(chunk.stream, chunk.data, chunk.hidden)
        lines, splitter.lines = splitter.lines, []
        for line in _stripped(lines, raw=raw):
            text = line.text.lower()
            if any(wanted_text in text for wanted_text in texts):
                found += [*before, line]
                before.clear()
                after = context
            elif after:
                found.append(line)
                after -= 1
            else:
                before.append(line)
        size = sum(len(line.text) + 1 for line in found)
        await asyncio.sleep(0)  # bounded work per turn
    splitter.finish()
    for line in _stripped(splitter.lines, raw=raw):
        if any(wanted_text in line.text.lower() for wanted_text in texts):
            found += [*before, line]
    return LeanPage(head=found, tail=[], cursor=splitter.cursor, lines=None)


async def _lines(
    process: Process, cursor: Cursor, end: Cursor, *, most_bytes: int = 4 * _END_BYTES
) -> list[Line]:
    splitter = LineSplitter(cursor)
    ends = (end.stdout, end.stderr)
    taken = 0
    while taken < most_bytes and (
        chunks := process.log.read(splitter.cursor, min(_TURN_BYTES, most_bytes - taken))
    ):
        progress = 0
        for chunk in chunks:
            size = min(chunk.end, ends[chunk.stream]) - chunk.offset
            if size <= 0:
                continue  # behind the end; the other stream may have some left
            progress += size
            if chunk.is_gap:
                splitter.skip(chunk.stream, size)
            else:
                splitter.feed(chunk.stream, chunk.data[:size], chunk.hidden)
        if not progress:
            break
        taken += progress
        await asyncio.sleep(0)  # bounded work per turn
    splitter.finish()
    return splitter.lines


def _before(process: Process, end: Cursor, bound: Cursor) -> Cursor:
    """Return a cursor some 128 KiB before `end` (the end of the log, or a cursor of an earlier answer)."""
    log = process.log
    if end == Cursor(log.size(0), log.size(1)):
        near = log.tail_cursor(_END_BYTES)
    else:
        near = Cursor(max(0, end.stdout - _END_BYTES // 2), max(0, end.stderr - _END_BYTES // 2))
    return Cursor(max(near.stdout, bound.stdout), max(near.stderr, bound.stderr))


def _between(start: Cursor, end: Cursor) -> int:
    return max(0, end.stdout - start.stdout) + max(0, end.stderr - start.stderr)


def _plain(lines: list[Line], *, raw: bool) -> list[Line]:
    return lines if raw else collapse(_stripped(lines, raw=raw))


def _stripped(lines: list[Line], *, raw: bool) -> list[Line]:
    return lines if raw else [replace(line, text=strip_ansi(line.text)) for line in lines]


def has_more(process: Process, cursor: Cursor) -> bool:
    """Tell whether a process has written more than what ends at `cursor`, as far as the keeper has reported."""
    status = process.status
    return cursor.stdout < status.stdout_bytes or cursor.stderr < status.stderr_bytes


# A progress message is for watching; the result and the log have everything. What is more is skipped, and said.
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
