"""Output the plain way: lines, first parts, pieces, raw bytes, pages."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.cursor import BEGINNING, Cursor
from outlive.protocols.jsonrpc.output import (
    binary_output_frame,
    cut_line,
    decode_whole,
    line_frame,
    shortened_line_frame,
    text_output_frame,
)
from outlive.protocols.jsonrpc.views import Encoding, Piece, page_view
from outlive.protocols.websocket_frames import BINARY, split_frames


def _params(frame: bytes) -> dict[str, object]:
    ((_, payload),) = split_frames(frame)
    message = json.loads(payload)
    assert message["jsonrpc"] == "2.0"
    assert message["method"] == "process.output"
    params = message["params"]
    assert isinstance(params, dict)
    return params


def test_a_line_is_shown_as_it_is() -> None:
    """S0.6, S0.20."""
    assert _params(line_frame("p", 0, b"a\xff\n", end=3)) == {
        "type": "stdout",
        "data": "a\ufffd\n",
        "truncated": False,
        "process_id": "p",
        "end": 3,
    }
    assert _params(line_frame("p", 1, b"name? ", end=6, is_partial=True))["partial"] is True


def test_a_long_line_is_shown_by_its_first_part() -> None:
    """S0.7."""
    params = _params(shortened_line_frame("p", 0, b"abcdef", max_line_bytes=4, length=900, end=901))
    assert (params["data"], params["truncated"], params["length"], params["end"]) == (
        "abcd...\n",
        True,
        900,
        901,
    )
    assert "partial" not in params
    assert (
        params["hint"] == "To get it whole set max_line_bytes (MAX_BUFFER_SIZE of the server) to 900 or more."
    )
    longer = _params(shortened_line_frame("p", 0, b"a", max_line_bytes=1, length=2**24 + 1, end=2))
    assert longer["hint"] == 'No line of more than 16777216 bytes is sent whole: take output "chunk".'


@pytest.mark.parametrize(
    ("first", "limit", "shown"),
    [
        ("€€€€".encode(), 9, "€€€...\n"),
        ("€€€€".encode(), 10, "€€€...\n"),
        ("€€€€".encode(), 11, "€€€...\n"),
        ("€€€€".encode(), 12, "€€€€...\n"),
        ("€".encode(), 1, "...\n"),
        (b"\xff\xff\xff", 2, "\ufffd\ufffd...\n"),
    ],
)
def test_a_cut_is_at_a_characters_end(first: bytes, limit: int, shown: str) -> None:
    """S0.7: left out whole, never damaged."""
    assert cut_line(first, limit) == shown


@given(
    pieces=st.lists(
        st.one_of(st.binary(max_size=5), st.sampled_from(["é€😀".encode(), b"\xe2\x82", b"\xf0\x9f"])),
        max_size=8,
    )
)
def test_decoding_in_pieces_is_decoding_the_whole(pieces: list[bytes]) -> None:
    """S0.6: a character cut by a read is not damaged, an invalid one is replaced once."""
    text, rest = "", b""
    for piece in pieces:
        part, size = decode_whole(rest + piece)
        text, rest = text + part, (rest + piece)[size:]
    assert text + rest.decode("utf-8", "replace") == b"".join(pieces).decode("utf-8", "replace")
    assert len(rest) <= 3


def test_pieces_carry_text_or_raw_bytes() -> None:
    """S0.3: chunk and binary; the JSON head of a binary frame ends at its first newline."""
    assert _params(text_output_frame("p", 0, "a\nb", end=9))["data"] == "a\nb"
    ((kind, payload),) = split_frames(binary_output_frame("p", 1, b"\xff\n\n", end=3))
    head, _, data = payload.partition(b"\n")
    assert kind == BINARY
    assert json.loads(head)["params"] == {"type": "stderr", "truncated": False, "process_id": "p", "end": 3}
    assert data == b"\xff\n\n"


def _page(
    *pieces: Piece, cursor: Cursor = BEGINNING, encoding: Encoding = "utf-8", is_last: bool = False
) -> tuple[list[dict[str, object]], str]:
    chunks, following = page_view(pieces, cursor, encoding=encoding, is_last=is_last)
    return [dict(chunk) for chunk in chunks], str(following)


def test_a_page_holds_both_streams_in_order() -> None:
    """S0.19 read."""
    assert _page(Piece(0, 0, 2, b"a\n"), Piece(1, 5, 6, b"!"), Piece(0, 2, 3, b"b"), cursor=Cursor(0, 5)) == (
        [
            {"type": "stdout", "data": "a\n", "end": 2},
            {"type": "stderr", "data": "!", "end": 6},
            {"type": "stdout", "data": "b", "end": 3},
        ],
        "3.6",
    )


def test_a_character_cut_by_a_chunk_moves_to_the_next() -> None:
    """S0.19 read: joined texts are the decoded stream."""
    first, second = "€".encode()[:1], "€".encode()[1:]
    assert _page(Piece(0, 0, 2, b"a" + first), Piece(1, 0, 1, b"e"), Piece(0, 2, 4, second)) == (
        [
            {"type": "stdout", "data": "a", "end": 1},
            {"type": "stderr", "data": "e", "end": 1},
            {"type": "stdout", "data": "€", "end": 4},
        ],
        "4.1",
    )
    assert _page(Piece(0, 0, 2, b"a" + first)) == ([{"type": "stdout", "data": "a", "end": 1}], "1.0")
    assert _page(Piece(0, 0, 1, first)) == ([], "0.0")
    assert _page(Piece(0, 0, 1, first), is_last=True) == (
        [{"type": "stdout", "data": "\ufffd", "end": 1}],
        "1.0",
    )


def test_base64_pages_hold_every_byte() -> None:
    """S0.19 read: for output that is no text."""
    encoded = base64.b64encode(b"\xe2\x00").decode()
    assert _page(Piece(0, 0, 2, b"\xe2\x00"), encoding="base64") == (
        [{"type": "stdout", "data": encoded, "end": 2}],
        "2.0",
    )


def test_released_output_is_told_in_a_page() -> None:
    """S0.20: and a character cut by the gap is closed before it."""
    chunks, cursor = _page(Piece(0, 0, 2, b"a\xe2"), Piece(0, 2, 9, None), Piece(0, 9, 10, b"b"))
    assert chunks == [
        {"type": "stdout", "data": "a", "end": 1},
        {"type": "stdout", "data": "\ufffd", "end": 2},
        {"type": "stdout", "gap": True, "from": 2, "to": 9, "end": 9},
        {"type": "stdout", "data": "b", "end": 10},
    ]
    assert cursor == "10.0"
