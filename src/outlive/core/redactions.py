"""How many secrets a reader sees redacted: `Redactions` counts them over one reading, however it is cut into
pieces. Pure.

The masks of logs report which bytes of a piece are redacted; this turns them into a number. Redacted bytes
without a visible byte in between are one secret: two that touch cannot be distinguished, and one that reaches
over several pieces is counted with the first.
"""

from bisect import bisect_left
from collections.abc import Sequence

HiddenSpans = Sequence[tuple[int, int]]
"""The redacted bytes of one stream: offsets (begin, end), sorted and disjoint."""


class Redactions:
    """Counts for one reader of one process: for one answer, or for all that a subscriber gets."""

    __slots__ = ("_hidden_to", "total")

    def __init__(self) -> None:
        """Begin before anything was shown; `total` is the count so far."""
        self.total = 0
        self._hidden_to = [-1, -1]  # by stream: the end of the last piece, if a secret reached up to it

    def count(self, stream: int, begin: int, end: int, hidden: HiddenSpans) -> int:
        """Return how many secrets bytes `begin` to `end` of a stream show that were not counted with the
        bytes before.
        """
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
    """Return the parts of spans between two offsets."""
    if not hidden:
        return ()
    first = bisect_left(hidden, (begin, -1))
    if first and hidden[first - 1][1] > begin:
        first -= 1
    last = bisect_left(hidden, (end, -1), lo=first)
    return [(max(one, begin), min(other, end)) for one, other in hidden[first:last]]


def joined_spans(before: HiddenSpans, after: HiddenSpans) -> HiddenSpans:
    """Return the spans of two pieces, of which the second begins where the first ends."""
    if not before or not after:
        return before or after
    if before[-1][1] < after[0][0]:
        return [*before, *after]
    return [*before[:-1], (before[-1][0], max(before[-1][1], after[0][1])), *after[1:]]


def redacted_member(count: int) -> dict[str, int]:
    """Return a count as the member of an answer; without a secret there is no member."""
    return {"redacted": count} if count else {}
