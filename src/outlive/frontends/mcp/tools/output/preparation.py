"""Lines as an agent is shown them: without terminal noise and repetition, binary data as one line or as hexadecimal digits."""

from dataclasses import replace

from outlive.core.cursor import Cursor
from outlive.engine import OutputLog
from outlive.protocols.output.binary import (
    MAGIC_BYTES,
    BinaryRun,
    binary_mark,
    binary_runs,
    with_visible_nuls,
)
from outlive.protocols.output.collapse import collapse
from outlive.protocols.output.error_lines import with_errors
from outlive.protocols.plain import Line, strip_ansi

_HEX_BYTES = 32  # in a line of hexadecimal digits: 64 characters
_PREAD_BYTES = 64 * 1024  # in one call, while a page's binary data is read once more


def prepared(log: OutputLog, lines: list[Line], *, raw: bool) -> list[Line]:
    """Return lines for an answer; those that report an error say so.

    With `raw`, only binary data is changed: it becomes hexadecimal digits, 32 bytes a line, which a text can carry.
    """
    shown: list[Line] = []
    position = 0
    for run in binary_runs(lines):
        shown += lines[position : run.first]
        shown += _hex_lines(log, run) if raw else [_mark(log, run)]
        position = run.last
    shown += lines[position:]
    return with_errors(shown if raw else collapse(stripped(shown, raw=False)))


def stripped(lines: list[Line], *, raw: bool) -> list[Line]:
    """Return lines without escape sequences and overwritten text, unless they are wanted raw."""
    return lines if raw else [_stripped(line) for line in lines]


def _stripped(line: Line) -> Line:
    text = strip_ansi(with_visible_nuls(line.text))
    # Most lines have nothing to strip, and a new object costs more than the comparison.
    return line if text == line.text else replace(line, text=text)


def _mark(log: OutputLog, run: BinaryRun) -> Line:
    stream, offset = _place(run.start, run.end)
    first, _ = log.look(stream, MAGIC_BYTES, offset)
    return Line(text=binary_mark(run.size, first), start=run.start, end=run.end, is_mark=True)


def _hex_lines(log: OutputLog, run: BinaryRun) -> list[Line]:
    """Return binary data as lines of digits, stdout first, below a line that says so."""
    lines = [Line(text="[binary data as hexadecimal digits]", start=run.start, end=run.start)]
    position = [run.start.stdout, run.start.stderr]
    for stream, end in ((0, run.end.stdout), (1, run.end.stderr)):
        while position[stream] < end:
            data, _ = log.look(stream, min(_PREAD_BYTES, end - position[stream]), position[stream])
            if not data:  # released meanwhile: what is left is said by the next line's cursor
                break
            for begin in range(0, len(data), _HEX_BYTES):
                piece = data[begin : begin + _HEX_BYTES]
                start = Cursor(*position)
                position[stream] += len(piece)
                lines.append(Line(text=piece.hex(), start=start, end=Cursor(*position)))
    return lines


def _place(start: Cursor, end: Cursor) -> tuple[int, int]:
    """Return the stream and the offset of the first byte between two cursors."""
    return (0, start.stdout) if start.stdout != end.stdout else (1, start.stderr)
