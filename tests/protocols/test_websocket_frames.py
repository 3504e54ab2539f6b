"""WebSocket frames built by hand: what a real client library reads from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, Protocol, State

from outlive.protocols.websocket_frames import (
    BINARY,
    TEXT,
    LargeBinary,
    binary_frame,
    lone_text,
    split_frames,
    text_frame,
)

_SIZES = [0, 1, 125, 126, 127, 65_535, 65_536, 200_000]


def _read_by_a_client(data: bytes) -> list[tuple[Opcode, bytes]]:
    client = Protocol(CLIENT, state=State.OPEN, max_size=None)
    client.receive_data(data)
    events = client.events_received()
    assert all(isinstance(event, Frame) and event.fin for event in events)
    return [(event.opcode, bytes(event.data)) for event in events if isinstance(event, Frame)]


@pytest.mark.parametrize("size", _SIZES)
def test_a_client_reads_the_frames_as_they_were_meant(size: int) -> None:
    """RFC 6455, 5.2."""
    data = text_frame(b"a" * size) + binary_frame(b"\xff" * size)
    assert _read_by_a_client(data) == [(Opcode.TEXT, b"a" * size), (Opcode.BINARY, b"\xff" * size)]


@given(payloads=st.lists(st.tuples(st.booleans(), st.binary(max_size=300)), max_size=6))
def test_frames_can_be_taken_apart_again(payloads: list[tuple[bool, bytes]]) -> None:
    """What transports without the extension send one by one."""
    data = b"".join((text_frame if is_text else binary_frame)(payload) for is_text, payload in payloads)
    assert list(split_frames(data)) == [
        (TEXT if is_text else BINARY, payload) for is_text, payload in payloads
    ]


@pytest.mark.parametrize("size", _SIZES)
def test_large_frames_can_be_taken_apart_again(size: int) -> None:
    assert list(split_frames(text_frame(b"b" * size) * 2)) == [(TEXT, b"b" * size)] * 2


def _of_a_client(opcode: Opcode, payload: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, payload, fin=fin).serialize(mask=True)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 125, 126, 127, 4096, 65_535])
def test_a_request_in_one_frame_is_read_by_hand(size: int) -> None:
    """RFC 6455, 5.3."""
    payload = bytes(number % 251 for number in range(size))
    assert lone_text(_of_a_client(Opcode.TEXT, payload)) == payload


def test_a_long_length_is_not_taken_for_a_short_one() -> None:
    """A frame whose length is written in eight bytes, and that is as long as one of 127 bytes would be."""
    header = bytes((TEXT, 0x80 | 127)) + (119).to_bytes(8, "big")
    assert lone_text(header + bytes(4) + bytes(119)) is None


def test_what_is_not_one_whole_text_frame_is_left_to_a_parser() -> None:
    text = _of_a_client(Opcode.TEXT, b"text")
    reserved = bytes((text[0] | 0x40,)) + text[1:]
    others = [
        b"",
        text * 2,
        text + b"x",
        reserved,
        text_frame(b"not masked"),
        text_frame(b"n" * 200),
        _of_a_client(Opcode.TEXT, b"l" * 65_536),
        _of_a_client(Opcode.TEXT, b"a part", fin=False),
        *(_of_a_client(opcode, b"\x03\xe8") for opcode in Opcode if opcode is not Opcode.TEXT),
        *(text[:size] for size in range(len(text))),
    ]
    assert [lone_text(data) for data in others] == [None] * len(others)


def _begun(data: bytes, at: int = 0) -> LargeBinary | None:
    begun = LargeBinary.begin(data, at, max_bytes=100_000)
    return None if begun is None else begun[0]


@pytest.mark.parametrize("size", [126, 65_535, 65_536, 100_000])
def test_a_large_binary_frame_is_gathered_however_it_comes(size: int) -> None:
    """RFC 6455, 5.2: the length in two bytes or in eight; what follows the frame is not taken."""
    payload = bytes(range(256)) * (size // 256 + 1)
    wire = b"before" + Frame(Opcode.BINARY, payload[:size]).serialize(mask=True) + b"behind"
    begun = LargeBinary.begin(wire, 6, max_bytes=100_000)
    assert begun is not None
    large, at = begun
    while not large.is_whole:
        piece = wire[at : at + 30_000]
        at += large.take(piece, 0)
    key = (large.key * (size // 4 + 1))[:size]
    assert bytes(a ^ b for a, b in zip(large.payload, key, strict=True)) == payload[:size]
    assert wire[at:] == b"behind"


def test_a_large_frame_holds_what_has_come_and_not_what_it_announces() -> None:
    """A header costs its sender fourteen bytes."""
    large = _begun(Frame(Opcode.BINARY, bytes(90_000)).serialize(mask=True)[:14])
    assert large is not None
    assert len(large.payload) == 0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes((BINARY,)),
        Frame(Opcode.TEXT, bytes(1000)).serialize(mask=True),
        Frame(Opcode.BINARY, bytes(1000), fin=False).serialize(mask=True),
        Frame(Opcode.BINARY, bytes(1000)).serialize(mask=False),
        Frame(Opcode.BINARY, bytes(125)).serialize(mask=True),
        Frame(Opcode.BINARY, bytes(100_001)).serialize(mask=True),
        Frame(Opcode.BINARY, bytes(1000)).serialize(mask=True)[:7],
        Frame(Opcode.BINARY, bytes(90_000)).serialize(mask=True)[:13],
        bytes((BINARY, 0xFE, 0, 0, 1, 2, 3, 4)),
    ],
    ids=[
        "nothing",
        "half a head",
        "text",
        "a part",
        "unmasked",
        "small",
        "too large",
        "mask cut",
        "head cut",
        "no payload",
    ],
)
def test_every_other_frame_is_left_to_the_parser(data: bytes) -> None:
    """Text, parts, no mask, little, too much, a header that is not whole, nothing at all."""
    assert _begun(data) is None
