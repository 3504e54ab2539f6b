"""/v1/processes/{process_id}/follow: a process's output as it comes, and its end, as server-sent events or
over a WebSocket.

`OutputFeed` is a cursor on the log and yields events; nothing is queued. Server-sent events: WHATWG HTML,
"Server-sent events"; `id` is the place to go on at, and Last-Event-ID goes on there.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Literal

import orjson
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest
from outlive.core.redactions import Redactions
from outlive.core.values import dataclass
from outlive.engine import Process
from outlive.frontends.rest.output import Extent, behind, read_pieces
from outlive.frontends.rest.routes import RestCall
from outlive.protocols.jsonrpc.output import STREAM_NAMES
from outlive.protocols.jsonrpc.views import Encoding, Piece, page_view
from outlive.protocols.rest.answers import process_view
from outlive.protocols.rest.requests import EventParameters, FollowParameters, SocketParameters
from outlive.protocols.sse import COMMENT
from outlive.server.shown_output import check_within
from outlive.store.output_log import OutputLog

_TURN_BYTES = 64 * 1024
_Word = Literal["completed", "closed"]


@dataclass(frozen=True, slots=True)
class FeedPlace:
    """How far a follower has got: a cursor, and which of the two words about the end was sent last.

    As text "12.0", "12.0;completed" or "12.0;closed": the id of an event.
    """

    cursor: Cursor
    sent: _Word | None = None

    def __str__(self) -> str:
        """Return the form used on the wire."""
        return f"{self.cursor};{self.sent}" if self.sent else str(self.cursor)

    @classmethod
    def parse(cls, text: str) -> "FeedPlace":
        """Read the wire form.

        Raises:
            InvalidRequest: The text is none.
        """
        cursor, semicolon, sent = text.partition(";")
        match sent:
            case "completed" | "closed":
                return cls(Cursor.parse(cursor), sent)
            case "" if not semicolon:
                return cls(Cursor.parse(cursor))
            case _:
                raise InvalidRequest("invalid_cursor", f"Not the id of an event: {text[:60]!r}.")


@dataclass(frozen=True, slots=True)
class Event:
    """One thing to send: `output`, `gap`, `completed` or `closed`; `raw` is output's bytes where those are
    asked for.
    """

    name: str
    place: FeedPlace
    body: dict[str, object]
    raw: bytes | None = None


class OutputFeed:
    """What a follower gets from a place on: output, the end, and when the streams are closed."""

    def __init__(
        self, process: Process, log: OutputLog, place: FeedPlace, *, encoding: Encoding | None = "utf-8"
    ) -> None:
        """Follow `process` as `log` shows its output; `encoding` None gives the bytes themselves."""
        self._process = process
        self._log = log
        self._place = place
        self._encoding: Encoding | None = encoding
        self._redactions = Redactions()

    async def events(self, *, quiet_s: float, stopping: asyncio.Event) -> AsyncIterator[list[Event]]:
        """Yield events as they come, an empty list after `quiet_s` of silence.

        End behind `closed`, or when stopping.

        A slow follower slows no other: the log waits. Cancellation: safe.

        Raises:
            StoreCorrupt: The disk does not give the bytes.
        """
        woken = asyncio.Event()
        unsubscribe = self._process.subscribers.add(woken.set, reads=True)
        stop = asyncio.ensure_future(stopping.wait())
        stop.add_done_callback(lambda _: woken.set())
        try:
            while self._place.sent != "closed" and not stopping.is_set():
                woken.clear()
                events = self._turn()
                if events:
                    yield events
                    await asyncio.sleep(0)  # one loud process must not starve the rest
                    continue
                try:
                    async with asyncio.timeout(quiet_s):
                        await woken.wait()
                except TimeoutError:
                    yield []
        finally:
            stop.cancel()
            unsubscribe()

    def _turn(self) -> list[Event]:
        process = self._process
        is_complete = process.status.is_complete  # asked before the read: then the read sees everything
        if self._place.sent is None:
            until = self._until() if is_complete else self._log.end
            events = self._output(until, is_last=is_complete)
            if events or not is_complete:
                return events
            return [self._say("completed", process_view(process.record))]
        if process.status.is_closed:
            return [self._say("closed", {"process_id": process.process_id})]
        return []

    def _until(self) -> Cursor:
        """Return where the output ends: later bytes belong to descendants."""
        out, err = self._process.status.complete_stdout_bytes, self._process.status.complete_stderr_bytes
        now = self._log.end
        return Cursor(now.stdout if out is None else out, now.stderr if err is None else err)

    def _output(self, until: Cursor, *, is_last: bool) -> list[Event]:
        begin = self._place.cursor
        pieces = read_pieces(self._log, Extent(begin, until, None), _TURN_BYTES, self._redactions)
        if self._encoding is None:
            return [self._raw_event(piece) for piece in pieces]
        reached = behind(pieces, begin)
        is_rest = is_last and reached.stdout >= until.stdout and reached.stderr >= until.stderr
        shown, _ = page_view(pieces, begin, encoding=self._encoding, is_last=is_rest)
        return [self._event(dict(chunk)) for chunk in shown]

    def _event(self, body: dict[str, object]) -> Event:
        end = body["end"]
        assert isinstance(end, int)
        self._move(1 if body["type"] == "stderr" else 0, end)
        name = "gap" if body.pop("gap", False) else "output"
        return Event(name, self._place, body)

    def _raw_event(self, piece: Piece) -> Event:
        self._move(piece.stream, piece.end)
        body: dict[str, object] = {"type": STREAM_NAMES[piece.stream], "end": piece.end}
        if piece.redacted:
            body["redacted"] = piece.redacted
        if piece.data is None:
            return Event("gap", self._place, body | {"from": piece.start, "to": piece.end})
        return Event("output", self._place, body, piece.data)

    def _move(self, stream: int, end: int) -> None:
        cursor = self._place.cursor
        self._place = FeedPlace(Cursor(cursor.stdout, end) if stream else Cursor(end, cursor.stderr))

    def _say(self, word: _Word, body: dict[str, object]) -> Event:
        self._place = FeedPlace(self._place.cursor, word)
        return Event(word, self._place, body)


EVENTS = "text/event-stream"
_HEADERS = {  # proxies must not hold events back
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}
# Over a WebSocket the server's ping frames keep the connection: silence needs no message.
_QUIET_S = 15.0  # then a stream says that it lives; below every proxy's usual minute of patience
_NEVER_QUIET_S = 3600.0
_RESTART = 1012  # WebSocket close code: the service restarts (IANA registry)


async def follow(call: RestCall, asked: EventParameters) -> Response:
    """Follow a process from a cursor on, through its end.

    The same path is a WebSocket, with the same messages.
    """
    process, place = await _placed(call, asked, asked.last_event_id or asked.cursor)
    if place.sent == "closed":
        return Response(status_code=204)
    log = await call.log_of(process, place.cursor, raw=asked.raw)
    feed = OutputFeed(process, log, place, encoding=asked.encoding)
    return StreamingResponse(_events(call, feed), media_type=EVENTS, headers=_HEADERS)


async def _events(call: RestCall, feed: OutputFeed) -> AsyncIterator[bytes]:
    context = call.context
    yield COMMENT  # the head of the answer leaves at once
    async for events in feed.events(quiet_s=_QUIET_S, stopping=context.stopping):
        yield b"".join(map(_sse, events)) or COMMENT


async def follow_socket(call: RestCall, asked: SocketParameters) -> ASGIApp:
    """Follow a process: each event is one message {event, id, …}; closes (1000) behind `closed`.

    With `output=binary` output comes in binary messages: the event as JSON, a newline, the bytes.
    """
    process, place = await _placed(call, asked, asked.cursor)
    log = await call.log_of(process, place.cursor, raw=asked.raw)
    feed = OutputFeed(process, log, place, encoding=None if asked.output == "binary" else asked.encoding)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        websocket = WebSocket(scope, receive, send)
        await websocket.accept()
        await _serve(websocket, feed, stopping=call.context.stopping, name=f"follow {process.process_id}")

    return serve


async def _serve(websocket: WebSocket, feed: OutputFeed, *, stopping: asyncio.Event, name: str) -> None:
    """Send events until the last one, until the client leaves, or until the server stops."""
    sending = asyncio.create_task(_send(websocket, feed, stopping), name=name)
    leaving = asyncio.create_task(_gone(websocket), name=f"{name}, the other end")
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            with contextlib.suppress(WebSocketDisconnect):
                sending.result()
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
    if websocket.client_state is WebSocketState.CONNECTED:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # gone at this very moment
            await websocket.close(_RESTART if stopping.is_set() else 1000)


async def _placed(call: RestCall, asked: FollowParameters, text: str | None) -> tuple[Process, FeedPlace]:
    process = await call.find(asked)
    place = FeedPlace.parse(text or "0")
    check_within(process, place.cursor)
    return process, place


async def _send(websocket: WebSocket, feed: OutputFeed, stopping: asyncio.Event) -> None:
    async for events in feed.events(quiet_s=_NEVER_QUIET_S, stopping=stopping):
        for event in events:
            head = orjson.dumps({"event": event.name, "id": str(event.place), **event.body})
            if event.raw is None:
                await websocket.send_text(head.decode())
            else:
                await websocket.send_bytes(head + b"\n" + event.raw)


async def _gone(websocket: WebSocket) -> None:
    """Return when the client has left; what it says is not listened to."""
    with contextlib.suppress(WebSocketDisconnect):
        while (await websocket.receive())["type"] != "websocket.disconnect":
            pass


def _sse(event: Event) -> bytes:
    return b"event: %b\nid: %b\ndata: %b\n\n" % (
        event.name.encode(),
        str(event.place).encode(),
        orjson.dumps(event.body),
    )
