"""WebSockets of the `websockets` package: what both runtimes pass to it, its errors in our words, and one
over TCP that blocks.

Its asyncio side is used by `asyncio_runtime` alone; Unix sockets that block belong to `thread_runtime`.
Whether to try again after a failure is decided by `link`.
"""

import contextlib
import socket
import ssl
from typing import TypedDict

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from outlive.client.runtime import CONNECTING_S, ConnectionLost, Unreachable, refused
from outlive.core.errors import AccessDenied


class _ConnectOptions(TypedDict):
    compression: None
    max_queue: int
    max_size: None
    open_timeout: float
    ping_interval: None
    proxy: None
    user_agent_header: None


# Four frames of up to 256 KiB may wait in memory; the frames behind them stay in the socket. No pings from
# this side: a consumer that reads nothing for a while does not answer either, and would be taken for dead.
# Compression costs more time than it saves here.
OPTIONS: _ConnectOptions = {
    "compression": None,
    "max_queue": 4,
    "max_size": None,
    "open_timeout": CONNECTING_S,
    "ping_interval": None,
    "proxy": None,
    "user_agent_header": None,
}

_IDLE_S = 30  # with the two below a machine that has vanished is noticed after a minute
_BETWEEN_S = 10
_TRIES = 3


def keep_alive(connection: socket.socket) -> None:
    """Make the kernel notice when the other machine is gone (tcp(7)); a Unix socket needs no such check."""
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _BETWEEN_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _TRIES)


def secured(url: str, ca_file: str | None) -> ssl.SSLContext | None:
    """Return how a `wss://` server's certificate is checked; None for `ws://`."""
    return ssl.create_default_context(cafile=ca_file) if url.startswith("wss://") else None


def refusal(error: Exception) -> Exception:
    """Return the error for a failed opening: the server's refusal, or `Unreachable`."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AccessDenied(
            "foreign_host",
            f"The server's certificate does not count: {error.verify_message or error.reason}.",
            hint=(
                "Check the address; ca_file (on the command line --ca, --node-ca) names the authority "
                "where it is none of the system's."
            ),
        )
    if isinstance(error, InvalidStatus):
        return refused(error.response.status_code, bytes(error.response.body or b""))
    if isinstance(error, InvalidHandshake) and not isinstance(error.__cause__, EOFError | OSError):
        return AccessDenied(
            "foreign_host", f"What answers there is no outlive server: {error}.", hint="Check the address."
        )
    return Unreachable(str(error) or type(error).__name__)


class ThreadWire:
    """An open WebSocket. See `Transport` for what the methods promise."""

    def __init__(self, connection: ClientConnection) -> None:
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
        # Without the closing handshake: after a slow consumer, megabytes of output may come before the
        # server's answer to it.
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
