"""What a person sees of a terminal: `draw`, rows of text made of its newest bytes by a terminal emulator (decision 101). Pure."""

import re
from typing import Any

__all__ = ["draw"]

# Strings to the terminal that pyte would print (DCS, SOS, PM, APC), and private sequences that it would take for others.
_STRINGS = re.compile(rb"\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b\[[<=>][0-?]*[ -/]*[@-~]|\x1b\[[0-?]*[ -/]+[@-~]")
_ALTERNATE = re.compile(rb"\x1b\[\?(?:1049|1047|47)([hl])")
_MAX_CELLS = 1000  # rows or columns


def draw(data: bytes, *, rows: int, cols: int) -> str:
    """Return the rows of a screen of that size, from the first to the last that shows something, without trailing spaces.

    `data` is the newest output: it may begin in the middle of anything. What was written while a program had the
    alternate screen (vim, less) is gone when it has given that back.
    """
    import pyte  # noqa: PLC0415 -- start-up time: 20 ms that only who wants a screen has to pay

    screen = pyte.Screen(min(cols, _MAX_CELLS), min(rows, _MAX_CELLS))
    stream = pyte.ByteStream(screen)
    saved: Any = None
    position = 0
    data = _STRINGS.sub(b"", data)
    for match in _ALTERNATE.finditer(data):
        stream.feed(data[position : match.start()])
        position = match.end()
        if match[1] == b"h" and saved is None:
            saved = (dict(screen.buffer), (screen.cursor.x, screen.cursor.y))
            screen.buffer.clear()
            screen.cursor_position()
        elif match[1] == b"l":
            buffer, (x, y) = saved or ({}, (0, 0))
            screen.reset()
            screen.buffer.update(buffer)
            screen.cursor_position(y + 1, x + 1)
            saved = None
    stream.feed(data[position:])
    return "\n".join(row.rstrip() for row in screen.display).rstrip("\n")
