"""Text of a terminal in one of three forms, within a budget: `read_text`, a `TerminalExtent`.

Nothing is consumed.
"""

import asyncio
import re

from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest
from outlive.core.redactions import HiddenSpans, Redactions
from outlive.core.terminal import Form
from outlive.core.values import dataclass, replace
from outlive.engine.processes.process import Process
from outlive.engine.terminals.execution import end_of
from outlive.protocols.plain import (
    Line,
    LineSplitter,
    continuation_bytes,
    strip_ansi,
    unfinished_bytes,
)
from outlive.protocols.terminal.screen import draw
from outlive.store.folder import read_sizes

_TURN_BYTES = 256 * 1024  # what the event loop may read in one turn
_SCREEN_BYTES = 64 * 1024  # the newest output, of which a screen is drawn: a full redraw has some 10 KB
_SEQUENCE_BYTES = 32  # of an escape sequence at the end of a piece
_WINDOW = (24, 80)  # of a closed terminal whose size was never noted
_STARS = re.compile(r"\*+")
_PER_CHARACTER = 4  # bytes that are read for a character of clean text, escape sequences included


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalExtent:
    """A piece of a terminal's output as text; `cursor` is where to read on, `redacted` how many secrets are
    stars in it.
    """

    text: str
    cursor: str
    has_more: bool = False
    has_gap: bool = False
    redacted: int = 0


@dataclass(frozen=True, slots=True)
class _Read:
    """Bytes from offset `start` on, where stars for secrets are among them, and whether some before them are
    gone.
    """

    start: int
    data: bytes
    hidden: HiddenSpans
    has_gap: bool

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.start + len(self.data)

    def redacted(self, start: int, end: int) -> int:
        """Return how many secrets are stars between two offsets."""
        return Redactions().count(0, start, end, self.hidden)


async def read_text(
    process: Process, *, form: Form, cursor: str | None, budget: int, window: tuple[int, int] | None
) -> TerminalExtent:
    """Return output from a cursor on, or the newest; `window` is the size (rows, columns) that a screen has
    now, None when it has none any more.

    Raises:
        InvalidRequest: `invalid_cursor`; `invalid_params`: a screen from a cursor.

    Cancellation: safe.
    """
    at = None if cursor is None else Cursor.parse(cursor).stdout
    size = process.log.size(0)
    if at is not None and at > end_of(process):
        raise InvalidRequest("invalid_cursor", "The cursor lies behind the end of the output.")
    match form:
        case "raw":
            return _raw(process, at, size, budget)
        case "clean":
            return _clean(process, at, size, budget)
        case "screen":
            if at is not None:
                raise InvalidRequest("invalid_params", "A screen is what is seen now: it has no cursor.")
            return await _screen(process, size, budget, window)


def _raw(process: Process, at: int | None, size: int, budget: int) -> TerminalExtent:
    limit = min(budget, _TURN_BYTES)
    read = _piece(process, max(0, size - limit) if at is None else at, limit)
    start, data = read.start, read.data
    if at is None and start:
        skipped = continuation_bytes(data)
        start, data = start + skipped, data[skipped:]
    end = start + len(data)
    if end < size and len(data) > 3:
        end -= unfinished_bytes(data)
        data = data[: end - start]
    return TerminalExtent(
        text=data.decode("utf-8", "replace"),
        cursor=str(Cursor(end, 0)),
        has_more=end < size,
        has_gap=read.has_gap,
        redacted=read.redacted(start, end),
    )


