"""What the marks tell: of one command (`CommandRun`), and of a terminal whose newest output one has (`newest_state`). Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from outlive.protocols.terminal.marks import Mark


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
