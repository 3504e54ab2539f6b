"""The fast path: byte for byte what the plain way sends, whatever the bytes."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outlive.protocols.jsonrpc.output import MAX_LINES, FrameHeads, LineFramer, line_frame
from outlive.protocols.websocket_frames import TEXT, split_frames

_PROCESS_ID = "01arz3ndektsv4rrffq69g5fav"
_HEADS = FrameHeads()  # shared on purpose: tables filled by one example must be right for the next

# What has broken line splitters and encoders before: marks, halves of characters, quotes, separators of
# Unicode.
_NASTY = [
    b"\x7f",
    "\uffff".encode(),
    b"\xef\xbf",
    "\ufffd".encode(),
    "\u2028".encode(),
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"\x80",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xc0\xaf",
    b"\r",
    b"\x00",
    b"\x1b[31m",
    b'",',
    b'"',
    b"\\",
    b"}}",
    "é€😀".encode(),
    b"plain",
    b"x" * 70,
    b"x" * 300,
]
_line = st.lists(st.one_of(st.sampled_from(_NASTY), st.binary(max_size=8)), max_size=6).map(
    lambda pieces: b"".join(pieces).replace(b"\n", b"")
)
_chunk = st.lists(_line, min_size=1, max_size=12).map(lambda lines: b"\n".join(lines) + b"\n")
# Offsets around powers of ten: there the length of `end`, and with it every header, changes.
_start = st.one_of(
    st.integers(0, 2**50),
    st.integers(0, 15).flatmap(lambda power: st.integers(max(0, 10**power - 300), 10**power)),
)


def _plain(chunk: bytes, start: int, stream: int) -> tuple[bytes, int]:
    frames = []
    for content in chunk[:-1].split(b"\n"):
        start += len(content) + 1
        frames.append(line_frame(_PROCESS_ID, stream, content + b"\n", end=start))
    return b"".join(frames), start


@settings(max_examples=600)
@given(chunk=_chunk, start=_start, stream=st.sampled_from([0, 1]))
@example(chunk=b"\n", start=0, stream=0)
@example(chunk=b"\n" * 2000, start=9, stream=1)
@example(chunk=b"\x7f\xef\xbf\xbf\n\n", start=5, stream=0)
@example(chunk=b"\xe2\x82\n\xac\n", start=99, stream=0)
def test_the_fast_way_sends_what_the_plain_way_sends(chunk: bytes, start: int, stream: int) -> None:
    """S0.6, S0.20: texts, ends and WebSocket headers."""
    framer = LineFramer(_HEADS, _PROCESS_ID, stream)
    assert framer.frames(chunk, start, max_line_bytes=8192) == _plain(chunk, start, stream)


@settings(max_examples=300)
@given(chunk=_chunk, limit=st.integers(1, 400))
def test_a_line_over_the_limit_is_left_to_the_other_way(chunk: bytes, limit: int) -> None:
    """S0.7: None as soon as one line is too long, its newline not counted; never for lines that fit."""
    longest = max(len(content) for content in chunk[:-1].split(b"\n"))
    frames = LineFramer(_HEADS, _PROCESS_ID, 0).frames(chunk, 0, max_line_bytes=limit)
    assert (frames is None) == (longest > limit)


@pytest.mark.parametrize("length", [0, 1, 124, 125, 126, 127, 65_000, 65_535, 65_536, 70_000, 300_000])
def test_every_size_of_header_is_right(length: int) -> None:
    """RFC 6455, 5.2: 7, 16 and 64 bits of length."""
    chunk = b"y" * length + b"\n"
    framed = LineFramer(_HEADS, _PROCESS_ID, 0).frames(chunk, 0, max_line_bytes=1_000_000)
    assert framed is not None
    ((kind, payload),) = split_frames(framed[0])
    assert kind == TEXT
    assert json.loads(payload)["params"]["data"] == "y" * length + "\n"


@pytest.mark.parametrize("line", [b"\n", b"a\n", b"\x01\n", b"\x7f\xef\xbf\xbf\n"])
@pytest.mark.parametrize("extra", [-1, 0, 1, 1000])
def test_one_call_builds_a_bounded_number_of_frames(line: bytes, extra: int) -> None:
    """S0.16: of a flood of short lines the first ones, and the offset to go on from."""
    count = min(MAX_LINES + extra, MAX_LINES)
    framed = LineFramer(_HEADS, _PROCESS_ID, 1).frames(line * (MAX_LINES + extra), 7, max_line_bytes=8192)
    assert framed == _plain(line * count, 7, 1)


def test_the_tables_stay_small_for_a_stream_of_every_length() -> None:
    """The server's memory: a process that prints lines of all lengths does not fill it."""
    heads = FrameHeads()
    framer = LineFramer(heads, _PROCESS_ID, 0)
    for length in range(5000):
        chunk = b"z" * length + b"\n"
        assert framer.frames(chunk, 10**9, max_line_bytes=8192) == _plain(chunk, 10**9, 0)
    assert len(heads.table(0, 10)) <= 2048
