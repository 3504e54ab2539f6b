"""Many lines at once are exactly what one event after the other would be."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.protocols.sse import encode_event, encode_line_events, encode_part_event

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"))
_LINES = st.lists(
    _TEXT | st.sampled_from(['a",', '","', "\\", "\\n", "\r", "\x00", "\u2028", '"}']), min_size=1
)


def _parsed(events: bytes) -> list[tuple[str, object]]:
    """Read events as the standard says: lines end with CR, LF or both; an empty line ends an event."""
    text = events.decode()
    assert text.endswith("\n\n")
    assert "\r" not in text
    found = []
    for event in text.removesuffix("\n\n").split("\n\n"):
        name, data = event.split("\n")
        assert name.startswith("event: ")
        assert data.startswith("data: ")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


@pytest.mark.promise("S4.3")
@given(lines=_LINES)
def test_one_event_for_each_line_whatever_is_in_it(lines: list[str]) -> None:
    events = encode_line_events("stdout", "".join(line + "\n" for line in lines))
    assert _parsed(events) == [("stdout", {"content": line}) for line in lines]


@pytest.mark.promise("S4.3")
def test_the_bytes_are_the_documented_ones() -> None:
    assert encode_line_events("stdout", "Processing line 1...\n") == (
        b'event: stdout\ndata: {"content": "Processing line 1..."}\n\n'
    )
    assert encode_event("x", b"{}") == b"event: x\ndata: {}\n\n"
    assert _parsed(encode_part_event("stderr", "a\n")) == [("stderr", {"content": "a\n", "partial": True})]
