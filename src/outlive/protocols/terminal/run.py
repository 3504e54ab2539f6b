"""The marks in a shell's output (`MarkReader`), and what they mean for one command (`CommandRun`) or the
shell (`newest_state`).

The marks are OSC 133 as FinalTerm introduced it ("Semantic prompts", Per Bothner): A, B, C, D;n, and P;k=s
for the prompt of a second line. Each one has `aid=`, the terminal's own key: a mark without it comes from
another program, and counts as plain bytes. D;n;k=p is our own: the D that is part of the prompt itself. Pure;
the shells' start files make the marks.
"""

import re
from collections.abc import Iterable
from typing import Literal, cast

from outlive.core.values import dataclass

# A: a prompt comes next; B: the prompt is complete; C: a command begins; D: it has ended; P: the shell wants
# more lines; E: a D that is part of the prompt, which a line editor may draw several times; L: the shell has
# taken the typed line (it switches bracketed paste off, which any program may do, too).
Kind = Literal["A", "B", "C", "D", "E", "P", "L"]

_INTRODUCER = b"\x1b]133;"
_TAKEN = b"\x1b[?2004l"
_MAX_BYTES = 256  # of a mark; our own have 60
_KEY = re.compile(r"[0-9a-zA-Z-]{8,64}\Z")


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark: bytes `start` to `end` of the output. `exit_code` is set for D and E only."""

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
            ValueError: The key is invalid.
        """
        if _KEY.match(key) is None:
            raise ValueError("not a terminal's key")
        own = rb"\x1b\]133;(?:([ABC])|D;(-?\d{1,6})(;k=p)?|(P);k=s);aid=" + key.encode() + rb"\x07"
        self._pattern = re.compile(own + rb"|(\x1b\[\?2004l)")
        self._kept = b""
        self._position = position

    @property
    def position(self) -> int:
        """The offset behind the bytes that were examined."""
        return self._position

    def feed(self, data: bytes) -> list[Mark]:
        """Take the next bytes; return the marks that are complete now."""
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
        # A mark may be cut by the end of these bytes: its beginning is kept for the next ones.
        self._kept = _beginning(window, seen)
        return found

    def skip(self, position: int) -> None:
        """Continue at another offset: the bytes in between are not available."""
        self._kept = b""
        self._position = position


def _beginning(window: bytes, seen: int) -> bytes:
    """Return what may be the beginning of a mark at the end of a window. A mark contains no second ESC."""
    # Only the last ESC can begin an unfinished mark, and not farther from the end than a mark is long.
    start = window.rfind(b"\x1b", max(seen, len(window) - _MAX_BYTES))
    if start < 0:
        return b""
    rest = window[start:]
    is_open = rest.startswith(_INTRODUCER) and b"\x07" not in rest
    return rest if is_open or _INTRODUCER.startswith(rest) or _TAKEN.startswith(rest) else b""


class CommandRun:
    """One command, from the moment when it was typed to the next prompt.

    Its output is between the first C and the last D (bash and zsh mark each command of several lines),
    without what the shell prints between a D and the next A or C. A line that the shell cannot parse has no
    C: then its output is everything after the shell has taken the line.

    Attributes:
        exit_code: That of the last D.
        has_begun: The shell runs it, or has found out that it cannot.
        is_over: A prompt follows it.
        wants_more: The shell asks for further lines: the command is not finished.
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
        self.exit_code: int | None = None
        self.has_begun = False
        self.is_over = False
        self.wants_more = False
        self.end = 0
        self._has_code = False  # since the last A or C: of two D in a row the first belongs to the command
        self._is_at_prompt = False  # since an A
        self._runs = False
        self._open: int | None = None
        self._ranges: list[tuple[int, int]] = []

    def take(self, marks: Iterable[Mark]) -> None:
        """Take these marks into account; marks after the command's end are ignored."""
        for mark in marks:
            if not self.is_over:
                self._take(mark)

    def _take(self, mark: Mark) -> None:
        match mark.kind:
            # The line was taken, and no C has come: whatever follows may be the message of a syntax error.
            case "L" if not self._runs and not self._ranges:
                self._open = mark.end
            case "C":
                # With the first C it is certain where output begins: what was collected before is the shell's
                # own.
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
                    self._open = None  # printed by the prompt's own commands, not by this one
                self._close(mark.start)
                if not self._has_code:
                    self.exit_code, self._has_code = mark.exit_code, True
            # The prompt begins; its own text is not output, and a later D only repeats the code.
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
        """Whether the shell has run any part of it."""
        return self._runs

    @property
    def _is_ended(self) -> bool:
        return self.exit_code is not None

    def _close(self, end: int) -> None:
        if self._open is not None and end > self._open:
            self._ranges.append((self._open, end))
        self._open = None

    def ranges(self, now: int) -> list[tuple[int, int]]:
        """Return the ranges [from, to) of its output, in order; `now` is the end of the bytes so far."""
        open_range = [(self._open, now)] if self._open is not None and now > self._open else []
        return [*self._ranges, *open_range]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellState:
    """What a shell does at a moment.

    Attributes:
        is_ready: It shows a prompt, and nothing else.
        wants_more: It shows the prompt for a further line.
        exit_code: That of the last command that ended; None while one runs, or if none has ended in these
            bytes.
        taken_at: The offset at which it last began or ended a command; -1: none in these bytes.
    """

    is_ready: bool = False
    wants_more: bool = False
    exit_code: int | None = None
    taken_at: int = -1


def newest_state(marks: Iterable[Mark]) -> ShellState:
    """Return what a shell does whose newest output has these marks.

    A prompt always comes last. So if there is no mark at all, a command runs that has written all of these
    bytes.
    """
    is_ready = wants_more = has_code = False
    may_prompt = True  # no command runs, as far as is known: the beginning may be cut off
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
