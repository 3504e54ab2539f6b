"""The socket to one extension (`BridgeTransport`), opened by either side.

Frames go in and out; what they mean belongs to `extension`. A message may be sent again only if nothing of it
was written (promise S3.4.once), so `send` reports that exactly.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from outlive.protocols.websocket_frames import text_frame
from outlive.server.http.websocket_io import EXTENSION

CLOSE_PATIENCE_S = 1.0  # for an extension that does not read: the connection is then cut


class TransportClosed(Exception):
    """The socket was closed before anything of the message was written."""


class BridgeTransport(Protocol):
    """One open WebSocket."""

    async def send(self, message: bytes, written: Callable[[], None]) -> None:
        """Send one text message (UTF-8), once the send buffer has room.

        Args:
            message: What is sent.
            written: Called in the very step in which the message leaves; before that nothing of it has.

        Raises:
            TransportClosed: Nothing was written.

        Cancellation: safe; the message has left if `written` was called.
        """
        ...

    async def receive(self) -> str | bytes | None:
        """Return the next message; None when the socket is closed."""
        ...

    async def close(self, code: int, reason: str) -> None:
        """Close it; returns within about a second, whatever the other end does."""
        ...


class AcceptedTransport:
    """A socket that an extension has opened to this server."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        raw: dict[str, Any] = (websocket.scope.get("extensions") or {})[EXTENSION]
        self._writable: asyncio.Event = raw["writable"]
        self._write: Callable[[bytes], None] = raw["write"]

    async def send(self, message: bytes, written: Callable[[], None]) -> None:
        """Send one text message."""
        while not self._writable.is_set():  # another sender may have filled the buffer again
            await self._writable.wait()
        try:
            self._write(text_frame(message))
        except ConnectionAbortedError:
            raise TransportClosed from None
        written()

    async def receive(self) -> str | bytes | None:
        """Return the next message."""
        event = await self._websocket.receive()
        if event["type"] == "websocket.disconnect":
            return None
        text: str | None = event.get("text")
        return event["bytes"] if text is None else text

    async def close(self, code: int, reason: str) -> None:
        """Close it."""
        with contextlib.suppress(TimeoutError, RuntimeError, WebSocketDisconnect):  # gone already, or stuck
            async with asyncio.timeout(CLOSE_PATIENCE_S):
                await self._websocket.close(code, reason)
