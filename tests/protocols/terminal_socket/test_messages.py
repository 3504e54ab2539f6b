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
