"""A terminal's output as a recording that players take: `Asciicast`, lines of asciicast v2. Pure.

Source: docs.asciinema.org, "asciicast v2": a header, then an array for each event: seconds since the
beginning, "o" for output or "r" for another size, and the text.
"""

import codecs
from collections.abc import Sequence

import orjson

_UNKNOWN = (24, 80)  # rows, columns: what a terminal has until it is given another size


class Asciicast:
    """Turns pieces of output into lines; a character that is cut waits for its rest."""

    __slots__ = ("_begin_ns", "_decoder", "_sizes")

    def __init__(self, sizes: Sequence[tuple[int, int, int]]) -> None:
        """Begin a recording; `sizes` are (offset, rows, columns), oldest first."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._sizes = list(sizes)
        self._begin_ns: int | None = None

    def feed(self, offset: int, data: bytes, time_ns: int) -> bytes:
        """Return the lines of a piece that stands at `offset` of the output, written at `time_ns` (Unix)."""
        lines: list[object] = []
        rows, cols = _UNKNOWN
        is_new = False
        while self._sizes and (self._sizes[0][0] <= offset or self._begin_ns is None):
            _, rows, cols = self._sizes.pop(0)
            is_new = True
            if self._begin_ns is None:
                break
        if self._begin_ns is None:
            self._begin_ns = time_ns
            lines.append({"version": 2, "width": cols, "height": rows, "timestamp": time_ns // 10**9})
            is_new = False
        seconds = max(0, time_ns - self._begin_ns) / 1e9
        if is_new:
            lines.append([seconds, "r", f"{cols}x{rows}"])
        if text := self._decoder.decode(data):
            lines.append([seconds, "o", text])
        return b"".join(orjson.dumps(line) + b"\n" for line in lines)
