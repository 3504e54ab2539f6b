"""What a person sees of a terminal: `draw` makes rows of text of its newest bytes. Pure.

A terminal emulator does the work (decision 101). Which bytes are the newest is decided by the engine's
terminals.
"""

import re
from collections.abc import Sequence
from typing import Any

from outlive.protocols.plain import CONTROL_STRING

# Strings to the terminal, which pyte would print or never see the end of, and private sequences that it
# would misread.
_STRINGS = re.compile(CONTROL_STRING.encode() + rb"|\x1b\[[<=>][0-?]*[ -/]*[@-~]|\x1b\[[0-?]*[ -/]+[@-~]")
_SEQUENCE = re.compile(rb"(\x1b\[[0-?]*[@-~])")  # ECMA-48, 5.4
_ALTERNATE = re.compile(rb"\x1b\[\?(?:1049|1047|47)([hl])\Z")
_MAX_CELLS = 1000  # rows or columns: a larger window would make drawing slow, and no display has one


def draw(data: bytes, *, rows: int, cols: int, resizes: Sequence[tuple[int, int, int]] = ()) -> str:
    """Return the rows of a screen, from the first to the last that shows something, without trailing spaces.

    `data` is the newest output, and may begin anywhere. What a program wrote to the alternate screen (vim,
    less) is gone once the program has returned from it.

    Args:
        data: The bytes.
        rows: Height when the first of them was written.
        cols: Width at that time.
        resizes: Changes of the size, in order: (number of bytes before it, rows, columns).
    """
    drawing = _Drawing(min(rows, _MAX_CELLS), min(cols, _MAX_CELLS))
    position = 0
    for behind, new_rows, new_cols in resizes:
        _write(drawing, data[position:behind])
        drawing.resize(min(new_rows, _MAX_CELLS), min(new_cols, _MAX_CELLS))
        position = behind
    _write(drawing, data[position:])
    return drawing.text


def _write(drawing: "_Drawing", data: bytes) -> None:
    # The split alternates between plain text and control sequences: those are at odd positions.
    for place, piece in enumerate(_SEQUENCE.split(_STRINGS.sub(b"", data))):
        switch = _ALTERNATE.match(piece) if place % 2 else None
        if switch is not None:
            drawing.switch(to_alternate=switch[1] == b"h")
        elif piece:
            drawing.feed(piece)


class _Drawing:
    """A screen that is being written to."""

    def __init__(self, rows: int, cols: int) -> None:
        import pyte  # noqa: PLC0415 -- start-up time: 40 ms, only for callers that want a screen

        self._open = pyte.ByteStream
        self._screen = pyte.Screen(cols, rows)
        self._stream = self._open(self._screen)
        self._saved: Any = None

    def feed(self, piece: bytes) -> None:
        """Write plain bytes, or one control sequence."""
        try:
            self._stream.feed(piece)
        except (TypeError, ValueError, IndexError, KeyError):
            # pyte calls its methods with whatever parameters a sequence has. A sequence that makes one fail
            # is left out.
            self._stream = self._open(self._screen)

    def resize(self, rows: int, cols: int) -> None:
        """Change its size; as in xterm, rows at the top are dropped first."""
        self._screen.resize(rows, cols)

    def switch(self, *, to_alternate: bool) -> None:
        """Give the screen to a program, or restore what it showed before."""
        screen = self._screen
        if to_alternate and self._saved is None:
            self._saved = (dict(screen.buffer), (screen.cursor.x, screen.cursor.y))
            screen.buffer.clear()
            screen.cursor_position()
        elif not to_alternate:
            buffer, (x, y) = self._saved or ({}, (0, 0))
            screen.reset()
            screen.buffer.update(buffer)
            screen.cursor_position(y + 1, x + 1)
            self._saved = None

    @property
    def text(self) -> str:
        """What it shows."""
        return "\n".join(row.rstrip() for row in self._screen.display).rstrip("\n")
