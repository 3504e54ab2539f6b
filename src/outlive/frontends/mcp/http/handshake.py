"""What the messages of a handshake revision mean: initialize, requests, notifications (`HandshakeMessages`).

One exchange at a time; a request's work runs in a task of its own, which a lost connection does not end. HTTP's side
(methods, sessions, bodies) is `endpoint`'s.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace

import orjson

from outlive.core.errors import CommandRefused
from outlive.frontends.mcp.http.calls import Asking, Calls, PlainCalls
from outlive.frontends.mcp.http.output_events import BACKGROUND_TOOL, stream_background
from outlive.frontends.mcp.http.requests import (
    HANDSHAKE_REVISIONS,
    EventStream,
    Headers,
    HttpExchange,
    Message,
    gone,
)
from outlive.frontends.mcp.http.sdk_loader import SdkLoading
from outlive.frontends.mcp.http.sessions import McpSession, McpSessions
from outlive.frontends.mcp.tools.calls import Caller
from outlive.frontends.mcp.tools.toolbox import Toolbox
from outlive.protocols.mcp.texts import error_text
from outlive.protocols.sse import encode_event

_RAW_REVISION = HANDSHAKE_REVISIONS[-1]  # what a raw initialize without a protocolVersion gets
_RAW_INITIALIZE = {
    "protocolVersion": _RAW_REVISION,
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "0"},
}


class HandshakeMessages:
    """Answers parsed messages; `close` lets go of the work whose clients have left."""

    def __init__(self, toolbox: Toolbox, calls: Calls, sessions: McpSessions, sdk: SdkLoading) -> None:
        """Join the parts; the door has opened them before the first request."""
        self._toolbox = toolbox
        self._calls = calls
        self._plain_calls = PlainCalls(toolbox, calls)
        self._sessions = sessions
        self._sdk = sdk
        self._asking = Asking()
        self._works: set[asyncio.Task[bytes]] = set()

    async def close(self) -> None:
        """Let go of exchanges whose clients have left."""
        for work in self._works:
            work.cancel()
        await asyncio.gather(*self._works, return_exceptions=True)

    async def initialize(self, exchange: HttpExchange, message: Message) -> None:
        """Begin a session."""
        if exchange.is_raw:
            message = replace(message, params={**_RAW_INITIALIZE, **(message.params or {})})
        sdk = await self._sdk.get()
        caller = Caller(access=exchange.access)
        response = await sdk.exchange(message, caller, revision=_RAW_REVISION, notify=None)
        headers: Headers = ()
        if "result" in response:
            session = self._sessions.begin(exchange.access.principal, response["result"]["protocolVersion"])
            headers = (session.header,)
        await exchange.respond(orjson.dumps(response), headers)

    async def notification(self, exchange: HttpExchange, message: Message, session: McpSession) -> None:
        """Heed a cancel and a response; every other notification is only acknowledged."""
        if message.kind == "response":
            self._asking.hear(message, Caller(access=exchange.access, connection_id=session.connection_id))
        if message.method != "notifications/cancelled":
            await exchange.answer(202)
            return
        params = message.params or {}
        request_id, reason = params.get("requestId"), params.get("reason")
        if isinstance(request_id, str | int) and not isinstance(request_id, bool):
            caller = _caller(exchange, session, request_id)
            try:
                await self._calls.cancel(caller, reason=reason if isinstance(reason, str) else "")
            except CommandRefused as error:
                await exchange.refuse(403, error_text(error))
                return
        await exchange.answer(204 if exchange.is_raw else 202)

    async def request(self, exchange: HttpExchange, message: Message, session: McpSession) -> None:
        """Answer a request; what it tells before goes the same way, as events."""
        if message.request_id is None:
            raise AssertionError("a request has an id")
        caller = _caller(exchange, session, message.request_id)
        request = self._calls.expect(caller)  # before anything is awaited: a cancel must find it from now on
        wants = exchange.wants
        stream = EventStream(exchange.send)
        if exchange.is_raw and wants.events and message.tool == BACKGROUND_TOOL:
            with contextlib.closing(request):
                await stream_background(
                    self._toolbox,
                    self._calls,
                    message,
                    caller,
                    request=request,
                    stream=stream,
                    receive=exchange.receive,
                )
            return

        async def notify(notification: bytes) -> None:
            await stream.write(encode_event("message", notification))

        async def work() -> bytes:
            with contextlib.closing(request):
                heard = notify if wants.events else None
                if self._plain_calls.takes(message):
                    return orjson.dumps(await self._plain_calls.answer(message, caller, heard))
                sdk = await self._sdk.get()
                response = await sdk.exchange(
                    message,
                    caller,
                    revision=exchange.revision or session.revision,
                    notify=heard,
                    # Whoever is not official may not know that a server can ask.
                    ask=self._asking.through(caller, notify) if heard and not exchange.is_raw else None,
                )
                return orjson.dumps(response)

        response = await self._outlast(work, exchange, stream)
        if response is None:
            return
        if request.is_cancelled() and not exchange.is_raw:
            # A cancelled request gets no response (MCP revision 2025-11-25, "Cancellation"); the HTTP one ends empty.
            if wants.events:
                await stream.write(b"", is_last=True)
            else:
                await exchange.answer(202)
        elif stream.has_begun:
            await stream.write(encode_event("message", response), is_last=True)
        else:
            await exchange.respond(response)

    async def _outlast(
        self, work: Callable[[], Awaitable[bytes]], exchange: HttpExchange, stream: EventStream
    ) -> bytes | None:
        """Run `work` in a task of its own and return its answer; None when the client left, and `work` goes on.

        A lost connection is no cancel (MCP revision 2025-11-25, "Sending Messages to the Server").
        """

        async def run() -> bytes:
            return await work()

        task = asyncio.create_task(run(), name="mcp exchange")
        self._works.add(task)
        task.add_done_callback(self._works.discard)
        leaving = asyncio.create_task(gone(exchange.receive), name="mcp exchange, the other end")
        try:
            if exchange.wants.events:
                await stream.until_first({task, leaving})
            else:
                await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
        return task.result() if task.done() and not task.cancelled() else None


def _caller(exchange: HttpExchange, session: McpSession, request_id: str | int) -> Caller:
    return Caller(
        access=exchange.access,
        connection_id=session.connection_id,
        request_id=str(request_id),
        is_raw=exchange.is_raw,
    )
