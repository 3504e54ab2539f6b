"""What is shown of a piece of output that is longer than its budget: head, reported errors, tail, and marks
between them. Pure.

A piece is lines in the order of writing. Where two of them do not adjoin, what lies between was not read
(`read_page` says why). Every byte of the piece is in exactly one shown line or in exactly one mark, and each
mark names the call that shows it.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from outlive.core.cursor import Cursor
from outlive.core.lifecycle import State
from outlive.core.process import ProcessRecord
from outlive.core.values import dataclass, replace
from outlive.protocols.plain import Line

# Characters of an answer that the caller has set no budget for. A success is read for its last lines; 2500
# are some 30 of them.
SUCCESS_BUDGET = 2500
# Whether a running command fails is not known yet, and its caller will ask again: as much as for a success.
RUNNING_BUDGET = 2500
# A failure is read for its cause: the first error, what led to it, and the summary. Less costs another call,
# more is noise.
FAILURE_BUDGET = 7000

CONTEXT_LINES = 2  # around an error: the source line and its marker, or the command that reported it
_MIN_CUT = 40  # characters of each end of a cut line: fewer would show nothing
# A gap that is shorter than the mark for it (some 80 characters) is shown.
_MARK_CHARACTERS = 80
# A line is divided when it is longer than four lines of a wide terminal, or than a quarter of a small budget.
_LONG_LINE = 1000
_PIECES = 4  # of the shortest line that is divided: smaller ones use the room better, and each is an object
_CALL_CHARACTERS = 50  # what a mark's cursors and its `raw=true` take
_LARGEST_BUDGET = 1_000_000  # that the tools take; a longer line is read in pieces, by cursors
_DIGITS = re.compile(r"\d+")
_KEY = 160  # characters of two error lines that are compared


@dataclass(frozen=True, slots=True)
class Source:
    """How a caller reads on: the tool's name and the arguments that say of what, as in `read(id="p3"`; empty
    where it cannot.
    """

    call: str = ""

    def at(self, start: Cursor, end: Cursor, *more: str) -> str:
        """Return what a mark says behind its words: the call that shows what lies between two cursors."""
        if not self.call:
            return ""
        arguments = ", ".join([self.call, f'cursor="{start}-{end}"', *more])
        return f": {arguments})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Lines between two cursors, some of which may not have been read; `unsearched`: where no errors were
    looked for.

    `lines` are in the order of writing and do not overlap; the first begins at `start` or later, the last
    ends at `end` or earlier.
    """

    lines: Sequence[Line]
    start: Cursor
    end: Cursor
    unsearched: tuple[Cursor, Cursor] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every byte is in one of the lines."""
        return next(_gaps(self.lines, self.start, self.end), None) is None


def default_budget(record: ProcessRecord, excerpt: Excerpt | None = None) -> int:
    """Return how many characters are shown of a process's output when its caller has not said how many.

    A failure whose output does not fit, and that has reported errors, shows those and what a success shows:
    then its head and its tail need not be searched for the cause by eye. One that has reported none shows as
    much as there is room for.
    """
    if not record.is_complete:
        return RUNNING_BUDGET
    if record.state is State.EXITED and record.exit_code == 0:
        return SUCCESS_BUDGET
    if excerpt is None or (excerpt.is_whole and _length(excerpt.lines) <= FAILURE_BUDGET):
        return FAILURE_BUDGET
    picked = _picked_errors(excerpt.lines, FAILURE_BUDGET // 2)
    if not picked:
        return FAILURE_BUDGET
    errors = _length(excerpt.lines[place] for place in picked)
    # Twice, because `chosen` gives errors half of a budget.
    return min(FAILURE_BUDGET, max(SUCCESS_BUDGET + errors, 2 * errors))


def body(excerpt: Excerpt, *, budget: int, source: Source) -> str:
    """Return an excerpt as text of about `budget` characters, and the marks for what is left out."""
    shown = chosen(excerpt, budget=budget)
    parts: list[str] = []
    position = excerpt.start
    is_open = False
    for line in shown:
        if line.start != position:
            parts += ["\n", *_marks(position, line.start, excerpt, source=source), "\n"]
        elif not is_open:
            parts.append("\n")
        parts.append(_shown_text(line, budget, source=source))
        position, is_open = line.end, line.is_open
    if position != excerpt.end:
        parts += ["\n", *_marks(position, excerpt.end, excerpt, source=source)]
    # A newline stands before each line and mark; the first has none before it.
    return "".join(parts)[1:]


def chosen(excerpt: Excerpt, *, budget: int) -> list[Line]:
    """Return the lines that are shown, in order.

    Where everything fits, that is every line. Else errors come first, then the beginning, then the end; a gap
    that is shorter than the mark for it is filled. Long lines may come in pieces, each with cursors of its
    own.
    """
    if excerpt.is_whole and _length(excerpt.lines) <= budget:
        return list(excerpt.lines)
    lines = list(divided(excerpt.lines, longest=max(_MIN_CUT, min(_LONG_LINE, budget // _PIECES))))
    if len(lines) == 1 and excerpt.is_whole:
        return lines  # `body` shows both ends of it
    # Errors first, up to half of the budget: a flood of them must leave room for how it began and how it
    # ended.
    picked = _picked_errors(lines, budget // 2)
    room = budget - _length(lines[place] for place in picked)
    # Head and tail stop where something was not read: lines beyond belong to a mark.
    holes = [place for place in range(1, len(lines)) if lines[place].start != lines[place - 1].end]
    before = holes[0] if holes else len(lines)
    behind = holes[-1] if holes else 0
    # Half of what is left for the head; the tail gets the rest, since summaries are at the end.
    spent = _take(range(before), lines, picked, room // 2)
    _take(range(len(lines) - 1, behind - 1, -1), lines, picked, room - spent)
    _fill(lines, picked)
    return [lines[place] for place in sorted(picked)]


def divided(lines: Iterable[Line], *, longest: int = _LONG_LINE) -> Iterator[Line]:
    """Yield lines, those of more than `longest` characters in pieces with cursors, where their text tells
    where each byte is.

    It does not where something was stripped, where bytes were invalid, and where both streams have written
    the line.
    """
    for line in lines:
        if len(line.text) <= longest or line.is_mark:
            yield line
        else:
            yield from _pieces(line, max(1, longest // _PIECES))


def redacted_in(excerpt: Excerpt, *, budget: int) -> int:
    """Return how many secrets in the lines that `body` shows are redacted.

    A line that is cut counts as a whole.
    """
    return sum(line.redacted for line in chosen(excerpt, budget=budget))


def _pieces(line: Line, length: int) -> Iterator[Line]:
    stream = 1 if line.start.stdout == line.end.stdout else 0
    # A piece needs a cursor of its own, and that takes a byte for each character: where that is not so, it
    # stays whole.
    is_mixed = stream == 0 and line.start.stderr != line.end.stderr
    text = line.text.strip("\ufffd")  # at its ends: characters that a window has cut
    lead = len(line.text) - len(line.text.lstrip("\ufffd"))
    trail = len(line.text) - lead - len(text)
    rest = line.size - len(text.encode())
    # What is not text is at most the newline, or bytes of a cut character at one end.
    if is_mixed or "\ufffd" in text or (lead and trail) or not 0 <= rest <= (4 if lead or trail else 1):
        yield line
        return
    position = line.start
    skipped = rest if lead else 0
    for begin in range(0, len(text), length):
        part = text[begin : begin + length]
        size = len(part.encode()) + (skipped if begin == 0 else 0)
        is_last = begin + length >= len(text)
        end = line.end if is_last else _moved(position, stream, size)
        # A secret that lies in several pieces counts with the first.
        yield replace(
            line,
            text=part,
            start=position,
            end=end,
            redacted=line.redacted if begin == 0 else 0,
            is_error=line.is_error and begin == 0,
            is_open=not is_last or line.is_open,
        )
        position = end


def _moved(cursor: Cursor, stream: int, size: int) -> Cursor:
    return (
        Cursor(cursor.stdout, cursor.stderr + size) if stream else Cursor(cursor.stdout + size, cursor.stderr)
    )


def _picked_errors(lines: Sequence[Line], room: int) -> set[int]:
    """Return the places of lines that report errors, and of those around them, as far as `room` characters
    reach.

    The first error is mostly the cause and the last one mostly the summary: two thirds are for the first
    ones. An error that was reported before, but for its numbers, comes after those that were not.
    """
    fresh: deque[int] = deque()
    again: deque[int] = deque()
    known: set[str] = set()
    for place, line in enumerate(lines):
        if line.is_error:
            key = _DIGITS.sub("0", line.text[:_KEY])
            (again if key in known else fresh).append(place)
            known.add(key)
    picked: set[int] = set()
    spent = 0
    while (fresh or again) and room - spent >= _MIN_CUT:
        places = fresh or again
        place = places.popleft() if spent < room * 2 // 3 else places.pop()
        around = [one for one in _around(lines, place) if one not in picked]
        for wanted in (around, [place] if place not in picked else []):
            if (cost := _length(lines[one] for one in wanted)) <= room - spent:
                picked.update(wanted)
                spent += cost
                break
    return picked


def _around(lines: Sequence[Line], place: int) -> list[int]:
    """Return the places of a line and of its neighbours, up to where something was not read."""
    first = last = place
    while first > max(0, place - CONTEXT_LINES) and lines[first - 1].end == lines[first].start:
        first -= 1
    while last < min(len(lines) - 1, place + CONTEXT_LINES) and lines[last].end == lines[last + 1].start:
        last += 1
    return list(range(first, last + 1))


def _take(places: Iterable[int], lines: Sequence[Line], picked: set[int], room: int) -> int:
    """Pick lines one after the other until one does not fit; return how many characters they have."""
    spent = 0
    for place in places:
        if place in picked:
            continue
        cost = _cost(lines[place])
        if spent + cost > room:
            break
        picked.add(place)
        spent += cost
    return spent


def _fill(lines: Sequence[Line], picked: set[int]) -> None:
    """Pick what lies between two picked lines where its mark would be longer than it is."""
    places = sorted(picked)
    for first, following in pairwise(places):
        between = range(first + 1, following)
        if (
            0 < len(between) <= _MARK_CHARACTERS
            and _length(lines[one] for one in between) <= _MARK_CHARACTERS
            and all(lines[one].end == lines[one + 1].start for one in range(first, following))
        ):
            picked.update(between)


def _cost(line: Line) -> int:
    return len(line.text) + 1 + (_CALL_CHARACTERS if line.is_mark else 0)


def _length(lines: Iterable[Line]) -> int:
    return sum(map(_cost, lines))


def _gaps(lines: Sequence[Line], start: Cursor, end: Cursor) -> Iterator[tuple[Cursor, Cursor]]:
    position = start
    for line in lines:
        if line.start != position:
            yield position, line.start
        position = line.end
    if position != end:
        yield position, end


def _marks(start: Cursor, end: Cursor, excerpt: Excerpt, *, source: Source) -> list[str]:
    """Return the mark for what is left out, and a second one if no errors were looked for in a part of it."""
    missing = end.stdout + end.stderr - start.stdout - start.stderr
    # Bytes, since lines were not counted where nothing was read, and the cursors are in bytes, too.
    marks = [f"[... {missing} bytes omitted{source.at(start, end)} ...]"]
    if excerpt.unsearched is not None and start <= excerpt.unsearched[0] < end:
        first, last = excerpt.unsearched
        searching = source.at(first, last, 'grep="error|fail"')
        marks.append(f"\n[not searched for errors{searching}]")
    return marks


def _shown_text(line: Line, budget: int, *, source: Source) -> str:
    if line.is_mark:
        # The mark's own call: in raw, nothing is collapsed, and binary data is hex.
        text, closing = (line.text[:-5], " ...]") if line.text.endswith(" ...]") else (line.text[:-1], "]")
        if not source.call:
            return line.text
        return f'{text}: cursor="{line.start}-{line.end}" raw=true{closing}'
    return _cut_line(line, budget, source=source)


def _cut_line(line: Line, budget: int, *, source: Source) -> str:
    """Return both ends of a line that is too long on its own, and could not be divided."""
    half = max(_MIN_CUT, budget // 2)
    missing = len(line.text) - 2 * half
    if missing <= 0:
        return line.text
    wanted = min(_LARGEST_BUDGET, len(line.text) + 1)
    call = source.at(line.start, line.end, f"budget={wanted}")
    return (
        f"{line.text[:half]}\n[... {missing} characters of this line omitted{call} ...]\n{line.text[-half:]}"
    )
