"""How many secrets somebody is shown as stars: `Redactions` counts what one reading shows, however it is cut into pieces. Pure.

The masks of logs say which bytes of a piece are hidden; this makes a number of it. Bytes that are hidden without one in between that is
shown are one secret: where two touch nobody can see that they are two, and one that lies over several pieces counts with the first.
"""

from bisect import bisect_left
from collections.abc import Sequence

HiddenSpans = Sequence[tuple[int, int]]
"""Where bytes of one stream are hidden: offsets (begin, end), in order, apart from each other."""


class Redactions:
    """Counts for one reader of one process: an answer, or all that a follower is told."""

    __slots__ = ("_hidden_to", "total")

    def __init__(self) -> None:
        """Nothing was shown yet; `total` is what was counted so far."""
        self.total = 0
        self._hidden_to = [-1, -1]  # by stream: where a secret was cut by the end of what was shown

    def count(self, stream: int, begin: int, end: int, hidden: HiddenSpans) -> int:
        """Return how many secrets bytes `begin` to `end` of a stream show that were not counted with what was shown before."""
        if not hidden:
            return 0
        near = spans_within(hidden, begin, end)
        if not near:
            return 0
        goes_on = near[0][0] == begin == self._hidden_to[stream]
        if near[-1][1] == end:
            self._hidden_to[stream] = end
        number = len(near) - goes_on
        self.total += number
        return number


def spans_within(hidden: HiddenSpans, begin: int, end: int) -> HiddenSpans:
    """Return the parts of spans that lie between two offsets."""
    if not hidden:
        return ()
    first = bisect_left(hidden, (begin, -1))
    if first and hidden[first - 1][1] > begin:
        first -= 1
    last = bisect_left(hidden, (end, -1), lo=first)
    return [(max(one, begin), min(other, end)) for one, other in hidden[first:last]]


def joined_spans(before: HiddenSpans, after: HiddenSpans) -> HiddenSpans:
    """Return the spans of two pieces of which the second begins where the first ends."""
    if not before or not after:
        return before or after
    if before[-1][1] < after[0][0]:
        return [*before, *after]
    return [*before[:-1], (before[-1][0], max(before[-1][1], after[0][1])), *after[1:]]


def hidden_words(count: int) -> str:
    """Return a count as people and models read it."""
    return f"{count} secret hidden" if count == 1 else f"{count} secrets hidden"


def redacted_member(count: int) -> dict[str, int]:
    """Return a count as the member of an answer; it is left out where nothing is hidden."""
    return {"redacted": count} if count else {}