def _clean(process: Process, at: int | None, size: int, budget: int) -> TerminalExtent:
    limit = min(budget * _PER_CHARACTER, _TURN_BYTES)
    read = _piece(process, max(0, size - limit) if at is None else at, limit)
    start, data = read.start, read.data
    lines = _lines(read, data)
    if at is None:
        lines = lines[1:] if start and len(lines) > 1 else lines  # it may begin in the middle
        shown = _last(_plain(lines), budget)
    else:
        is_cut = start + len(data) < size and len(lines) > 1
        shown = _first(_plain(lines[:-1] if is_cut else lines), budget)
        if shown and len(shown[0].text) > budget:  # a line that takes several answers
            data = _cut(data[:budget])
            shown = _plain(_lines(read, data))
    end = shown[-1].end if shown else Cursor(start + len(data), 0)
    text = "\n".join(line.text for line in shown)
    if shown and data[: end.stdout - start].endswith(b"\n"):
        text += "\n"
    text = text[-budget:] if at is None else text[:budget]
    return TerminalExtent(
        text=text,
        cursor=str(end),
        has_more=end.stdout < size,
        has_gap=read.has_gap,
        redacted=sum(line.redacted for line in shown),
    )


def _lines(read: _Read, data: bytes) -> list[Line]:
    """Return the lines of what was read, or of its beginning `data`."""
    splitter = LineSplitter(Cursor(read.start, 0))
    splitter.feed(0, data, read.hidden)
    splitter.finish()
    return splitter.lines


def _cut(data: bytes) -> bytes:
    """Return the beginning of a line without what it ends in the middle of: a character, an escape
    sequence.
    """
    data = data[: len(data) - unfinished_bytes(data)]
    escape = data.rfind(b"\x1b", max(1, len(data) - _SEQUENCE_BYTES))
    return data if escape < 0 else data[:escape]


def _plain(lines: list[Line]) -> list[Line]:
    from outlive.protocols.output.collapse import collapse  # noqa: PLC0415 -- start-up time: 3 ms of patterns

    return collapse(replace(line, text=strip_ansi(line.text.rstrip("\r"))) for line in lines)


def _first(lines: list[Line], budget: int) -> list[Line]:
    kept: list[Line] = []
    room = budget
    for line in lines:
        room -= len(line.text) + 1
        if room < 0 and kept:
            break
        kept.append(line)
    return kept


def _last(lines: list[Line], budget: int) -> list[Line]:
    return _first(lines[::-1], budget)[::-1]


async def _screen(process: Process, size: int, budget: int, window: tuple[int, int] | None) -> TerminalExtent:
    read = _piece(process, max(0, size - _SCREEN_BYTES), _SCREEN_BYTES)
    text = await asyncio.to_thread(_drawn, process, read.start, read.data, window)
    shown = text[:budget]
    # What was written is not all on the screen, or was drawn several times: no more can be shown than there
    # are runs of stars.
    redacted = min(read.redacted(read.start, read.end), len(_STARS.findall(shown)))
    return TerminalExtent(
        text=shown,
        cursor=str(Cursor(size, 0)),
        has_more=len(text) > budget,
        has_gap=read.has_gap,
        redacted=redacted,
    )


def _drawn(process: Process, begin: int, data: bytes, window: tuple[int, int] | None) -> str:
    """Draw what was written from an offset on. Blocking, some 100 ms at worst."""
    sizes = read_sizes(process.folder)
    rows, cols = window or ((sizes[-1].rows, sizes[-1].cols) if sizes else _WINDOW)
    if not sizes:
        return draw(data, rows=rows, cols=cols)
    before = [one for one in sizes if one.offset <= begin]
    behind = [(one.offset - begin, one.rows, one.cols) for one in sizes if one.offset > begin]
    first = (before or sizes)[-1 if before else 0]
    return draw(data, rows=first.rows, cols=first.cols, resizes=[*behind, (len(data), rows, cols)])


def _piece(process: Process, at: int, limit: int) -> _Read:
    """Return what is there from an offset on, behind what was released."""
    log = process.log
    gap = log.gap(0)
    has_gap = gap is not None and gap[0] <= at < gap[1]
    if gap is not None and has_gap:
        at = gap[1]
    data, hidden = log.look(0, min(limit, _TURN_BYTES), at)
    return _Read(at, data, hidden, has_gap)
