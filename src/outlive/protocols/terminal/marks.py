"""The marks that our shells put into their output: `MarkReader`, from bytes in any pieces to `Mark`s. Pure.

OSC 133 as FinalTerm began it ("Semantic prompts", Per Bothner): A, B, C, D;n, and P;k=s for the prompt of a second line; each
with `aid=`, the terminal's own key. Marks without it are somebody else's and only bytes. D;n;k=p is our own: the D that
stands in the prompt itself.
"""

import re
from dataclasses import dataclass
from typing import Literal, cast

# A: a prompt is about to come, B: it has been shown, C: a command begins, D: it has ended, P: the shell wants more lines,
# E: a D that is part of the prompt, which a line editor may draw several times, L: the shell has taken what was typed (it
# ends bracketed paste; anybody may write that).
Kind = Literal["A", "B", "C", "D", "E", "P", "L"]

_INTRODUCER = b"\x1b]133;"
_TAKEN = b"\x1b[?2004l"
_MAX_BYTES = 256  # of a mark; ours have 60
_KEY = re.compile(r"[0-9a-zA-Z-]{8,64}\Z")


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark: bytes `start` to `end` of the output. `exit_code` with D and E only."""

    kind: Kind
    start: int
    end: int
    exit_code: int | None = None


class MarkReader:
    """Finds the marks of one terminal in its output."""

    __slots__ = ("_kept", "_pattern", "_position")

    def __init__(self, key: str, position: int = 0) -> None:
        """Begin at an offset of the output.

        Raises:
            ValueError: The key is none.
        """
        if _KEY.match(key) is None:
            raise ValueError("not a terminal's key")
        own = rb"\x1b\]133;(?:([ABC])|D;(-?\d{1,6})(;k=p)?|(P);k=s);aid=" + key.encode() + rb"\x07"
        self._pattern = re.compile(own + rb"|(\x1b\[\?2004l)")
        self._kept = b""
        self._position = position

    @property
    def position(self) -> int:
        """The offset behind what was looked at."""
        return self._position

    def feed(self, data: bytes) -> list[Mark]:
        """Take the next bytes; return the marks that are whole now."""
        window = self._kept + data
        base = self._position - len(self._kept)
        self._position += len(data)
        found: list[Mark] = []
        seen = 0
        for match in self._pattern.finditer(window):
            plain, code, drawn, more, taken = match.groups()
            word = (plain or more or (b"L" if taken else b"E" if drawn else b"D")).decode()
            kind = cast("Kind", word)
            exit_code = None if code is None else int(code)
            found.append(Mark(kind, base + match.start(), base + match.end(), exit_code))
            seen = match.end()
        self._kept = _beginning(window, seen)
        return found

    def skip(self, position: int) -> None:
        """Go on at another offset: what lies between is not there."""
        self._kept = b""
        self._position = position


def _beginning(window: bytes, seen: int) -> bytes:
    """Return what may be the beginning of a mark at the end of a window. A mark holds no second ESC."""
    start = window.rfind(b"\x1b", max(seen, len(window) - _MAX_BYTES))
    if start < 0:
        return b""
    rest = window[start:]
    is_open = rest.startswith(_INTRODUCER) and b"\x07" not in rest
    return rest if is_open or _INTRODUCER.startswith(rest) or _TAKEN.startswith(rest) else b""
