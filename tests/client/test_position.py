"""Exactly once: whatever is told again or twice, each byte is passed on once, in its order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.client.follow import Position
from outlive.client.messages import OutputMissing, OutputPiece
from outlive.client.results import Gap, Output, Stream
from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import ProtocolViolation

_STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")


@given(
    out=st.binary(max_size=60),
    err=st.binary(max_size=60),
    connections=st.lists(
        st.lists(st.tuples(st.sampled_from(_STREAMS), st.integers(0, 20), st.integers(0, 9)), max_size=12),
        max_size=6,
    ),
)
def test_each_byte_is_passed_on_once_however_often_it_is_told(
    out: bytes, err: bytes, connections: list[list[tuple[Stream, int, int]]]
) -> None:
    """A connection tells pieces of each stream from some place before the position on, and breaks off
    anywhere.
    """
    whole = {"stdout": out, "stderr": err}
    passed = {"stdout": b"", "stderr": b""}
    position = Position(BEGINNING)
    for pieces in connections:
        told = {"stdout": position.cursor.stdout, "stderr": position.cursor.stderr}
        for stream, size, back in pieces:
            start = max(0, told[stream] - back)
            data = whole[stream][start : start + size]
            told[stream] = max(told[stream], start + len(data))
            item = position.take(OutputPiece("p", stream, data, start + len(data)))
            if item is not None:
                assert isinstance(item, Output)
                assert item.data
                passed[item.stream] += item.data
                assert item.cursor == position.cursor
    assert position.cursor == Cursor(len(passed["stdout"]), len(passed["stderr"]))
    assert all(whole[stream].startswith(passed[stream]) for stream in _STREAMS)


def test_a_hole_is_never_passed_over() -> None:
    position = Position(Cursor(3, 0))
    with pytest.raises(ProtocolViolation, match="3 to 4"):
        position.take(OutputPiece("p", "stdout", b"x", 5))
    assert position.cursor == Cursor(3, 0)


def test_a_gap_is_told_from_where_the_reader_stands() -> None:
    position = Position(Cursor(3, 7))
    assert position.take(OutputMissing("p", "stdout", 0, 10)) == Gap("stdout", 3, 10, Cursor(10, 7))
    assert position.take(OutputMissing("p", "stdout", 0, 10)) is None
