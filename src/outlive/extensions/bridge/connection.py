"""One connected extension: `BridgeConnection` pings it, sends requests and matches answers, until the socket
closes.

Nothing of it outlives `run`: a request that still waits then gets the outcome `Gone`, which means that its
effect is not known. Whether a request may be sent again is decided by `host`; the messages' form belongs to
`extensions.bridge`.

`BridgeTransport` is the socket, opened by either side. A message may be sent again only if nothing of it was
written (promise S3.4.once), so `send` reports that exactly.
"""

import asyncio
import contextlib
import itertools
import logging
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from outlive.core.errors import LimitExceeded
from outlive.core.values import dataclass
from outlive.extensions.bridge import messages
from outlive.extensions.bridge.messages import (
    Answer,
    Broken,
    Ignored,
    Pong,
    RequestKind,
    RequestMatcher,
    TerminalWanted,
    Unknown,
    parse_message,
)
from outlive.extensions.bridge.options import BridgeOptions
from outlive.policy.access import Access
from outlive.protocols.websocket_frames import text_frame
from outlive.server.http.websocket_io import EXTENSION
from outlive.server.limiters import Take

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


_logger = logging.getLogger(__name__)

# WebSocket close codes (RFC 6455, section 7.4.1).
_NORMAL, _INTERNAL_ERROR = 1000, 1011
_MAX_UNANSWERED = 64
_MESSAGES_A_TURN = 32  # of a flood of messages; then other tasks run
_MAX_WARNINGS = 10  # of one connection; further ones are logged at the level debug only
_MAX_WANTED = 8  # terminals that our own extension opens at a time


@dataclass(frozen=True, slots=True)
class Gone:
    """The connection ended before an answer came."""


@dataclass(frozen=True, slots=True)
class Silent:
    """No answer came in time."""


Outcome = Answer | Gone | Silent


def new_request_id() -> str:
    """Return a new id that is never used again; terminals get such names, too (promise S3.5)."""
    return f"req-{secrets.token_hex(12)}"


class NotSent(Exception):
    """Nothing of a request was written: it may be sent again."""


