"""A recording of a terminal, wherever its output is cut."""

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from outlive.protocols.terminal.asciicast import Asciicast


@given(text=st.text(max_size=40), cuts=st.lists(st.integers(0, 80)))
def test_the_texts_join_to_the_output_and_no_character_is_cut(text: str, cuts: list[int]) -> None:
    data = text.encode()
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    recording = Asciicast([])
    lines = b"".join(
        recording.feed(begin, data[begin:end], 10**9 * place)
        for place, (begin, end) in enumerate(itertools.pairwise(places))
    ).splitlines()
    assert "".join(json.loads(line)[2] for line in lines[1:]) == text


def test_sizes_are_told_where_they_changed() -> None:
    recording = Asciicast([(0, 24, 80), (3, 30, 100), (3, 40, 120), (9, 5, 5)])
    lines = recording.feed(0, b"abc", 5 * 10**9) + recording.feed(3, b"def", 6 * 10**9)
    assert [json.loads(line) for line in lines.splitlines()] == [
        {"version": 2, "width": 80, "height": 24, "timestamp": 5},
        [0.0, "o", "abc"],
        [1.0, "r", "120x40"],
        [1.0, "o", "def"],
    ]
