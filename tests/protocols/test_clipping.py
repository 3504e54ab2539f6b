"""Output over the limit: head and tail, a mark that counts truly, no damaged character."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.protocols.plain import Clip, join_pieces, shown_ranges


def _shown(data: bytes, limit_bytes: int) -> str:
    pieces = [Clip(start, data[start:end]) for start, end in shown_ranges(len(data), limit_bytes)]
    return join_pieces([piece for piece in pieces if piece.data], len(data))


@pytest.mark.promise("S1.8.output")
@given(st.text(alphabet=st.sampled_from("aé€😀\n"), max_size=200), st.integers(1, 100))
def test_the_mark_counts_exactly_what_is_left_out(text: str, limit_bytes: int) -> None:
    data = text.encode()
    shown = _shown(data, limit_bytes)
    if len(data) <= limit_bytes:
        assert shown == text
        return
    assert "\ufffd" not in shown
    found = re.search(r"\n\[\.\.\. (\d+) bytes omitted \.\.\.\]\n", shown)
    assert found is not None
    head, tail = shown[: found.start()], shown[found.end() :]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head.encode()) + int(found[1]) + len(tail.encode()) == len(data)
    assert len(head.encode()) + len(tail.encode()) >= limit_bytes - 6


@given(st.binary(max_size=200), st.integers(1, 100))
def test_bytes_that_are_no_text_never_fail(data: bytes, limit_bytes: int) -> None:
    """S1.8."""
    shown = _shown(data, limit_bytes)
    assert ("bytes omitted" in shown) == (len(data) > limit_bytes)


def test_what_the_log_no_longer_holds_is_marked() -> None:
    """S1.8."""
    assert join_pieces([Clip(0, b"ab"), Clip(8, b"cd")], 10) == "ab\n[... 6 bytes omitted ...]\ncd"
    assert join_pieces([Clip(0, b"ab")], 10) == "ab\n[... 8 bytes omitted ...]\n"
    assert join_pieces([], 10) == "\n[... 10 bytes omitted ...]\n"
    assert join_pieces([], 0) == ""
