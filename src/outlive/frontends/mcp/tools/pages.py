"""Pages of output for the lean tools: `LeanPage`, read from the log at a cursor and made plain.

Nothing is consumed.

A page is read at its ends; what lies between is looked through for reported errors, up to a bound. Which of
its lines are shown is decided in `protocols.output`. The output that a waiting call has not reported yet:
`News`, a cursor on the log.
"""

import codecs
from collections import deque

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.values import dataclass
from outlive.engine import OutputChunk, OutputLog, Process
from outlive.frontends.mcp.tools.output.preparation import joined_binary, prepared, stripped
from outlive.frontends.mcp.tools.output.search import Search
from outlive.frontends.mcp.tools.output.turns import (
    Turn,
    between,
    in_thread,
    lines_back,
    lines_on,
    read_lines,
    turns,
)
from outlive.protocols.output.body import CONTEXT_LINES, Excerpt, Source, body, redacted_in
from outlive.protocols.output.error_lines import error_spans, with_errors
from outlive.protocols.output.matches import Matches
from outlive.protocols.output.pattern import Pattern
from outlive.protocols.plain import Line

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
    end = _earlier(end, log.end)
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


async def read_matches(
    log: OutputLog,
    cursor: Cursor,
    wanted: str,
    *,
    context: int,
    most: int,
    raw: bool = False,
    end: Cursor | None = None,
) -> LeanPage:
    """Return the lines between two cursors in which the regular expression `wanted` matches, with lines
    around them.

    All of it is searched, up to 1 GiB or 15 s; of what is found, the first and the last matches are shown in
    `most` characters, and how many there are. A line of more than 256 KiB is searched in pieces.

    Raises:
        InvalidRequest: The pattern is too long.

    Cancellation: safe; nothing is consumed.
    """
    pattern = Pattern(wanted)
    matches = Matches(most)
    search = Search(pattern, matches, context=context, raw=raw)
    end = _earlier(end, log.end)
    await search.run(log, cursor, end)
    notes = []
    if pattern.is_literal:
        notes.append("[grep is no regular expression of RE2, which has no look-around: taken as plain text]")
    if between(search.position, end):
        notes.append(f"[searched up to cursor {search.position}; call again with it to go on to {end}]")
    return LeanPage(
        excerpt=Excerpt(lines=[], start=cursor, end=cursor),
        cursor=search.position,
        matches=matches,
        pattern=wanted,
        note="\n".join(notes),
    )


def _earlier(end: Cursor | None, now: Cursor) -> Cursor:
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
