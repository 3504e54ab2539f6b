"""What a person sees of a terminal: `draw`, rows of text made of its newest bytes by a terminal emulator (decision 101). Pure."""

import re
from collections.abc import Sequence
from typing import Any

# Strings to the terminal that pyte would print (DCS, SOS, PM, APC), and private sequences that it would take for others.
_STRINGS = re.compile(rb"\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b\[[<=>][0-?]*[ -/]*[@-~]|\x1b\[[0-?]*[ -/]+[@-~]")
_SEQUENCE = re.compile(rb"(\x1b\[[0-?]*[@-~])")  # ECMA-48, 5.4
_ALTERNATE = re.compile(rb"\x1b\[\?(?:1049|1047|47)([hl])\Z")
_MAX_CELLS = 1000  # rows or columns


def draw(data: bytes, *, rows: int, cols: int, resizes: Sequence[tuple[int, int, int]] = ()) -> str:
    """Return the rows of a screen, from the first to the last that shows something, without trailing spaces.

    `data` is the newest output: it may begin in the middle of anything. What was written while a program had the
    alternate screen (vim, less) is gone when it has given that back.

    Args:
        data: The bytes.
        rows: Height when the first of them was written.
        cols: Width at that time.
        resizes: Behind how many bytes it got how many rows and columns, in order.
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
    for place, piece in enumerate(_SEQUENCE.split(_STRINGS.sub(b"", data))):
        switch = _ALTERNATE.match(piece) if place % 2 else None
        if switch is not None:
            drawing.switch(to_alternate=switch[1] == b"h")
        elif piece:
            drawing.feed(piece)


class _Drawing:
    """A screen that is being written to."""

    def __init__(self, rows: int, cols: int) -> None:
        import pyte  # noqa: PLC0415 -- start-up time: 40 ms that only who wants a screen has to pay

        self._open = pyte.ByteStream
        self._screen = pyte.Screen(cols, rows)
        self._stream = self._open(self._screen)
        self._saved: Any = None

    def feed(self, piece: bytes) -> None:
        """Write plain bytes, or one control sequence."""
        try:
            self._stream.feed(piece)
        except (TypeError, ValueError, IndexError, KeyError):
            # pyte calls its methods with whatever parameters a sequence has. One that it does not know is left out.
            self._stream = self._open(self._screen)

    def resize(self, rows: int, cols: int) -> None:
        """Give it another size; as in xterm the rows at the top go first."""
        self._screen.resize(rows, cols)

    def switch(self, *, to_alternate: bool) -> None:
        """Lend the screen, or take it back as it was."""
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
