"""A WebSocket client on a plain blocking socket, for what the C programs do not do.

It reads nothing unless asked, so that "a client that stops reading" is exactly that.
"""

import hashlib
import json
import socket
import struct
import subprocess
import time
from collections import deque
from types import TracebackType
from typing import Any, Self

import orjson

_READ_BYTES = 1 << 18
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10


class Connection:
    """One JSON-RPC connection. Not thread-safe; `with` closes it."""

    def __init__(self, port: int, path: str, *, timeout_s: float = 60) -> None:
        self._buffer = bytearray()
        self._held: deque[dict[str, Any]] = deque()
        self._last_request = 0
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._shake_hands(port, path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, method: str, params: dict[str, object]) -> int:
        """Send a request and return its id, without waiting for the answer."""
        self._last_request += 1
        request = {"jsonrpc": "2.0", "id": self._last_request, "method": method, "params": params}
        self._send_frame(_TEXT, json.dumps(request).encode())
        return self._last_request

    def call(self, method: str, params: dict[str, object]) -> dict[str, Any]:
        """Send a request and return its result; other messages are held for `receive`.

        Raises:
            RuntimeError: The server answered with an error.
        """
        request_id = self.send(method, params)
        passed: deque[dict[str, Any]] = deque()
        while (message := self.receive()).get("id") != request_id:
            passed.append(message)
        self._held.extendleft(reversed(passed))
        return result_of(message)

    def receive(self) -> dict[str, Any]:
        """Return the next message."""
        if self._held:
            return self._held.popleft()
        _, payload = self.receive_frame()
        message: dict[str, Any] = json.loads(payload)
        return message

    def receive_until(self, method: str) -> dict[str, Any]:
        """Return the params of the next notification of this method, dropping all before it."""
        while (message := self.receive()).get("method") != method:
            result_of(message)
        params: dict[str, Any] = message["params"]
        return params

    def receive_frame(self) -> tuple[int, bytes]:
        """Return opcode and payload of the next frame with content; pings are answered on the way.

        Raises:
            ConnectionError: The peer closed.
        """
        while True:
            opcode, length = self._header()
            payload = self._take(length)
            if opcode == _CLOSE:
                raise ConnectionError(f"closed by the server: {payload[2:].decode(errors='replace')}")
            if opcode == _PING:
                self._send_frame(_PONG, payload)
            elif opcode != _PONG:
                return opcode, payload

    def _shake_hands(self, port: int, path: str) -> None:
        self._socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            self._fill()
        if not self._buffer.startswith(b"HTTP/1.1 101"):
            answer = bytes(self._buffer[:200]).decode(errors="replace")
            raise RuntimeError(f"the server refused the handshake: {answer!r}")
        del self._buffer[: end + 4]

    def _send_frame(self, opcode: int, payload: bytes) -> None:
        # A mask of zero bytes is legal (RFC 6455, section 5.3 asks for any) and saves the work.
        size = len(payload)
        if size < 126:
            head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, size)
        self._socket.sendall(head + bytes(4) + payload)

    def _header(self) -> tuple[int, int]:
        first, second = self._take(2)
        match second & 127:
            case 126:
                length = int.from_bytes(self._take(2), "big")
            case 127:
                length = int.from_bytes(self._take(8), "big")
            case length:
                pass
        return first & 15, length

    def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._fill()
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def _fill(self) -> None:
        received = self._socket.recv(_READ_BYTES)
        if not received:
            raise ConnectionError("the server closed the connection")
        self._buffer += received


def result_of(message: dict[str, Any]) -> dict[str, Any]:
    """The result in a response; notifications have an empty one.

    Raises:
        RuntimeError: It is an error response.
    """
    if "error" in message:
        raise RuntimeError(f"the server refused: {json.dumps(message['error'])}")
    result: dict[str, Any] = message.get("result", {})
    return result


def drain(connection: Connection) -> str:
    """Read the output of the one process of a connection up to its completion; returns the output's sha256.

    Raises:
        RuntimeError: The server answered with an error.
    """
    digest = hashlib.sha256()
    while True:
        opcode, payload = connection.receive_frame()
        if opcode == _BINARY:
            # One line of JSON, then the bytes as they are.
            digest.update(payload[payload.index(b"\n") + 1 :])
            continue
        message = orjson.loads(payload)
        match message.get("method"):
            case "process.output":
                digest.update(message["params"]["data"].encode())
            case "process.completed":
                return digest.hexdigest()
            case None:
                result_of(message)


def await_greeting(server: subprocess.Popen[str], port: int, *, path: str, timeout_s: float = 30) -> None:
    """Try to connect until a server has sent its `connected` notification.

    Raises:
        RuntimeError: The server ended instead.
        TimeoutError: It did not within `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"the server ended with {server.returncode} before it listened")
        try:
            with Connection(port, path, timeout_s=timeout_s) as connection:
                connection.receive_until("connected")
                return
        except ConnectionError:
            time.sleep(0.001)
    raise TimeoutError(f"nothing listens on port {port} after {timeout_s} s")
