"""The runtime without an event loop: every await blocks the thread, and nothing here ever suspends.

Its twin with an event loop is `asyncio_runtime`; what both promise stands in `runtime`.

`LocalWire` is a WebSocket over a Unix socket, for the blocking client on the server's own machine (RFC 6455,
the client's side). It is used instead of the `websockets` package, whose import takes 0.1 s, longer than many
commands, and which spends a thread and two copies on long output. It understands only what our own server
sends: whole frames, no extensions. TCP belongs to `wire`.
"""

import binascii
import contextlib
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Self, TypeVar

from outlive.client.runtime import CONNECTING_S, ConnectionLost, Transport, Unreachable, refused

_TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x1, 0x2, 0x8, 0x9, 0xA
_FIN, _MASKED = 0x80, 0x80
_SHORT_MAX, _MEDIUM, _LONG = 125, 126, 127
# A client has to mask its frames, so that no proxy takes their content for HTTP (RFC 6455, section 10.3). A
# Unix socket has no proxy, so the key is zero and leaves the bytes as they are: masking a megabyte in Python
# takes as long as ten copies of it.
_NO_MASK = bytes(4)
_JOINED_MAX = 64 * 1024  # up to here a copy is cheaper than a second system call
_MEDIUM_MAX = 0xFFFF
_READ_BYTES = 512 * 1024
# One piece of input fits in. With the usual 208 KiB both sides were woken 30 times for each megabyte, now
# once or twice.
_SEND_BYTES = 1024 * 1024
_HEAD_END = b"\r\n\r\n"
_MAX_HEAD = 64 * 1024
_SWITCHING = 101


class LocalWire:
    """An open WebSocket. See `Transport` for what the methods promise."""

    def __init__(self, connection: socket.socket, received: bytes) -> None:
        """Take over a connection after its handshake; `received` are the bytes that came behind the
        answer.
        """
        self._socket = connection
        self._buffer = bytearray(received)
        self._sending = threading.Lock()
        self._ending = threading.Lock()
        self._is_closed = self._is_read = False
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    async def send(self, frame: str | bytes) -> None:
        """Send a text frame, or a binary one."""
        if isinstance(frame, str):
            self._send(_TEXT, frame.encode())
        else:
            self._send(_BINARY, frame)

    async def receive(self, timeout_s: float | None) -> str | bytes:
        """Return the next frame."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._ending:
            if self._is_closed:
                raise ConnectionLost
            self._is_read = True
        try:
            return self._message(deadline)
        finally:
            with self._ending:
                self._is_read = False
                if self._is_closed:
                    self._socket.close()

    async def close(self) -> None:
        """End the connection at once; a thread that receives on it gets `ConnectionLost`."""
        with self._ending:
            self._is_closed = True
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            # While a thread waits on the descriptor, that thread closes it: its number could else become
            # another file's.
            if not self._is_read:
                self._socket.close()

    def _message(self, deadline: float | None) -> str | bytes:
        while True:
            kind, payload = self._frame(deadline)
            if kind == _TEXT:
                return payload.decode()
            if kind == _BINARY:
                return payload
            if kind == _PING:
                self._send(_PONG, payload)
            elif kind != _PONG:
                raise ConnectionLost

    def _send(self, kind: int, payload: bytes) -> None:
        size = len(payload)
        if size <= _SHORT_MAX:
            head = bytes((_FIN | kind, _MASKED | size))
        elif size <= _MEDIUM_MAX:
            head = struct.pack("!BBH", _FIN | kind, _MASKED | _MEDIUM, size)
        else:
            head = struct.pack("!BBQ", _FIN | kind, _MASKED | _LONG, size)
        try:
            with self._sending:
                if size <= _JOINED_MAX:
                    self._socket.sendall(head + _NO_MASK + payload)
                else:  # header and beginning in one call: the server's short way needs both in one packet
                    sent = self._socket.sendmsg((head + _NO_MASK, payload))
                    self._socket.sendall(memoryview(payload)[sent - len(head) - len(_NO_MASK) :])
        except OSError as error:  # a part of a frame at most: the server cannot have read it
            raise ConnectionLost(was_sent=False) from error

    def _frame(self, deadline: float | None) -> tuple[int, bytes]:
        """Return opcode and payload of one frame; when the time is up, a part of it stays in the buffer."""
        buffer = self._buffer
        self._need(2, deadline)
        start, size = 2, buffer[1]
        if size == _MEDIUM:
            start = 4
            self._need(start, deadline)
            (size,) = struct.unpack_from("!H", buffer, 2)
        elif size == _LONG:
            start = 10
            self._need(start, deadline)
            (size,) = struct.unpack_from("!Q", buffer, 2)
        self._need(start + size, deadline)
        kind, payload = buffer[0] & 0x0F, bytes(memoryview(buffer)[start : start + size])
        del buffer[: start + size]
        return kind, payload

    def _need(self, size: int, deadline: float | None) -> None:
        """Read until the buffer holds `size` bytes."""
        while len(self._buffer) < size:
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            if not self._poll.poll(left):
                raise TimeoutError
            try:
                data = self._socket.recv(_READ_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            except OSError as error:
                raise ConnectionLost from error
            if not data:
                raise ConnectionLost
            self._buffer += data


def open_local(url: str, connection: socket.socket, headers: dict[str, str]) -> LocalWire:
    """Open a WebSocket over a connected Unix socket; see `Runtime.open`."""
    host, _, target = url.removeprefix("ws://").partition("/")
    lines = [
        f"GET /{target} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {binascii.b2a_base64(os.urandom(16), newline=False).decode()}",
        "Sec-WebSocket-Version: 13",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    widen(connection)
    try:
        connection.settimeout(CONNECTING_S)
        connection.sendall("\r\n".join(lines).encode() + _HEAD_END)
        head, rest = _head(connection)
        status = int(head.split(None, 2)[1])
        body = b"" if status == _SWITCHING else _body(connection, head, rest)
        connection.settimeout(None)
    except (OSError, ValueError, IndexError) as error:
        connection.close()
        raise Unreachable(str(error) or "the server did not answer") from error
    if status != _SWITCHING:
        connection.close()
        raise refused(status, body)
    return LocalWire(connection, rest)


def widen(connection: socket.socket) -> None:
    """Enlarge a Unix socket's send buffer, as far as the kernel allows (SO_SNDBUF, socket(7))."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)


