"""Where history begins: never within a character or an escape sequence, at a line's beginning where there is
one.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.protocols.terminal_messages import sane_start

_PARTS = st.one_of(
    st.text(st.characters(exclude_characters="\x07\x18\x1a\x1b", exclude_categories=["Cs"]), max_size=6).map(
        str.encode
    ),
    st.sampled_from(
        [
            b"\x1b[0m",
            b"\x1b[38;2;1;22;133m",
            b"\x1b[?1049h",
            b"\x1b[10 q",
            b"\x1b(B",
            b"\x1b7",
            b"\x1b]0;a title, \xc3\xa4\x07",
            b"\x1b]8;;http://x/\x1b\\",
            b"\x1bPq#0;2;0\n0;0-\n\x1b\\",
            b"\x1b_one\ntwo\x1b\\",
            b"\r\n",
            b"\n",
            "grün 日本 🎉".encode(),
        ]
    ),
)


def _boundaries(parts: list[bytes]) -> set[int]:
    """Return every place that is in no sequence and in no character."""
    places, offset = {0}, 0
    for part in parts:
        if part.startswith(b"\x1b"):
            offset += len(part)
            places.add(offset)
            continue
        for character in part.decode():
            offset += len(character.encode())
            places.add(offset)
    return places


@pytest.mark.promise("T.begin")
@given(parts=st.lists(_PARTS, max_size=40), data=st.data())
def test_no_beginning_lies_within_a_character_or_a_sequence(parts: list[bytes], data: st.DataObject) -> None:
    text = b"".join(parts)
    wanted = data.draw(st.integers(0, len(text)))
    found = sane_start(text, wanted)
    assert wanted <= found <= len(text)
    assert found in _boundaries(parts)


@given(parts=st.lists(_PARTS, max_size=40), data=st.data())
def test_a_line_begins_there_where_one_does(parts: list[bytes], data: st.DataObject) -> None:
    text = b"".join(parts)
    wanted = data.draw(st.integers(1, len(text) + 1))
    lines = [place for place in _boundaries(parts) if place >= wanted and text[place - 1 : place] == b"\n"]
    if lines:
        assert sane_start(text, wanted) == min(lines)


@given(text=st.binary(max_size=300), data=st.data())
def test_any_bytes_have_a_beginning(text: bytes, data: st.DataObject) -> None:
    wanted = data.draw(st.integers(0, len(text)))
    assert wanted <= sane_start(text, wanted) <= len(text)


@pytest.mark.parametrize(
    ("text", "wanted", "begins"),
    [
        (b"abc\x1b[38;5", 5, 9),  # a sequence that is not finished yet: behind what there is of it
        (b"\x1b]0;title", 4, 9),
        (b"\x1bPq no end at all \n \n", 5, 21),
        (b"\x1b]0;cancelled\x18text", 5, 13),  # CAN ends it
        (b"\x1b[31\x1b[32mred", 2, 4),  # a new one ends it
        ("日".encode(), 1, 3),
        ("日".encode(), 2, 3),
        (b"\x80\x80\x80\x80\x80", 0, 3),  # no UTF-8 at all: never further than a character is long
        (b"one\ntwo", 4, 4),
        (b"one\ntwo", 3, 4),
    ],
)
def test_what_is_unfinished_or_no_text_at_all(text: bytes, wanted: int, begins: int) -> None:
    assert sane_start(text, wanted) == begins
