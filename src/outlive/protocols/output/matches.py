"""Lines that match, kept and shown within a budget: the first ones, the last ones, and how many lie between.

Pure.
"""

import json
from collections import deque
from collections.abc import Iterable

from outlive.core.cursor import Cursor
from outlive.core.values import dataclass, replace
from outlive.protocols.output.body import Source
from outlive.protocols.plain import Line

_AROUND = 200  # characters that are shown on each side of a match in a line that is longer than both
_LONG_LINE = 500
_QUOTED = 200  # characters of a pattern that a mark repeats; a longer one is the caller's to repeat


@dataclass(frozen=True, slots=True)
class Found:
    """A line that is shown; `is_match` is false for one that only stands beside a match."""

    line: Line
    is_match: bool


class Matches:
    """Collects what a search finds; keeps about two budgets of it, whatever its number.

    Attributes:
        count: How many lines match.
    """

    def __init__(self, budget: int) -> None:
        """Keep what may be shown in `budget` characters."""
        self.count = 0
        self._budget = budget
        self._first: list[Found] = []
        self._last: deque[Found] = deque()
        self._first_size = self._last_size = 0
        self._is_complete = True

    def add(self, found: Iterable[Found]) -> None:
        """Take lines in the order of writing.

        What does not fit any more is dropped from the middle, and counted: memory stays at about two budgets
        for any log.
        """
        for one in found:
            self.count += one.is_match
            size = len(one.line.text) + 1
            # Once one line went to the end of the list, the rest does too: the two lists stay in the order of
            # writing.
            if not self._last and self._first_size + size <= self._budget // 2:
                self._first.append(one)
                self._first_size += size
                continue
            self._last.append(one)
            self._last_size += size
            while len(self._last) > 1 and self._last_size > self._budget:
                self._last_size -= len(self._last.popleft().line.text) + 1
                self._is_complete = False

    def shown(self, budget: int) -> tuple[list[Found], list[Found]]:
        """Return the first and the last lines that are shown.

        All are among them if the second list is empty.
        """
        if self._is_complete and self._first_size + self._last_size <= budget:
            return [*self._first, *self._last], []
        first: list[Found] = []
        room = budget // 2
        for one in self._first:
            room -= len(one.line.text) + 1
            if room < 0:
                break
            first.append(one)
        room = budget - sum(len(one.line.text) + 1 for one in first)
        last: deque[Found] = deque()
        for one in reversed([*self._first[len(first) :], *self._last]):
            room -= len(one.line.text) + 1
            if room < 0 and last:  # one is shown in any case
                break
            last.appendleft(one)
        is_all = self._is_complete and len(first) + len(last) == len(self._first) + len(self._last)
        return ([*first, *last], []) if is_all else (first, list(last))

    def text(self, budget: int, *, source: Source, pattern: str) -> str:
        """Return what is shown, with a mark for the matches between."""
        first, last = self.shown(budget)
        lines = [one.line.text for one in first]
        if last:
            hidden = self.count - sum(one.is_match for one in (*first, *last))
            start = first[-1].line.end if first else Cursor()
            call = source.at(start, last[0].line.start, f"grep={quoted(pattern)}")
            # Where all matches are shown, what is missing are lines around them.
            missing = f"{hidden} not shown" if hidden else "of the lines around them, some are not shown"
            lines.append(f"[{self.count} lines match; {missing}{call}]")
        return "\n".join([*lines, *(one.line.text for one in last)])


def quoted(pattern: str) -> str:
    """Return a pattern as a mark's call has it."""
    return json.dumps(pattern, ensure_ascii=False) if len(pattern) <= _QUOTED else "…"


def cut_around(line: Line, hit: int) -> Line:
    """Return a long line as what stands around character `hit` of it, with "…" where it is cut."""
    if len(line.text) <= _LONG_LINE:
        return line
    begin, end = max(0, hit - _AROUND), hit + _AROUND
    before, after = "…" if begin else "", "…" if end < len(line.text) else ""
    return replace(line, text=f"{before}{line.text[begin:end]}{after}")
