"""How WebSocket frames leave (`RawOutbox`, `MessageOutbox`), and the connection that takes ready-made ones
(`RawWebSocketProtocol`).

An outbox holds no queue. A writer checks `is_ready` first or awaits `send`: a client that does not read makes
its own writers wait, and nothing else. What is written, and when, is decided by `sender` and the frontends.
`RawOutbox` writes many frames at once; `MessageOutbox` sends one by one where the server lacks our scope
extension, `outlive.send_raw`.

Building hundreds of text frames by hand and writing them once is 30x cheaper than one send call for each
(decision 2). This leans on the inside of uvicorn's protocol class, so uvicorn is pinned to one minor version
and tests hold what is used: `writable`, `disconnected`, `close_sent`, `handshake_complete`, `transport`,
`queue`, `read_paused`.

In the other direction there are two short ways past the complete parser. Nearly every message is one request
in one frame in one packet: it is decoded directly (`lone_text`), and reading is not paused for it while the
application waits. A binary frame carries input for a process: `LargeBinary` decodes it, because the complete
parser would copy it four times, in pieces of 4 KiB (0.9 ms a megabyte).

How a connection ends is `ClosingWebSocketProtocol`'s. uvicorn logs as failures of the application, with a
traceback, what any client or a stop of the server can cause: text that is not UTF-8, a connection that closes
while the application is about to send, an upgrade that is not finished when the server stops. Here each gets
its close code. What a frontend sends in its own protocol before the close is that frontend's to decide.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.http11 import Request
from websockets.streams import StreamReader

from outlive.core.values import dataclass, field
from outlive.protocols.websocket_frames import BINARY, TEXT, LargeBinary, lone_text, split_frames
from outlive.server.access.peers import PEER, Peer
from outlive.server.http.uvicorn_parts import ClientDisconnected, WebSocketsSansIOProtocol

WORK = "outlive.work"  # in a connection's state: what to call when a client has sent something
_LAST = {"websocket.close", "websocket.http.response.body"}
_INVALID_DATA = 1007  # RFC 6455, section 7.4.1
_POLICY_VIOLATION = 1008
_RESTARTS = 1012  # IANA's registry of close codes
_DISMISSED = "the token was revoked or has expired"
_DISCARD_S = 5.0  # how long a client may go on sending a message that was refused


class ClosingWebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket connection.

    An application that sends into a closed one gets `ClientDisconnected`.
    """

    _has_app_closed = False

    def __init__(self, *uvicorns: Any, **named: Any) -> None:  # noqa: ANN401 -- passed on as they are
        super().__init__(*uvicorns, **named)
        self._note_work: Callable[[], object] = self.app_state.get(WORK, int)

    async def send(self, message: Any) -> None:  # noqa: ANN401 -- an event of uvicorn's own
        """Send one event of the application."""
        await self.writable.wait()
        # Closed by the server or the client, and the application does not know it yet: no error of the
        # application.
        if self.close_sent and not self._has_app_closed:
            raise ClientDisconnected
        if message["type"] in _LAST:
            self._has_app_closed = True
        await super().send(message)
        if self.close_sent and self.initial_response is not None:
            self.handshake_complete = (
                True  # the whole refusal was sent; otherwise uvicorn logs an unfinished handshake
            )

    def send_receive_event_to_app(self) -> None:
        """Pass on a whole message; text that is not UTF-8 ends the connection (RFC 6455, section 8.1)."""
        if self.curr_msg_data_type != "text" or self.close_sent:
            super().send_receive_event_to_app()
            return
        data, self.frames = b"".join(self.frames), []
        try:
            text = data.decode()
        except UnicodeDecodeError:
            self.conn.send_close(_INVALID_DATA, "text that is no UTF-8")
            self.handle_parser_exception()
            return
        self.queue.put_nowait({"type": "websocket.receive", "text": text})
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def handle_parser_exception(self) -> None:
        """Send the reason why the connection ends (1009: too big), and go on reading for a while.

        Closing at once, with bytes of the client unread, would make the kernel reset the connection, and the
        client would lose the close frame.
        """
        if self.close_sent:
            return  # this is the rest of the refused message
        assert self.conn.close_sent is not None
        code, reason = self.conn.close_sent.code, self.conn.close_sent.reason
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.close_sent = True
        self.close_timer = self.loop.call_later(_DISCARD_S, self.transport.close)
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    def dismiss(self) -> None:
        """End the connection because its token no longer counts (1008).

        What the client has not read is lost.
        """
        if not self.close_sent and self.handshake_complete:
            self.conn.send_close(_POLICY_VIOLATION, _DISMISSED)
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": _POLICY_VIOLATION})
        self.transport.close()
        self.loop.call_later(_DISCARD_S, self.transport.abort)

    def shutdown(self) -> None:
        """End the connection because the server stops: 1012, or 503 for an upgrade that is not answered
        yet.
        """
        if self.handshake_complete or self.close_sent or self.initial_response is not None:
            super().shutdown()
            return
        self.stop_keepalive()
        self.conn.send_response(
            self.conn.reject(HTTPStatus.SERVICE_UNAVAILABLE, "The server is being stopped.\n")
        )
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.handle_turned_away()

    def handle_turned_away(self) -> None:
        """Notify the application that this upgrade has failed."""
        self.handshake_complete = self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": _RESTARTS})
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        peer: Peer | None = self.app_state.get(PEER)
        if peer is not None:
            peer.close()
        self._note_work()
        super().connection_lost(exc)


