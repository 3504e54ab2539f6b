"""Extensions that listen themselves: `Dialler` connects to one address of the operator's, again and again
(promise S3.9).

Imported only when there is an address: the library's client costs the server's start some 40 ms. Serving an
open connection belongs to `extension`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.protocol import State

from outlive.extensions.bridge.connection import (
    CLOSE_PATIENCE_S,
    BridgeTransport,
    TransportClosed,
)

_logger = logging.getLogger(__name__)
_OPEN_S = 10.0
_REDIAL_S = 5.0  # between two attempts to connect
_OWN_HEADER = "Outlive-Extension"  # of the answer to the handshake


class Serve(Protocol):
    """Serves an open connection until it is over."""

    def __call__(self, transport: BridgeTransport, address: str, *, is_ours: bool) -> Awaitable[None]:
        """Serve it."""
        ...


class DialledTransport:
    """A socket that this server has opened to an extension."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._turn = asyncio.Lock()

    async def send(self, message: bytes, written: Callable[[], None]) -> None:
        """Send one text message; the next sender waits until the buffer has room again."""
        async with self._turn:
            if self._socket.state is not State.OPEN:
                raise TransportClosed
            written()  # the first step of the library's `send` writes; it waits only afterwards
            with contextlib.suppress(ConnectionClosed):
                await self._socket.send(message, text=True)

    async def receive(self) -> str | bytes | None:
        """Return the next message."""
        try:
            return await self._socket.recv()
        except ConnectionClosed:
            return None

    async def close(self, code: int, reason: str) -> None:
        """Close it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_PATIENCE_S):
                await self._socket.close(code, reason)
        self._socket.transport.abort()


class _Straight(connect):
    """The library's client without redirections: they would lead to an address that the operator did not
    choose.
    """

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Follow nothing."""
        return exc


class Dialler:
    """Keeps one address connected."""

    def __init__(self, address: str, serve: Serve, *, max_message_bytes: int) -> None:
        self._address = address
        self._max_message_bytes = max_message_bytes
        self._serve = serve
        parts = urlsplit(address)
        self._shown = f"{parts.scheme}://{parts.netloc}{parts.path}"  # the query may have a token in it

    async def run(self) -> None:
        """Connect, serve, and connect again some seconds after the end. Outermost loop of the task."""
        is_reported = False  # whether this absence is logged already
        while True:
            try:
                async with _Straight(
                    self._address,
                    proxy=None,
                    compression=None,
                    open_timeout=_OPEN_S,
                    ping_interval=None,  # the bridge's own ping asks more
                    max_size=self._max_message_bytes,
                ) as socket:
                    is_reported = False
                    headers = None if socket.response is None else socket.response.headers
                    is_ours = headers is not None and headers.get(_OWN_HEADER) == "1"
                    await self._serve(DialledTransport(socket), self._shown, is_ours=is_ours)
            except (OSError, TimeoutError, InvalidHandshake, InvalidURI, ValueError) as error:
                # One warning for each absence: VS Code may be closed for days.
                level = logging.DEBUG if is_reported else logging.WARNING
                extra = {"address": self._shown, "reason": type(error).__name__}
                _logger.log(level, "an extension that is to be dialled does not answer", extra=extra)
                is_reported = True
            except Exception:
                _logger.exception("serving an extension failed", extra={"address": self._shown})
            await asyncio.sleep(_REDIAL_S)