def _head(connection: socket.socket) -> tuple[bytes, bytes]:
    """Return the head of an HTTP answer, and the bytes that came behind it."""
    received = b""
    while _HEAD_END not in received:
        data = connection.recv(_MAX_HEAD)
        if not data or len(received) > _MAX_HEAD:
            raise ValueError("the server went away before it answered")
        received += data
    head, _, rest = received.partition(_HEAD_END)
    return head, rest


def _body(connection: socket.socket, head: bytes, rest: bytes) -> bytes:
    sizes = [
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    ]
    while sizes and len(rest) < sizes[0] and (data := connection.recv(_MAX_HEAD)):
        rest += data
    return rest


_T = TypeVar("_T")


class _Turns:
    """A lock that coroutines hold; a thread that waits for it blocks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> Self:
        self._lock.acquire()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._lock.release()


class _ThreadEvent:
    """Wakes one thread."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    async def wait(self, timeout_s: float | None) -> None:
        self._event.wait(timeout_s)


class ThreadRuntime:
    """Blocks. See `Runtime` for what the methods promise."""

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)  # noqa: ASYNC251 -- there is no event loop here

    def lock(self) -> contextlib.AbstractContextManager[object]:
        """Return a lock for threads."""
        return threading.Lock()

    def turns(self) -> contextlib.AbstractAsyncContextManager[object]:
        """Return a lock for threads that coroutines can hold."""
        return _Turns()

    def wake_event(self) -> _ThreadEvent:
        """Return a wake event for a thread."""
        return _ThreadEvent()

    async def aside(self, work: Callable[[], _T]) -> _T:
        """Call `work` here."""
        return work()

    async def reach(self, find: Callable[[Callable[[], bool]], socket.socket]) -> socket.socket:
        """Call `find` here."""
        return find(lambda: False)

    async def open(
        self,
        url: str,
        connection: socket.socket | None,
        headers: dict[str, str],
        *,
        ca_file: str | None = None,
    ) -> Transport:
        """Open a WebSocket."""
        if connection is not None:
            return open_local(url, connection, headers)
        # Imported here: it takes half of the client's import time, and a program on the server's machine does
        # not need it.
        from outlive.client.wire import open_wire  # noqa: PLC0415

        return open_wire(url, headers, ca_file=ca_file)
