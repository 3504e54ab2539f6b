"""How WebSocket frames leave: `RawOutbox` writes many at once, `MessageOutbox` sends one by one without the server's extension.

Holds no queue. A writer checks `is_ready` first or awaits `send`: a client that does not read makes its own writers wait, and
nothing else. What is written, and when, is decided by `sender` and the frontends.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from outlive.protocols.websocket_frames import TEXT, split_frames

_EXTENSION = "outlive.send_raw"  # defined in raw_websocket.py


class Outbox(Protocol):
    """The sending half of one WebSocket. After the close nothing is sent, and every waiting call returns."""

    @property
    def is_ready(self) -> bool:
        """Whether `write` may be called now: open, and the send buffer has room."""

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""

    def write(self, frames: bytes) -> None:
        """Send whole frames at once; only while `is_ready`."""

    async def wait_ready(self) -> None:
        """Return when the send buffer has room, or after the close."""

    async def send(self, frames: bytes, then: Sequence[Callable[[], None]] = ()) -> None:
        """Wait for room, then send whole frames together and in order, and call each of `then`, also after the close.

        Their first write leaves together with `frames`: one system call, and the client wakes once.

        Cancellation: safe; all of `frames` was handed over and each of `then` called, or nothing.
        """


@dataclass(slots=True)
class RawOutbox:
    """Sends through the server's extension for ready-made frames: one write for any number of them.

    Attributes:
        put: Hands frames to the transport without checking that the connection is open; the caller has checked.
        writable: The send buffer has room, or the connection is closed.
        closed: Tells whether nothing can be sent any more.
    """

    put: Callable[[bytes], None]
    writable: asyncio.Event
    closed: Callable[[], bool]
    _held: bytes = field(default=b"", init=False)  # goes out with the next write; empty outside of `send`

    @property
    def is_ready(self) -> bool:
        """Whether `write` may be called now."""
        return self.writable.is_set() and not self.closed()

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self.closed()

    def write(self, frames: bytes) -> None:
        """Send whole frames at once."""
        if self._held:
            frames, self._held = self._held + frames, b""
        self.put(frames)

    async def wait_ready(self) -> None:
        """Return when the send buffer has room, or after the close (which sets `writable` too)."""
        # Another waiter may have filled the buffer between the event and this task's turn. Then wait again: a caller builds its
        # frames after this returns, so none lie in memory meanwhile.
        while not self.writable.is_set():
            await self.writable.wait()

    async def send(self, frames: bytes, then: Sequence[Callable[[], None]] = ()) -> None:
        """Wait for room, then send whole frames together, and what `then` writes."""
        if not self.writable.is_set():
            await self.wait_ready()
        is_open = not self.closed()
        if not then:
            if is_open:
                self.put(frames)
            return
        if is_open:
            self._held = frames
        try:
            for call in then:
                call()
        finally:
            if self._held:  # none of `then` has written
                self.write(b"")


class MessageOutbox:
    """Sends frame by frame through plain ASGI, for servers without the extension: right, but some 30x slower.

    `is_ready` is always false, so that every writer comes by `send`.
    """

    __slots__ = ("_is_closed", "_turn", "_websocket")

    def __init__(self, websocket: WebSocket) -> None:
        """Send to an accepted WebSocket."""
        self._websocket = websocket
        self._turn = asyncio.Lock()
        self._is_closed = False

    @property
    def is_ready(self) -> bool:
        """Never: nothing can be written here without awaiting."""
        return False

    @property
    def is_closed(self) -> bool:
        """Whether a send has failed."""
        return self._is_closed

    def write(self, frames: bytes) -> None:
        """Not possible here."""
        raise AssertionError(f"MessageOutbox is never ready for {len(frames)} bytes: use send")

    async def wait_ready(self) -> None:
        """Return at once: `send` waits for room."""

    async def send(self, frames: bytes, then: Sequence[Callable[[], None]] = ()) -> None:
        """Send the frames one after the other; frames of other senders do not come between them."""
        async with self._turn:
            for kind, payload in split_frames(frames):
                await self._send_one(kind, payload)
        for call in then:
            call()

    async def _send_one(self, kind: int, payload: bytes) -> None:
        if self._is_closed:
            return
        send: Awaitable[None]
        if kind == TEXT:
            send = self._websocket.send_text(payload.decode())
        else:
            send = self._websocket.send_bytes(payload)
        try:
            await send
        except (WebSocketDisconnect, RuntimeError):  # RuntimeError: starlette's word for "closed already"
            self._is_closed = True


def open_outbox(websocket: WebSocket) -> Outbox:
    """Return the best outbox that the server of this (accepted) WebSocket offers."""
    extension = (websocket.scope.get("extensions") or {}).get(_EXTENSION)
    if extension is None:
        return MessageOutbox(websocket)
    return RawOutbox(put=extension["put"], writable=extension["writable"], closed=extension["is_closed"])