class BridgeConnection:
    """Serves one open `BridgeTransport`; used on one event loop.

    Attributes:
        access: Its principal and rights.
        is_ours: Whether it is our own, which understands more than the documented protocol.
        serves_all: Whether every principal may have terminals there.
        greet: Sends the first messages; messages are received meanwhile.
        wanted: Opens a terminal that it asks for; None if it may not ask.
        ended: Set when the connection is over, and every waiting request has its outcome.
    """

    def __init__(
        self,
        transport: BridgeTransport,
        access: Access,
        options: BridgeOptions,
        *,
        is_ours: bool = False,
        serves_all: bool = False,
        take: Take = lambda _principal, _count: 0.0,
    ) -> None:
        """Take the socket; nothing is sent before `run`.

        Args:
            transport: The socket.
            access: The principal and rights of the extension.
            options: The times.
            is_ours: Whether it has named itself as our own.
            serves_all: Whether the operator lets every principal have terminals there.
            take: Counts a message, and returns the seconds to wait before it is read.
        """
        self.access = access
        self.is_ours = is_ours
        self.serves_all = serves_all
        self.ended = asyncio.Event()
        self.greet: Callable[[], Coroutine[None, None, None]] | None = None
        self.wanted: Callable[[TerminalWanted], Coroutine[None, None, None]] | None = None
        self._transport = transport
        self._options = options
        self._take = take
        self._exchange = RequestMatcher()
        self._waiting: dict[str, asyncio.Future[Outcome]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks = asyncio.TaskGroup()
        self._side: set[asyncio.Task[None]] = set()
        self._reading: asyncio.Task[None] | None = None
        self._warnings = 0
        self._is_open = True
        self._close = (_NORMAL, "")

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._is_open

    async def run(self) -> None:
        """Serve it until the socket closes, or a ping gets no pong."""
        try:
            async with self._tasks as tasks:
                if self.greet is not None:
                    self.spawn(self.greet())
                self._reading = tasks.create_task(self._read())
                ends = {self._reading, tasks.create_task(self._ping())}
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                self._is_open = False
                for task in (*ends, *self._side):
                    task.cancel()
        finally:
            self._end()
            await self._transport.close(*self._close)

    async def post(
        self, kind: RequestKind, request_id: str, message: bytes, *, until: float
    ) -> "asyncio.Future[Outcome]":
        """Send a request; return a future of its outcome once the request is written.

        Args:
            kind: What kind of request it is.
            request_id: Its id.
            message: The whole of it.
            until: When to give up waiting for room in the send buffer, in the loop's time.

        Raises:
            NotSent: Nothing was written.
            LimitExceeded: Too many requests wait for an answer.

        Cancellation: safe; the answer to a request that was written is dropped.
        """
        if not self._is_open:
            raise NotSent
        if len(self._exchange) >= _MAX_UNANSWERED:
            text = f"{_MAX_UNANSWERED} requests to this extension wait for an answer."
            raise LimitExceeded("rate_limited", text, hint="Wait for some of the answers first.")
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._exchange.begin(request_id, kind)
        self._waiting[request_id] = outcome
        is_written = False

        def written() -> None:
            nonlocal is_written
            is_written = True

        try:
            async with asyncio.timeout_at(until):
                await self._transport.send(message, written)
        except (TimeoutError, TransportClosed):
            if not is_written:
                raise NotSent from None
        finally:
            if is_written:
                self._begin_waiting(request_id)
            else:
                self._exchange.expire(request_id)
                self._waiting.pop(request_id, None)
        return outcome

    async def probe(self, patience_s: float) -> None:
        """Ping it now, and close the connection if no pong comes."""
        loop = asyncio.get_running_loop()
        request_id = f"ping-{secrets.token_hex(8)}"
        until = loop.time() + patience_s
        with contextlib.suppress(NotSent, LimitExceeded, TimeoutError):
            pong = await self.post("ping", request_id, messages.ping(request_id), until=until)
            async with asyncio.timeout_at(until):
                if isinstance(await asyncio.shield(pong), Pong):
                    return
        self._close = (_INTERNAL_ERROR, "no pong")
        if self._reading is not None:
            self._reading.cancel()
            await self.ended.wait()

    async def send(self, message: bytes) -> None:
        """Send a message that has no answer; nothing happens after the end."""
        if self._is_open:
            try:
                await self._transport.send(message, lambda: None)
            except TransportClosed:
                return

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run `work` until it or the connection ends."""
        if not self._is_open:
            work.close()
            return
        task = self._tasks.create_task(work)
        self._side.add(task)
        task.add_done_callback(self._side.discard)

    def _begin_waiting(self, request_id: str) -> None:
        if request_id in self._waiting:  # the answer can be here already
            loop = asyncio.get_running_loop()
            self._timers[request_id] = loop.call_later(
                self._options.bridge_timeout_s, self._expire, request_id
            )

    def _expire(self, request_id: str) -> None:
        if self._exchange.expire(request_id):
            self._settle(request_id, Silent())

    def _settle(self, request_id: str, outcome: Outcome) -> None:
        if (timer := self._timers.pop(request_id, None)) is not None:
            timer.cancel()
        waiting = self._waiting.pop(request_id)
        if not waiting.done():
            waiting.set_result(outcome)
        _logger.debug("bridge request over", extra={"request": request_id, **_logged(outcome)})

    def _end(self) -> None:
        self._is_open = False
        for request_id in list(self._waiting):
            self._settle(request_id, Gone())
        self.ended.set()

    async def _ping(self) -> None:
        """Ping again and again; return when no pong comes. Outermost loop of the task."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._options.bridge_ping_s)
            request_id = f"ping-{secrets.token_hex(8)}"
            message = messages.ping(request_id)
            try:
                until = loop.time() + self._options.bridge_timeout_s
                outcome = await (await self.post("ping", request_id, message, until=until))
            except NotSent:
                outcome = Silent()
            except LimitExceeded:
                continue  # the requests that wait will show whether it still answers
            if not isinstance(outcome, Pong):
                self._close = (_INTERNAL_ERROR, "no pong")
                _logger.warning("an extension did not answer a ping", extra={"address": self.access.address})
                return

    async def _read(self) -> None:
        """Take messages until the socket closes. Outermost loop of the task."""
        try:
            for number in itertools.count(1):
                if number % _MESSAGES_A_TURN == 0:
                    await asyncio.sleep(0)
                frame = await self._transport.receive()
                if frame is None:
                    return
                if early_s := self._take(f"bridge {self.access.principal}", 1):
                    await asyncio.sleep(early_s)  # further messages wait in the extension's own buffers
                self._take_message(frame)
        except Exception:
            self._close = (_INTERNAL_ERROR, "")
            _logger.exception("an extension's connection failed", extra={"reference": secrets.token_hex(4)})

    def _take_message(self, frame: str | bytes) -> None:
        message = parse_message(frame)
        match message:
            case Unknown(kind=kind):
                self._complain("unknown type", kind=kind)
            case TerminalWanted():
                self._take_wanted(message)
            case Broken(reason=reason, request_id=None):
                self._complain("not a message", reason=reason)
            case _:
                found = self._exchange.take(message)
                if isinstance(found, Ignored):
                    self._complain("an answer to nothing", why=found.why)
                else:
                    self._settle(found.request_id, found.answer)

    def _take_wanted(self, message: TerminalWanted) -> None:
        """Open a terminal that the extension asks for, within limits."""
        if self.wanted is None:
            self._complain("unknown type", kind="create_terminal")
        elif len(self._side) >= _MAX_WANTED:
            error = "Too many terminals are being opened."
            refusal = messages.failed(message.request_id, error, code="rate_limited", hint="Wait for them.")
            if (
                len(self._side) < 2 * _MAX_WANTED
            ):  # refusals are bounded, too: a flood gets no further answers
                self.spawn(self.send(refusal))
        else:
            self.spawn(self.wanted(message))

    def _complain(self, what: str, **details: str) -> None:
        """Log what was ignored (promise S3.3)."""
        self._warnings += 1
        level = logging.WARNING if self._warnings <= _MAX_WARNINGS else logging.DEBUG
        _logger.log(
            level,
            "an extension's message was ignored",
            extra={"address": self.access.address, "what": what, **details},
        )


def _logged(outcome: Outcome) -> dict[str, object]:
    """Return the log's fields of an outcome: never a terminal's output."""
    fields: dict[str, object] = {"outcome": type(outcome).__name__}
    if isinstance(outcome, Broken):
        fields["reason"] = outcome.reason
    return fields
