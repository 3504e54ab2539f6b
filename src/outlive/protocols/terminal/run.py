"""What the marks tell: of one command (`CommandRun`), and of a terminal whose newest output one has (`newest_state`). Pure.

The marks that our shells put into their output: `MarkReader`, from bytes in any pieces to `Mark`s. Pure.

OSC 133 as FinalTerm began it ("Semantic prompts", Per Bothner): A, B, C, D;n, and P;k=s for the prompt of a second line; each
with `aid=`, the terminal's own key. Marks without it are somebody else's and only bytes. D;n;k=p is our own: the D that
stands in the prompt itself.
"""

import re
from collections.abc import Iterable
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


class CommandRun:
    """One command from when it was typed to the next prompt.

    Its output lies between the first C and the last D (bash and zsh mark each command of several lines), without what the
    shell prints between a D and the next A or C. A line that the shell cannot parse has no C: then its output is what
    follows the taking of the line.

    Attributes:
        exit_code: The last D's.
        has_begun: The shell runs it, or has found out that it cannot.
        is_over: A prompt stands behind it.
        wants_more: The shell asks for further lines: it is not finished.
        end: The offset behind the prompt, once it is over.
    """

    __slots__ = (
        "_has_code",
        "_is_at_prompt",
        "_open",
        "_ranges",
        "_runs",
        "end",
        "exit_code",
        "has_begun",
        "is_over",
        "wants_more",
    )

    def __init__(self) -> None:
        """It has been typed."""
        self.exit_code: int | None = None
        self.has_begun = False
        self.is_over = False
        self.wants_more = False
        self.end = 0
        self._has_code = False  # since the last A or C: of two D in a row the first is the command's
        self._is_at_prompt = False  # since an A
        self._runs = False
        self._open: int | None = None
        self._ranges: list[tuple[int, int]] = []

    def take(self, marks: Iterable[Mark]) -> None:
        """Go on by these marks; what follows its end is not looked at."""
        for mark in marks:
            if not self.is_over:
                self._take(mark)

    def _take(self, mark: Mark) -> None:
        match mark.kind:
            case "L" if not self._runs and not self._ranges:
                self._open = mark.end
            case "C":
                if not self._runs:
                    self._ranges.clear()
                else:
                    self._close(mark.start)
                self._runs = self.has_begun = True
                self.wants_more = False
                self._open, self._has_code, self._is_at_prompt = mark.end, False, False
            case "D" | "E" if mark.kind == "D" or self._runs:
                self.has_begun = True
                if mark.kind == "E" and self._is_at_prompt:
                    self._open = None  # what the prompt's own commands have printed
                self._close(mark.start)
                if not self._has_code:
                    self.exit_code, self._has_code = mark.exit_code, True
            case "A" if self.has_begun:
                self._close(mark.start)
                self._open, self._has_code, self._is_at_prompt = mark.end, False, True
            case "P":
                self.wants_more = True
            case "B" if self.has_begun and self._is_ended:
                self.is_over, self.end = True, mark.end
                self._open = None
            case _:
                pass

    @property
    def is_parsed(self) -> bool:
        """Whether the shell has run anything of it."""
        return self._runs

    @property
    def _is_ended(self) -> bool:
        return self.exit_code is not None

    def _close(self, end: int) -> None:
        if self._open is not None and end > self._open:
            self._ranges.append((self._open, end))
        self._open = None

    def ranges(self, now: int) -> list[tuple[int, int]]:
        """Return where its output lies, as [from, to) in order; `now` is the end of what there is."""
        open_range = [(self._open, now)] if self._open is not None and now > self._open else []
        return [*self._ranges, *open_range]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellState:
    """What a shell does.

    Attributes:
        is_ready: It shows a prompt, and nothing but that.
        wants_more: It shows the prompt of a further line.
        exit_code: Of the command that ended last; None while one runs, or when none has ended in what was looked at.
        taken_at: Where it has begun or ended something last; -1: nowhere.
    """

    is_ready: bool = False
    wants_more: bool = False
    exit_code: int | None = None
    taken_at: int = -1


def newest_state(marks: Iterable[Mark]) -> ShellState:
    """Return what a shell does whose newest output holds these marks.

    Prompts come last, so that without any mark in it a command runs that has written all of it.
    """
    is_ready = wants_more = has_code = False
    may_prompt = True  # no command runs; the beginning may be cut off
    code: int | None = None
    taken_at = -1
    for mark in marks:
        match mark.kind:
            case "C":
                is_ready = wants_more = may_prompt = has_code = False
                code, taken_at = None, mark.start
            case "D" | "E" if mark.kind == "D" or not may_prompt:
                if not has_code:
                    code, has_code = mark.exit_code, True
                is_ready, wants_more, may_prompt, taken_at = False, False, True, mark.start
            case "A":
                may_prompt, has_code = True, False
            case "B" if may_prompt:
                is_ready, wants_more = True, False
            case "P":
                is_ready, wants_more, taken_at = False, True, mark.start
            case _:
                pass
    return ShellState(is_ready=is_ready, wants_more=wants_more, exit_code=code, taken_at=taken_at)
