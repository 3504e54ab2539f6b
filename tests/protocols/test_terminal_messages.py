"""Control messages and addresses: what is understood, and what is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest, ProtocolViolation
from outlive.protocols.terminal_messages import (
    CONTROLLED,
    PLAIN,
    Closed,
    CursorReport,
    EndOfFile,
    Exited,
    GapMessage,
    HelloMessage,
    Notice,
    Opening,
    ResizeMessage,
    SendSignal,
    ServerMessage,
    Where,
    chosen_subprotocol,
    decode_message,
    encode_message,
    kind_of,
    sane_start,
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"type":"resize","rows":24,"cols":80,"later":1}', ResizeMessage(rows=24, cols=80)),
        ('{"type":"signal","name":"TERM"}', SendSignal(name="TERM")),
        ('{"name":2,"to":"tree","type":"signal"}', SendSignal(name=2, to="tree")),
        ('{"type":"eof"}', EndOfFile()),
        ('{"type":"where"}', Where()),
    ],
)
def test_what_a_viewer_says_is_understood(text: str, message: object) -> None:
    assert decode_message(text) == message
    assert kind_of(decode_message(text)) == json.loads(text)["type"]


_BROKEN = [
    "",
    "{",
    "[]",
    "null",
    "{}",
    '{"type":"dance"}',
    '{"type":"resize"}',
    '{"type":"resize","rows":0,"cols":80}',
    '{"type":"resize","rows":24,"cols":65536}',
    '{"type":"resize","rows":"24","cols":80}',
    '{"type":"signal"}',
    '{"type":"signal","name":"TERM","to":"all"}',
    '{"type":"eof"}}',
    "[" * 100_000,
    '{"type":"\ud800"}',
]


@pytest.mark.parametrize("text", _BROKEN)
def test_what_is_no_message_is_refused(text: str) -> None:
    with pytest.raises(ProtocolViolation) as refused:
        decode_message(text)
    assert refused.value.code == "invalid_request"
    assert len(refused.value.message) < 300


@given(st.text(max_size=200))
def test_no_text_does_anything_else(text: str) -> None:
    with pytest.raises(ProtocolViolation):
        decode_message("x" + text)


@given(st.integers(1, 65535), st.integers(1, 65535))
def test_every_size_that_a_terminal_can_have_arrives(rows: int, cols: int) -> None:
    assert decode_message(json.dumps({"type": "resize", "rows": rows, "cols": cols})) == ResizeMessage(
        rows=rows, cols=cols
    )
    assert Opening.parse({"rows": str(rows), "cols": str(cols)}).size == (rows, cols)


def test_what_the_server_says_has_the_documented_members() -> None:
    said: list[ServerMessage] = [
        HelloMessage(
            cursor="1.0",
            end="9.0",
            rows=24,
            cols=80,
            state="running",
            process_id="p",
            readonly=False,
            terminal=True,
        ),
        CursorReport(cursor="2.0"),
        GapMessage(stream="stdout", first=1, last=5, cursor="5.0"),
        Exited(exit_code=None, signal=9, state="signaled", error="Cancelled.", cursor="6.0"),
        Closed(cursor="6.0"),
        Notice(reason="scope_missing", message="No.", about="resize"),
    ]
    assert [json.loads(encode_message(one)) for one in said] == [
        {
            "type": "hello",
            "cursor": "1.0",
            "end": "9.0",
            "rows": 24,
            "cols": 80,
            "state": "running",
            "process_id": "p",
            "readonly": False,
            "terminal": True,
        },
        {"type": "cursor", "cursor": "2.0"},
        {"type": "gap", "stream": "stdout", "from": 1, "to": 5, "cursor": "5.0"},
        {
            "type": "exited",
            "exit_code": None,
            "signal": 9,
            "state": "signaled",
            "error": "Cancelled.",
            "cursor": "6.0",
        },
        {"type": "closed", "cursor": "6.0"},
        {"type": "notice", "reason": "scope_missing", "message": "No.", "about": "resize"},
    ]


def test_an_address_says_where_to_begin_and_how() -> None:
    assert Opening.parse({}) == Opening()
    assert Opening.parse(
        {"cursor": "12", "readonly": "1", "raw": "true", "rows": "24", "cols": "80", "x": "y"}
    ) == Opening(cursor=Cursor(12, 0), readonly=True, raw=True, size=(24, 80))
    assert Opening.parse({"readonly": "0", "raw": "FALSE"}) == Opening()


@pytest.mark.parametrize(
    "query",
    [
        {"cursor": "x"},
        {"cursor": "-1"},
        {"readonly": "yes please"},
        {"raw": "2"},
        {"rows": "24"},
        {"rows": "24", "cols": "0"},
        {"rows": "24", "cols": "99999"},
        {"rows": "24", "cols": "²"},
        {"rows": "24", "cols": "8" * 5000},
    ],
)
def test_an_address_that_makes_no_sense_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        Opening.parse(query)


def test_control_messages_win_over_plain_bytes() -> None:
    assert chosen_subprotocol([PLAIN, "other", CONTROLLED]) == CONTROLLED
    assert chosen_subprotocol(["other", PLAIN]) == PLAIN
    assert chosen_subprotocol(["other"]) is None
    assert chosen_subprotocol([]) is None


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
