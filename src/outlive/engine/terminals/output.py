"""What a terminal's log tells: its newest marks, and text of it in bounded turns. Reads only, consumes nothing."""

import asyncio
from collections.abc import Sequence

from outlive.core.redactions import Redactions
from outlive.core.terminal import TerminalNote
from outlive.engine.processes.process import Process
from outlive.protocols.plain import Clip, join_pieces, shown_ranges
from outlive.protocols.terminal.run import Mark, MarkReader, ShellState, newest_state

_TURN_BYTES = 256 * 1024  # what the event loop may read in one turn
# The newest output that is looked at for marks: more than a prompt and what may be typed behind it.
_NEWEST_BYTES = 64 * 1024
_PATIENCE_S = 0.1  # between two looks at what is held back because a secret could begin there
_LOOKS = 5


def end_of(process: Process) -> int:
    """Return where the output ends, that is held back because a secret could begin there included."""
    return process.raw_log.size(0)


def next_marks(process: Process, reader: MarkReader) -> list[Mark] | None:
    """Return the marks of the next 256 KiB behind what `reader` has seen; None when there is no more now."""
    log = process.raw_log
    data = log.pread(0, _TURN_BYTES, reader.position)
    if data:
        return reader.feed(data)
    gap = log.gap(0)
    if gap is None or not gap[0] <= reader.position < gap[1]:
        return None
    reader.skip(gap[1])
    return []


def _newest_marks(process: Process, note: TerminalNote) -> list[Mark]:
    """Return the marks in the newest output, oldest first."""
    log = process.raw_log
    size = log.size(0)
    begin = max(0, size - _NEWEST_BYTES)
    gap = log.gap(0) if begin else None
    if gap is not None and begin < gap[1]:
        begin = min(gap[1], size)
    return MarkReader(note.key, begin).feed(log.pread(0, _NEWEST_BYTES, begin))


def shell_state(process: Process, note: TerminalNote) -> ShellState:
    """Return what the shell does, as its newest output tells; nothing is remembered from earlier."""
    return newest_state(_newest_marks(process, note))


async def text_of(
    process: Process, ranges: Sequence[tuple[int, int]], *, limit_bytes: int
) -> tuple[str, int]:
    """Return what lies in these ranges, head and tail of it where it is more than the limit; and how many secrets are stars in it.

    Cancellation: safe.
    """
    total = sum(end - begin for begin, end in ranges)
    pieces: list[Clip] = []
    redactions = Redactions()
    for start, end in shown_ranges(total, limit_bytes):
        position = 0  # of a range in all of them together
        for begin, stop in ranges:
            low, high = max(start, position), min(end, position + stop - begin)
            if low < high:
                shift = begin - position
                pieces += [
                    Clip(piece.offset - shift, piece.data)
                    for piece in await _pieces(process, low + shift, high + shift, redactions)
                ]
            position += stop - begin
    return join_pieces(_joined(pieces), total), redactions.total


async def _pieces(process: Process, at: int, end: int, redactions: Redactions) -> list[Clip]:
    found: list[Clip] = []
    looks = 0
    while at < end:
        data, hidden = process.log.look(0, min(_TURN_BYTES, end - at), at)
        if data:
            redactions.count(0, at, at + len(data), hidden)
            found.append(Clip(at, data))
            at += len(data)
            await asyncio.sleep(0)  # bounded work per turn
            continue
        gap = process.log.gap(0)
        if gap is not None and gap[0] <= at < gap[1]:
            at = gap[1]
            continue
        looks += 1
        if looks > _LOOKS:
            break
        await asyncio.sleep(_PATIENCE_S)
    return found


def _joined(pieces: Sequence[Clip]) -> list[Clip]:
    """Return pieces with those that adjoin as one."""
    joined: list[Clip] = []
    for piece in pieces:
        if joined and joined[-1].end == piece.offset:
            joined[-1] = Clip(joined[-1].offset, joined[-1].data + piece.data)
        else:
            joined.append(piece)
    return joined
