"""/v1/processes/{process_id}/follow: events as they come, as server-sent events or over a WebSocket.

Server-sent events: WHATWG HTML, "Server-sent events"; `id` is the place to go on at, and Last-Event-ID goes on there.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Header, Query, WebSocket
from starlette.responses import Response, StreamingResponse
from starlette.websockets import WebSocketDisconnect, WebSocketState

from outlive.core.errors import AccessDenied, OutliveError
from outlive.core.hints import hint_for
from outlive.engine import Process
from outlive.frontends.rest.context import ProcessIdPath, RestContext, problems
from outlive.frontends.rest.output_feed import Event, FeedPlace, OutputFeed
from outlive.frontends.rest.problems import problem_response
from outlive.frontends.rest.slugs import problem
from outlive.protocols.jsonrpc.views import Encoding
from outlive.protocols.sse import COMMENT
from outlive.server.views.positions import check_within

_EVENTS = "text/event-stream"
_200: dict[str, Any] = {
    "description": "Events `output` {type, data, end, and redacted where secrets are stars in it}, `gap` {type, from, to, end}, `completed` (the process) and "
    "`closed` {process_id}. The id of an event is the cursor behind it.",
    "content": {_EVENTS: {"schema": {"type": "string"}}},
}
_204 = {"description": "Everything was told already (Last-Event-ID): an EventSource stops asking."}
_HEADERS = {  # proxies must not hold events back
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}
_NEVER_QUIET_S = (
    3600.0  # over a WebSocket the server's ping frames keep the connection: silence needs no message
)
_RESTART = 1012  # WebSocket close code: the service restarts (IANA registry)

_Start = Annotated[
    str | None,
    Query(max_length=60, description="Where to begin; the beginning unless given.", examples=["1024.0"]),
]


_Raw = Annotated[bool, Query(description="Hide no secrets; needs the scope admin.")]


class FollowRoutes:
    """The two ways of following a process."""

    def __init__(self, context: RestContext) -> None:
        """Answer from `context`."""
        self._context = context

    def add_to(self, router: APIRouter) -> None:
        """Register the routes."""
        path = "/processes/{process_id}/follow"
        router.add_api_route(
            path,
            self.follow,
            response_class=StreamingResponse,
            responses={200: _200, 204: _204, **problems(404)},
        )
        router.add_api_websocket_route(path, self.follow_socket)

    async def follow(
        self,
        process_id: ProcessIdPath,
        *,
        cursor: _Start = None,
        encoding: Annotated[Encoding, Query(description="Of the events' data.")] = "utf-8",
        raw: _Raw = False,
        last_event_id: Annotated[
            str | None,
            Header(max_length=60, description="The id of the last event that came; wins over cursor."),
        ] = None,
    ) -> Response:
        """Follow a process from a cursor on, through its end. The same path is a WebSocket, with the same messages."""
        process, place = await self._placed(process_id, last_event_id or cursor)
        if place.told == "closed":
            return Response(status_code=204)
        log = await self._context.log_of(process, place.cursor, raw=raw)
        following = OutputFeed(process, log, place, encoding=encoding)
        return StreamingResponse(self._events(following), media_type=_EVENTS, headers=_HEADERS)

    async def _events(self, following: OutputFeed) -> AsyncIterator[bytes]:
        context = self._context
        yield COMMENT  # the head of the answer leaves at once
        async for events in following.events(quiet_s=context.settings.quiet_s, stopping=context.stopping):
            yield b"".join(map(_sse, events)) or COMMENT

    async def follow_socket(
        self,
        websocket: WebSocket,
        process_id: ProcessIdPath,
        *,
        cursor: _Start = None,
        encoding: Encoding = "utf-8",
        output: Literal["text", "binary"] = "text",
        raw: _Raw = False,
    ) -> None:
        """Follow a process: each event is one message {event, id, …}; closes (1000) behind `closed`.

        With `output=binary` output comes in binary messages: the event as JSON, a newline, the bytes.
        """
        try:
            process, place = await self._placed(process_id, cursor)
            log = await self._context.log_of(process, place.cursor, raw=raw)
        except OutliveError as error:
            if isinstance(error, AccessDenied):
                self._context.tell_denied(websocket.url.path, error)
            body = problem(error.code, error.message, hint=hint_for(error, "rest"), details=error.details)
            await websocket.send_denial_response(problem_response(websocket.url.path, body))
            return
        await websocket.accept()
        following = OutputFeed(process, log, place, encoding=None if output == "binary" else encoding)
        sending = asyncio.create_task(self._send(websocket, following), name=f"follow {process_id}")
        leaving = asyncio.create_task(_gone(websocket), name=f"follow {process_id}, the other end")
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
                await websocket.close(_RESTART if self._context.stopping.is_set() else 1000)

    async def _placed(self, process_id: str, text: str | None) -> tuple[Process, FeedPlace]:
        process = await self._context.find(process_id)
        place = FeedPlace.parse(text or "0")
        check_within(process, place.cursor)
        return process, place

    async def _send(self, websocket: WebSocket, following: OutputFeed) -> None:
        stopping = self._context.stopping
        async for events in following.events(quiet_s=_NEVER_QUIET_S, stopping=stopping):
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
