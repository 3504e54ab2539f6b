"""WebSocket frames built by hand: what a real client library reads from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, Protocol, State

from outlive.protocols.websocket_frames import BINARY, TEXT, binary_frame, split_frames, text_frame

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
