"""POST, GET and DELETE /mcp as ASGI: who may call, which session, which dialect (promises S4.1-S4.6).

Raw callers send no MCP-Protocol-Version header. Everybody who does speaks a handshake revision, served here one
exchange at a time, or 2026-07-28, which is the SDK's.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import orjson
from starlette.types import Receive, Scope, Send

from outlive.frontends.mcp_http.access import cors_headers, is_preflight
from outlive.frontends.mcp_http.asking import Asking
from outlive.frontends.mcp_http.calls import Calls
from outlive.frontends.mcp_http.plain_calls import PlainCalls
from outlive.frontends.mcp_http.raw_stream import BACKGROUND_TOOL, stream_background
from outlive.frontends.mcp_http.requests import (
    HANDSHAKE_REVISIONS,
    Bad,
    Message,
    Wants,
    header,
    parse_message,
    wants_of,
)
from outlive.frontends.mcp_http.responses import (
    EventStream,
    Headers,
    error_body,
    gone,
    send_body,
)
from outlive.frontends.mcp_http.sdk_loading import SdkLoading
from outlive.frontends.mcp_http.sessions import McpSession, McpSessions
from outlive.frontends.mcp_http.settings import McpHttpSettings
from outlive.frontends.mcp_tools.contract import Caller, Toolbox
from outlive.protocols.sse import COMMENT, encode_event

__all__ = ["McpEndpoint"]

_PRINCIPAL = "outlive.principal"  # in scope["state"], where the access rules name somebody
_INVALID_REQUEST = -32600
_HEADER_MISMATCH = -32020  # MCP revision 2026-07-28, "Transports"
_RAW_REVISION = HANDSHAKE_REVISIONS[-1]  # what a raw initialize without a protocolVersion gets
_RAW_INITIALIZE = {
    "protocolVersion": _RAW_REVISION,
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "0"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exchange:
    """One HTTP request: its ASGI parts and what its headers say."""

    scope: Scope
    receive: Receive
    send: Send
    principal: str
    revision: str | None
    wants: Wants
    headers: Headers

    @property
    def is_raw(self) -> bool:
        return self.revision is None

    async def answer(self, status: int, body: bytes = b"", headers: Headers = ()) -> None:
        await send_body(self.send, status=status, body=body, headers=(*self.headers, *headers))

    async def refuse(self, status: int, message: str, *, code: int = _INVALID_REQUEST) -> None:
        await self.answer(status, error_body(code, message))


class McpEndpoint:
    """The ASGI application at /mcp. `spawn` runs what must not end with its connection."""

    def __init__(
        self,
        toolbox: Toolbox,
        calls: Calls,
        sessions: McpSessions,
        sdk: SdkLoading,
        settings: McpHttpSettings,
    ) -> None:
        """Join the parts; the door has opened them before the first request."""
        self._toolbox = toolbox
        self._calls = calls
        self._plain_calls = PlainCalls(toolbox, calls)
        self._sessions = sessions
        self._sdk = sdk
        self._settings = settings
        self._asking = Asking()
        self._works: set[asyncio.Task[bytes]] = set()
        self._hung_up = asyncio.Event()

    def hang_up(self) -> None:
        """End the streams on which nothing comes: the server stops, and would wait for them."""
        self._hung_up.set()

    async def close(self) -> None:
        """Let go of exchanges whose clients have left."""
        for work in self._works:
            work.cancel()
        await asyncio.gather(*self._works, return_exceptions=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        # The blanks around a value are no part of it (RFC 9110, section 5.5), and httptools leaves those behind it.
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        scope = {**scope, "headers": headers}
        cors = cors_headers(scope)
        if is_preflight(scope):
            await send_body(send, status=204, headers=cors)
            return
        revision = header(scope["headers"], b"mcp-protocol-version")
        state = scope.get("state") or {}
        exchange = _Exchange(
            scope=scope,
            receive=receive,
            send=send,
            principal=str(state.get(_PRINCIPAL, self._settings.principal)),
            revision=revision,
            wants=wants_of(header(scope["headers"], b"accept"), is_raw=revision is None),
            headers=cors,
        )
        if revision is not None and revision not in HANDSHAKE_REVISIONS:
            sdk = await self._sdk.get()
            await sdk.serve_modern(Caller(principal=exchange.principal), scope, receive, send)
            return
        match scope["method"]:
            case "POST":
                await self._post(exchange)
            case "GET":
                await self._get(exchange)
            case "DELETE":
                await self._delete(exchange)
            case _:
                allow = (b"allow", b"GET, POST, DELETE")
                body = error_body(_INVALID_REQUEST, "Method not allowed: POST, GET and DELETE are.")
                await exchange.answer(405, body, (allow,))

    async def _session(self, exchange: _Exchange) -> McpSession | None:
        """Return the session that the request names, or refuse it: 400 without an id, 404 for an unknown one."""
        session_id = header(exchange.scope["headers"], b"mcp-session-id")
        if session_id is None:
            await exchange.refuse(400, "Missing Mcp-Session-Id: call initialize and send the id it answers.")
            return None
        session = self._sessions.find(exchange.principal, session_id)
        if session is None:
            await exchange.refuse(404, "Session not found: call initialize again.")
        return session

    async def _get(self, exchange: _Exchange) -> None:
        """Keep a stream open on which nothing comes: what a request has to tell comes with its own answer."""
        if not exchange.wants.events:
            await exchange.refuse(406, "Not acceptable: this answers with text/event-stream.")
        elif (session := await self._session(exchange)) is not None:
            stream = EventStream(exchange.send, (*exchange.headers, _session_header(session)))
            await stream.write(COMMENT)
            leaving = asyncio.create_task(gone(exchange.receive), name="mcp stream, the other end")
            stopping = asyncio.create_task(self._hung_up.wait(), name="mcp stream, this end")
            try:
                await stream.until_first({leaving, stopping})
                await stream.write(b"", is_last=True)
            finally:
                leaving.cancel()
                stopping.cancel()

    async def _delete(self, exchange: _Exchange) -> None:
        session = await self._session(exchange)
        if session is not None:
            await self._sessions.end(session)
            await exchange.answer(200)

    async def _post(self, exchange: _Exchange) -> None:
        kind = (header(exchange.scope["headers"], b"content-type") or "").partition(";")[0].strip().lower()
        if kind != "application/json":
            await exchange.refuse(415, "Unsupported media type: the body is application/json.")
            return
        body = await self._body(exchange)
        if body is None:
            return
        message = parse_message(body)
        if isinstance(message, Bad):
            await exchange.answer(400, error_body(message.code, message.message, message.request_id))
        elif message.is_enveloped and exchange.is_raw:
            sentence = "The request names a revision in _meta, but there is no MCP-Protocol-Version header."
            await exchange.answer(400, error_body(_HEADER_MISMATCH, sentence, message.request_id))
        elif not (exchange.wants.json or exchange.wants.events):
            await exchange.refuse(406, "Not acceptable: accept application/json and text/event-stream.")
        elif message.kind == "request" and message.method == "initialize":
            await self._initialize(exchange, message)
        elif (session := await self._session(exchange)) is not None:
            if message.kind == "request":
                await self._request(exchange, message, session)
            else:
                await self._notification(exchange, message, session)

    async def _body(self, exchange: _Exchange) -> bytes | None:
        """Return the whole body; None when it is too large (413) or the client has left."""
        pieces: list[bytes] = []
        size = 0
        while True:
            event = await exchange.receive()
            if event["type"] == "http.disconnect":
                return None
            pieces.append(event.get("body", b""))
            size += len(pieces[-1])
            if size > self._settings.max_message_bytes:
                await exchange.refuse(
                    413, f"The body is larger than {self._settings.max_message_bytes} bytes."
                )
                return None
            if not event.get("more_body"):
                return b"".join(pieces)

    async def _initialize(self, exchange: _Exchange, message: Message) -> None:
        if exchange.is_raw:
            message = replace(message, params={**_RAW_INITIALIZE, **(message.params or {})})
        sdk = await self._sdk.get()
        caller = Caller(principal=exchange.principal)
        response = await sdk.exchange(message, caller, revision=_RAW_REVISION, notify=None)
        headers: Headers = ()
        if "result" in response:
            session = self._sessions.begin(exchange.principal, response["result"]["protocolVersion"])
            headers = (_session_header(session),)
        await self._respond(exchange, orjson.dumps(response), headers)

    async def _respond(self, exchange: _Exchange, response: bytes, headers: Headers = ()) -> None:
        if exchange.wants.json:
            await exchange.answer(200, response, headers)
        else:
            stream = EventStream(exchange.send, (*exchange.headers, *headers))
            await stream.write(encode_event("message", response), is_last=True)

    async def _notification(self, exchange: _Exchange, message: Message, session: McpSession) -> None:
        """Heed a cancel and a response; every other notification is only acknowledged."""
        if message.kind == "response":
            self._asking.hear(
                message, Caller(principal=exchange.principal, connection_id=session.connection_id)
            )
        if message.method != "notifications/cancelled":
            await exchange.answer(202)
            return
        params = message.params or {}
        request_id, reason = params.get("requestId"), params.get("reason")
        if isinstance(request_id, str | int) and not isinstance(request_id, bool):
            caller = _caller(exchange, session, request_id)
            await self._calls.cancel(caller, reason=reason if isinstance(reason, str) else "")
        await exchange.answer(204 if exchange.is_raw else 202)

    async def _request(self, exchange: _Exchange, message: Message, session: McpSession) -> None:
        if message.request_id is None:
            raise AssertionError("a request has an id")
        caller = _caller(exchange, session, message.request_id)
        request = self._calls.expect(caller)  # before anything is awaited: a cancel must find it from now on
        wants = exchange.wants
        stream = EventStream(exchange.send, exchange.headers)
        if exchange.is_raw and not wants.json and message.tool == BACKGROUND_TOOL:
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
        if stream.has_begun:
            await stream.write(encode_event("message", response), is_last=True)
        else:
            await self._respond(exchange, response)

    async def _outlast(
        self, work: Callable[[], Awaitable[bytes]], exchange: _Exchange, stream: EventStream
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


def _caller(exchange: _Exchange, session: McpSession, request_id: str | int) -> Caller:
    return Caller(
        principal=exchange.principal, connection_id=session.connection_id, request_id=str(request_id)
    )


def _session_header(session: McpSession) -> tuple[bytes, bytes]:
    return b"mcp-session-id", session.session_id.encode()
