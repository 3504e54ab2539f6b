"""Plain sockets where a polite client library would be in the way: odd headers, broken frames, no reading."""

import base64
import os
import socket
import struct
from dataclasses import dataclass

_TIMEOUT_S = 60.0
_TEXT, _CLOSE, _PING = 0x1, 0x8, 0x9


@dataclass(frozen=True, slots=True)
class Answer:
    """The head of an HTTP answer and whatever came with it."""

    status: int
    text: str


def http_get(
    port: int, path: str = "/", *, host: str | None = None, headers: dict[str, str] | None = None
) -> Answer:
    """Send one GET with exactly these headers and return the answer (blocks)."""
    with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S) as peer:
        peer.sendall(
            _request(path, {"Host": host or f"127.0.0.1:{port}", "Connection": "close", **(headers or {})})
        )
        return _answer(_read_all(peer))


def upgrade(
    port: int, *, path: str = "/ws/mcp", host: str | None = None, headers: dict[str, str] | None = None
) -> Answer:
    """Ask for a WebSocket with exactly these headers and return how the server answered (blocks)."""
    peer, head = open_raw_websocket(port, path=path, host=host, headers=headers)
    with peer:
        return _answer(head)


def open_raw_websocket(
    port: int,
    *,
    path: str = "/ws/mcp",
    host: str | None = None,
    headers: dict[str, str] | None = None,
    receive_buffer: int | None = None,
) -> tuple[socket.socket, bytes]:
    """Return a socket behind the handshake and the answer's head; the caller closes it.

    `receive_buffer` (bytes) makes the kernel hold little for a client that does not read.
    """
    peer = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if receive_buffer is not None:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    peer.settimeout(_TIMEOUT_S)
    peer.connect(("127.0.0.1", port))
    handshake = {
        "Host": host or f"127.0.0.1:{port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Version": "13",
        **(headers or {}),
    }
    peer.sendall(_request(path, handshake))
    head = b""
    while b"\r\n\r\n" not in head:
        piece = peer.recv(1)  # byte by byte: what follows the head are frames
        if not piece:
            break
        head += piece
    return peer, head


def masked_header(opcode: int, length: int) -> bytes:
    """Return the header of a final client frame that announces `length` bytes (RFC 6455, 5.2), masked with
    zeros.
    """
    first = bytes([0x80 | opcode])
    if length < 126:
        return first + bytes([0x80 | length]) + bytes(4)
    if length < 65536:
        return first + b"\xfe" + struct.pack(">H", length) + bytes(4)
    return first + b"\xff" + struct.pack(">Q", length) + bytes(4)


def read_frame(peer: socket.socket) -> tuple[int, bytes]:
    """Return opcode and payload of the next frame from the server (blocks)."""
    first, second = _exactly(peer, 2)
    length = second & 0x7F
    if length == 126:
        (length,) = struct.unpack(">H", _exactly(peer, 2))
    elif length == 127:
        (length,) = struct.unpack(">Q", _exactly(peer, 8))
    return first & 0x0F, _exactly(peer, length)


def read_text(peer: socket.socket) -> bytes:
    """Return the payload of the next text frame; the server's pings on the way are passed over (blocks)."""
    while (found := read_frame(peer))[0] != _TEXT:
        assert found[0] == _PING, found
    return found[1]


def close_code(peer: socket.socket) -> int:
    """Read frames up to the close frame and return its code (blocks)."""
    while True:
        opcode, payload = read_frame(peer)
        if opcode == _CLOSE:
            return int.from_bytes(payload[:2], "big")


def _request(path: str, headers: dict[str, str]) -> bytes:
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def _answer(data: bytes) -> Answer:
    text = data.decode("utf-8", "replace")
    return Answer(status=int(text.split(" ", 2)[1]), text=text)


def _read_all(peer: socket.socket) -> bytes:
    data = b""
    while piece := peer.recv(65536):
        data += piece
    return data


def _exactly(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = peer.recv(size - len(data))
        if not piece:
            raise ConnectionError("the server closed the connection")
        data += piece
    return data
