"""Output as text for an editor: the same wherever its pieces are cut."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from outlive.protocols.plain import CleanText, plain_text

_PARTS = st.sampled_from(["a", "grün", "\n", "\r\n", "\r", "\x1b[31m", "\x1b]0;t\x07", "\b", "漢"])


@given(parts=st.lists(_PARTS, max_size=30), cuts=st.lists(st.integers(0, 60)))
def test_wherever_it_is_cut_the_text_is_that_of_the_whole(parts: list[str], cuts: list[int]) -> None:
    whole = "".join(parts).encode()
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    text = CleanText()
    pieces = [text.feed(0, whole[begin:end]) for begin, end in itertools.pairwise(places)]
    assert b"".join(pieces) + text.rest() == plain_text(whole.decode()).encode()


def test_streams_are_kept_apart_and_a_line_without_an_end_goes_out_in_pieces() -> None:
    text = CleanText()
    assert text.feed(0, b"be") + text.feed(1, b"wrong\n") + text.feed(0, b"gun\n") == b"wrong\nbegun\n"
    assert len(text.feed(0, b"x" * 3_000_000)) == 3_000_000
    assert text.rest() == b""
