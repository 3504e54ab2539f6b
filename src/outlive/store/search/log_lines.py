"""One matching line of a log (`LogLine`) and the lines around it, as searches show them.

Bytes come from `output_log`, which has redacted them. Which lines match is decided in `log_search` and
`line_search`.
"""

from collections.abc import Sequence

from outlive.core.redactions import HiddenSpans, Redactions
from outlive.core.values import dataclass
from outlive.store.output_log import OutputLog

SHOWN_BYTES = 8192  # of a line; its offsets are in the answer, so that all of it can be read
_CONTEXT_BYTES = 64 * 1024  # on each side of a match: the lines around it are looked for within so much
_STEP_BYTES = 4096  # read at a time when a line's beginning is looked for
_NEWLINE = b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line that matches: bytes `offset` to `end` of a stream (0 stdout, 1 stderr), without its newline.

    `data` is at most 8 KiB of it. `before` and `after` are lines of the same stream around it. `redacted`:
    the number of secrets that are redacted in all of these.
    """

    stream: int
    offset: int
    end: int
    data: bytes
    before: tuple[bytes, ...] = ()
    after: tuple[bytes, ...] = ()
    redacted: int = 0


def line_start(log: OutputLog, stream: int, offset: int, *, most: int) -> int:
    """Return where the line begins in which a byte lies; `most` bytes before it where the beginning is
    farther, or not kept.
    """
    floor = max(0, offset - most)
    position = offset
    while position > floor:
        begin = max(floor, position - _STEP_BYTES)
        data = log.pread(stream, position - begin, begin)
        if len(data) < position - begin:
            return floor
        newline = data.rfind(_NEWLINE)
        if newline >= 0:
            return begin + newline + 1
        position = begin
    return floor


def lines_before(log: OutputLog, stream: int, start: int, count: int) -> tuple[bytes, ...]:
    """Return at most `count` whole lines before a line that begins at `start`, the first one first."""
    begin = max(0, start - _CONTEXT_BYTES)
    gap = log.gap(stream)
    if gap is not None and begin < gap[1] <= start:
        begin = gap[1]
    if begin == start:
        return ()
    lines = log.pread(stream, start - begin, begin).split(_NEWLINE)[:-1]
    # The first piece is the end of a longer line, unless it begins where the log does.
    whole = lines if begin == 0 or (gap is not None and begin == gap[1]) else lines[1:]
    return tuple(line[:SHOWN_BYTES] for line in whole[-count:])


def lines_after(log: OutputLog, stream: int, end: int, count: int) -> tuple[bytes, ...]:
    """Return at most `count` lines behind a line that ends at `end`, the last of which may not be
    finished.
    """
    lines = log.pread(stream, _CONTEXT_BYTES, end + 1).split(_NEWLINE)
    # The last piece counts as a line if it is not empty; it may then be the first part of one.
    whole = lines if lines[-1] else lines[:-1]
    return tuple(line[:SHOWN_BYTES] for line in whole[:count])


def redacted_around(
    log: OutputLog,
    stream: int,
    place: tuple[int, int, int],
    hidden: HiddenSpans,
    before: Sequence[bytes],
    after: Sequence[bytes],
) -> int:
    """Count the secrets in a line and in the lines around it (counted as if no line were cut).

    `place` is where the line begins, where what is shown of it ends, and where the line ends; `hidden` are
    the redacted spans there.
    """
    start, shown, end = place
    redactions = Redactions()
    if before:
        begin = max(0, start - sum(len(line) + 1 for line in before))
        redactions.count(stream, begin, start, log.look(stream, start - begin, begin)[1])
    redactions.count(stream, start, shown, hidden)
    if after:
        size = sum(len(line) + 1 for line in after)
        redactions.count(stream, end + 1, end + 1 + size, log.look(stream, size, end + 1)[1])
    return redactions.total