EXTENSION = "outlive.send_raw"  # of a WebSocket's ASGI scope


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
        """Wait for room, then send whole frames together and in order, and call each of `then`, also after
        the close.

        Their first write leaves together with `frames`: one system call, and the client wakes once.

        Cancellation: safe; all of `frames` was handed over and each of `then` called, or nothing.
        """


@dataclass(slots=True)
class RawOutbox:
    """Sends through the server's extension for ready-made frames: one write for any number of them.

    Attributes:
        put: Hands frames to the transport without checking that the connection is open; the caller has
            checked.
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
        # Another waiter may have filled the buffer between the event and this task's turn. Then wait again: a
        # caller builds its frames after this returns, so none lie in memory meanwhile.
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
    extension = (websocket.scope.get("extensions") or {}).get(EXTENSION)
    if extension is None:
        return MessageOutbox(websocket)
    return RawOutbox(put=extension["put"], writable=extension["writable"], closed=extension["is_closed"])


try:
    from websockets.speedups import apply_mask
except ImportError:  # `websockets` without its C extension on this machine
    from websockets.utils import apply_mask


_PIECE_BYTES = 4096  # parsed without a pause: at most 700 of the smallest frames, 20 ms
_TURN_S = 0.005  # larger input is parsed piece by piece for so long, then other tasks run
_BINARY_START = bytes((BINARY,))
_NO_MASK = bytes(4)  # the key that our own client uses on this machine: XOR with zero changes nothing
_BETWEEN_FRAMES = StreamReader.at_eof.__code__  # where the parser of `websockets` waits for a frame to begin


class Inbox:
    """The messages that the application has not taken yet, in place of uvicorn's queue.

    Only one task takes them.
    """

    __slots__ = ("_loop", "_messages", "_taker")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._messages: deque[Any] = deque()
        self._taker: asyncio.Future[None] | None = None

    def empty(self) -> bool:
        """Tell whether there is no message."""
        return not self._messages

    def put_nowait(self, message: Any) -> bool:  # noqa: ANN401 -- an event of uvicorn's own
        """Add a message; tell whether the application has waited for it."""
        self._messages.append(message)
        if self._taker is None or self._taker.done():
            return False
        self._taker.set_result(None)
        return True

    async def get(self) -> Any:  # noqa: ANN401 -- as above
        """Take the oldest message, waiting for it. Cancellation: safe, nothing is taken."""
        if self._taker is not None:
            raise AssertionError("only one task takes messages")
        while not self._messages:
            self._taker = self._loop.create_future()
            try:
                await self._taker
            finally:
                self._taker = None
        return self._messages.popleft()


class RawWebSocketProtocol(ClosingWebSocketProtocol):
    """uvicorn's WebSocket connection with one more scope extension.

    The extension holds `send` (async, waits until the transport is writable, then writes), `write` (at once,
    whatever the buffer holds), `put` (`write` without the check, for a caller that has just checked
    `is_closed`), `writable` (asyncio.Event: the send buffer has room) and `is_closed`. All take whole,
    unmasked frames; `send` and `write` refuse after the close with ConnectionAbortedError.
    """

    def __init__(self, *uvicorns: Any, **named: Any) -> None:  # noqa: ANN401 -- passed on as they are
        super().__init__(*uvicorns, **named)
        self.queue: Inbox = Inbox(self.loop)  # type: ignore[assignment] # it has what uvicorn uses of its own
        self._rest = b""  # received and not parsed yet; the transport does not read meanwhile
        self._rest_at = 0
        self._large: LargeBinary | None = None  # a binary message of which a part has come

    def data_received(self, data: bytes) -> None:
        """Parse the bytes, large input only in part: a quarter of a megabyte can hold 40 000 frames, two
        seconds of work.
        """
        self._note_work()
        if self._rest:
            self._rest = self._rest[self._rest_at :] + data
            self._rest_at = 0
        elif len(data) > _PIECE_BYTES or self._large is not None or data[:1] == _BINARY_START:
            self._rest = data
            self._parse_rest()
        elif not self._take_text(data):
            super().data_received(data)

    def _take_text(self, data: bytes) -> bool:
        """Take a text message that came as one whole frame; False for what the complete parser has to see."""
        if self.close_sent or not self._is_between_messages():
            return False
        payload = lone_text(data)
        if payload is None or len(payload) > self.config.ws_max_size:
            return False
        try:
            message = {"type": "websocket.receive", "text": payload.decode()}
        except UnicodeDecodeError:
            return False
        # Pausing and resuming cost a system call each, so reading goes on while the application waits for
        # this message. If it does not wait, one message in memory is enough: the next one stays in the
        # kernel.
        if not self.queue.put_nowait(message) and not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()
        return True

    def _take_binary(self) -> bool:
        """Take the received part of a large binary message; False for bytes that the complete parser has to
        see.
        """
        if self._large is None:
            if self._rest[self._rest_at] != BINARY or self.close_sent or not self._is_between_messages():
                return False
            begun = LargeBinary.begin(self._rest, self._rest_at, max_bytes=self.config.ws_max_size)
            if begun is None:
                return False
            self._large, self._rest_at = begun
        self._rest_at += self._large.take(self._rest, self._rest_at)
        if self._large.is_whole:
            large, self._large = self._large, None
            if not self.close_sent:
                payload = large.payload if large.key == _NO_MASK else apply_mask(large.payload, large.key)
                self._pass_on(payload)
        return True

    def _pass_on(self, payload: bytes | bytearray) -> None:
        self.queue.put_nowait({"type": "websocket.receive", "bytes": payload})
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def _is_between_messages(self) -> bool:
        """Tell whether the parser waits for a new message.

        There is no public way to ask, so this looks into the parser's generator frames. Should `websockets`
        change inside, the answer is always False: every message then takes the complete parser, which is
        slower and right.
        """
        waiting = getattr(getattr(self.conn.parser, "gi_yieldfrom", None), "gi_yieldfrom", None)
        is_between_frames = getattr(waiting, "gi_code", None) is _BETWEEN_FRAMES
        return is_between_frames and getattr(self.conn, "current_size", 0) is None

    async def receive(self) -> Any:  # noqa: ANN401 -- an event of uvicorn's own
        """Return the next message; bytes left unparsed are parsed once everything before them was taken."""
        if self._rest and self.queue.empty():
            self._parse_rest()
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            self.transport.resume_reading()
        return message

    def _parse_rest(self) -> None:
        """Parse until there is a message, the turn is over, or everything is parsed."""
        until = time.monotonic() + _TURN_S
        while self._rest_at < len(self._rest) and not self.transport.is_closing():
            if time.monotonic() > until:
                self.loop.call_soon(self._go_on)
                break
            if not self._take_binary():
                piece = self._rest[self._rest_at : self._rest_at + _PIECE_BYTES]
                self._rest_at += len(piece)
                super().data_received(piece)
            if not self.queue.empty():
                break
        if self.transport.is_closing():
            self._rest = b""
        elif self._rest_at < len(self._rest):
            # The flag stays off: with it uvicorn would resume reading as soon as the messages are taken,
            # before the rest is parsed.
            self.read_paused = False
            self.transport.pause_reading()
        else:
            self._rest, self._rest_at = b"", 0
            self.read_paused = not self.queue.empty()
            if not self.read_paused:
                self.transport.resume_reading()

    def _go_on(self) -> None:
        if self._rest and self.queue.empty():
            self._parse_rest()

    def handle_connect(self, event: Request) -> None:
        """Put the extension into the scope before the application's task runs."""
        super().handle_connect(event)
        if self.response.status_code == 101:  # otherwise the handshake was refused and there is no scope
            peer: Peer | None = self.app_state.get(PEER)
            if peer is not None:
                peer.hang_up = self.dismiss
            extensions = self.scope["extensions"]
            assert extensions is not None
            extensions[EXTENSION] = {
                "write": self.write_raw,
                "put": self.transport.write,
                "writable": self.writable,
                "is_closed": self.is_closed,
            }

    def is_closed(self) -> bool:
        """Tell whether frames can no longer be sent."""
        return (
            self.disconnected
            or self.close_sent
            or not self.handshake_complete
            or self.initial_response is not None
            or self.transport.is_closing()
        )

    def write_raw(self, frames: bytes) -> None:
        """Hand frames to the transport at once; the caller watches `writable`.

        Raises:
            ConnectionAbortedError: The connection is closed (or was never accepted).
        """
        if self.is_closed():
            raise ConnectionAbortedError("the WebSocket connection is closed")
        self.transport.write(frames)
