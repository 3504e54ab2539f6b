"""Lines as an agent is shown them: without terminal noise and repetition, binary data as one line or as
hexadecimal digits.
"""

from outlive.core.cursor import Cursor
from outlive.core.values import replace
from outlive.engine import OutputLog
from outlive.frontends.mcp.tools.output.turns import between, in_thread
from outlive.protocols.output.binary import (
    BINARY,
    MAGIC_BYTES,
    BinaryRun,
    binary_mark,
    binary_runs,
    is_binary,
    with_visible_nuls,
)
from outlive.protocols.output.collapse import collapse
from outlive.protocols.output.error_lines import with_errors
from outlive.protocols.plain import Line, strip_ansi

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
