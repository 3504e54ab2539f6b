"""A WebSocket over TCP that blocks: the threading side of the `websockets` package. Unix sockets belong to `local_wire`."""

import contextlib
import socket

from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect

from outlive.client.handshake import OPTIONS, keep_alive, refusal, secured
from outlive.client.runtime import ConnectionLost


class ThreadWire:
    """An open WebSocket. See `Transport` for what the methods promise."""

    def __init__(self, connection: ClientConnection) -> None:
        """Take over an open connection."""
        self._connection = connection

    async def send(self, frame: str | bytes) -> None:
        """Send a text frame, or a binary one."""
        try:
            self._connection.send(frame)
        except ConnectionClosed as error:
            raise ConnectionLost(was_sent=False) from error

    async def receive(self, timeout_s: float | None) -> str | bytes:
        """Return the next frame."""
        try:
            return self._connection.recv(timeout_s)
        except ConnectionClosed as error:
            raise ConnectionLost from error

    async def close(self) -> None:
        """End the connection at once."""
        # Without the closing handshake: after a slow consumer, megabytes of output may come before the server's answer to it.
        with contextlib.suppress(OSError):
            self._connection.socket.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def open_wire(url: str, headers: dict[str, str], *, ca_file: str | None = None) -> ThreadWire:
    """Open a WebSocket over TCP; see `Runtime.open`."""
    try:
        tls = secured(url, ca_file)
        opened = connect(url, additional_headers=headers, ssl=tls, legacy=True, **OPTIONS)
    # ConnectionClosed: the server was killed during the handshake.
    except (InvalidHandshake, ConnectionClosed, OSError, TimeoutError) as error:
        raise refusal(error) from error
    keep_alive(opened.socket)
    return ThreadWire(opened)
