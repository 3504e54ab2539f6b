"""The WebSocket over a Unix socket: frames however they are cut, deadlines that lose nothing, closing from
elsewhere.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from outlive.client.runtime import ConnectionLost, Unreachable, run
from outlive.client.thread_runtime import LocalWire, open_local
from outlive.core.errors import AccessDenied
from outlive.protocols.websocket_frames import binary_frame, frame_header, text_frame

_ANSWER = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def _unmasked(data: bytes) -> tuple[int, bytes, bytes]:
    """Return opcode, payload and rest of a client's frame (RFC 6455, section 5.2), by the letter."""
    assert data[0] & 0x80
    assert data[1] & 0x80, "what a client sends is masked"
    size, place = data[1] & 0x7F, 2
    if size == 126:
        size, place = int.from_bytes(data[2:4], "big"), 4
    elif size == 127:
        size, place = int.from_bytes(data[2:10], "big"), 10
    key, payload = data[place : place + 4], data[place + 4 : place + 4 + size]
    return (
        data[0] & 0x0F,
        bytes(byte ^ key[index % 4] for index, byte in enumerate(payload)),
        data[place + 4 + size :],
    )


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 300_000])
def test_frames_of_any_size_arrive_whole_however_they_are_cut(
    ends: tuple[socket.socket, socket.socket], size: int
) -> None:
    ours, theirs = ends
    frames = binary_frame(b"\xff" * size) + text_frame(b"t" * size)
    wire = LocalWire(ours, frames[:3])

    def send() -> None:
        for start in range(3, len(frames), max(1, size // 7 + 1)):
            theirs.sendall(frames[start : start + max(1, size // 7 + 1)])

    sender = threading.Thread(target=send)
    sender.start()
    assert run(wire.receive(10.0)) == b"\xff" * size
    assert run(wire.receive(10.0)) == "t" * size
    sender.join()
    run(wire.close())


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536])
def test_what_is_sent_is_masked_and_whole(ends: tuple[socket.socket, socket.socket], size: int) -> None:
    ours, theirs = ends
    wire = LocalWire(ours, b"")
    received = b""
    sender = threading.Thread(target=lambda: run(wire.send("é" * (size // 2) + "x" * (size % 2))))
    sender.start()
    while len(received) < size + 6:
        received += theirs.recv(1 << 20)
    sender.join()
    theirs.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        received += theirs.recv(1 << 20)
    opcode, payload, rest = _unmasked(received)
    assert (opcode, payload.decode(), rest) == (1, "é" * (size // 2) + "x" * (size % 2), b"")
    run(wire.close())


def test_a_deadline_in_the_middle_of_a_frame_loses_nothing(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = ends
    wire, frame = LocalWire(ours, b""), text_frame(b"a whole frame")
    for cut in range(len(frame)):
        with pytest.raises(TimeoutError):
            run(wire.receive(0.0))
        theirs.sendall(frame[cut : cut + 1])
    assert run(wire.receive(10.0)) == "a whole frame"
    run(wire.close())


def test_a_ping_is_answered_on_the_way(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    wire = LocalWire(ours, frame_header(0x89, 2) + b"hi" + text_frame(b"next"))
    assert run(wire.receive(10.0)) == "next"
    assert _unmasked(theirs.recv(100)) == (0xA, b"hi", b"")
    run(wire.close())


@pytest.mark.parametrize(
    "frame", [frame_header(0x88, 2) + b"\x03\xe8", b""], ids=["a close frame", "the end"]
)
def test_the_end_of_the_connection_is_told(ends: tuple[socket.socket, socket.socket], frame: bytes) -> None:
    ours, theirs = ends
    wire = LocalWire(ours, frame)
    theirs.shutdown(socket.SHUT_RDWR)
    with pytest.raises(ConnectionLost):
        run(wire.receive(10.0))
    run(wire.close())
    with pytest.raises(ConnectionLost) as lost:
        run(wire.send("x"))
    assert not lost.value.was_sent
    with pytest.raises(ConnectionLost):
        run(wire.receive(10.0))


def test_closing_wakes_who_receives(ends: tuple[socket.socket, socket.socket]) -> None:
    wire = LocalWire(ends[0], b"")
    heard: list[BaseException] = []

    def receive() -> None:
        try:
            run(wire.receive(None))
        except ConnectionLost as error:
            heard.append(error)

    reader = threading.Thread(target=receive)
    reader.start()
    run(wire.close())
    reader.join(10.0)
    assert len(heard) == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", Unreachable),
        (b"garbage\r\n\r\n", Unreachable),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", Unreachable),
        (
            (
                b'HTTP/1.1 403 No\r\ncontent-length: 56\r\n\r\n{"error": "foreign_host", "message": "No.", '
                b'"hint": "Go on."}'
            ),
            AccessDenied,
        ),
    ],
    ids=["nothing", "garbage", "busy", "refused"],
)
def test_an_answer_that_opens_nothing_is_told(
    ends: tuple[socket.socket, socket.socket], answer: bytes, error: type[Exception]
) -> None:
    ours, theirs = ends
    theirs.sendall(answer)
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(error):
        open_local("ws://localhost/ws/mcp?a=1", ours, {"X": "y"})
    assert theirs.recv(10_000).startswith(b"GET /ws/mcp?a=1 HTTP/1.1\r\nHost: localhost\r\n")


def test_what_comes_with_the_answer_is_the_first_frame(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.sendall(_ANSWER + text_frame(b"hello"))
    wire = open_local("ws://localhost/ws/mcp", ours, {})
    assert run(wire.receive(10.0)) == "hello"
    run(wire.close())
