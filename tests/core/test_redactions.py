"""How many secrets a reader is shown as stars: each once, however what it reads is cut."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from outlive.core.printable import hidden_words
from outlive.core.redactions import Redactions, joined_spans, spans_within
from outlive.policy.redaction import merged

_SIZE = 60
_Span = tuple[int, int]
_SPANS = st.lists(
    st.tuples(st.integers(0, _SIZE - 1), st.integers(1, 20)).map(lambda one: (one[0], min(_SIZE, sum(one)))),
    max_size=6,
).map(merged)


@given(spans=_SPANS, cuts=st.sets(st.integers(1, _SIZE - 1)), start=st.integers(0, _SIZE - 1))
def test_a_secret_counts_once_however_the_output_is_cut(
    spans: list[_Span], cuts: set[int], start: int
) -> None:
    """From any cursor on: what counts is what this reader sees, in any pieces."""
    places = [start, *sorted(cut for cut in cuts if cut > start), _SIZE]
    redactions = Redactions()
    told = [
        redactions.count(0, begin, end, spans_within(spans, begin, end))
        for begin, end in itertools.pairwise(places)
    ]
    assert sum(told) == redactions.total == sum(end > start for _, end in spans)
    assert all(one >= 0 for one in told)


@given(spans=_SPANS, cut=st.integers(1, _SIZE - 1))
def test_two_pieces_joined_are_the_whole(spans: list[_Span], cut: int) -> None:
    whole = joined_spans(spans_within(spans, 0, cut), spans_within(spans, cut, _SIZE))
    assert list(whole) == spans


def test_the_two_streams_are_counted_apart() -> None:
    redactions = Redactions()
    assert redactions.count(0, 0, 10, [(5, 10)]) == 1
    assert redactions.count(1, 10, 20, [(10, 12)]) == 1
    assert redactions.count(0, 10, 20, [(10, 12)]) == 0
    assert (hidden_words(1), hidden_words(2)) == ("1 secret hidden", "2 secrets hidden")
