"""The MCP endpoint over HTTP, `McpEndpoint`: POST, GET and DELETE /mcp as ASGI (promises S4.1-S4.6).

Tells the revisions apart: raw callers send no MCP-Protocol-Version header; a header names a handshake revision, whose messages are
`handshake`'s, or 2026-07-28, which is the SDK's. PUT takes where a relay's host works (`projects`). Checks sessions, and what a page of this machine may ask without a token
(`_greeting`: the scope hello, promise S4.10, decision 72).
"""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import orjson
from starlette.types import Message as AsgiMessage
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from outlive import __version__
from outlive.core.errors import AccessDenied, InvalidRequest
from outlive.core.layout import Layout
from outlive.frontends.mcp.http.calls import Calls
from outlive.frontends.mcp.http.handshake import Extend, HandshakeMessages, SdkLoader, SdkServer
from outlive.frontends.mcp.http.projects import Projects
from outlive.frontends.mcp.http.requests import (
    HANDSHAKE_REVISIONS,
    EventStream,
    HttpExchange,
    InvalidMessage,
    Message,
    accepted_of,
    gone,
    header,
    parse_message,
    tool_set_of,
)
from outlive.frontends.mcp.http.sessions import McpSession, McpSessions
from outlive.frontends.mcp.http.subscriptions import OutputSubscribers, updated_message
from outlive.frontends.mcp.tools.calls import Caller
from outlive.frontends.mcp.tools.toolbox import Toolbox
from outlive.policy.access import PAGE_HINT, Scope
from outlive.protocols.mcp.project import PROJECT_HEADER
from outlive.protocols.sse import COMMENT, encode_event
from outlive.server.access.guard import access_of

# `server/discover` is what 2026-07-28 has in the place of initialize; the notification ends the handshake of the others.
_METHODS = frozenset({"initialize", "notifications/initialized", "ping", "server/discover", "tools/list"})
_INSTRUCTIONS = (
    "Runs commands that outlive their caller. A call that takes long answers with an id: read, wait and "
    "list find the command again, also after a restart."
)
_HEADER_MISMATCH = -32020  # MCP revision 2026-07-28, "Transports"


class McpEndpoint:
    """MCP over HTTP, an ASGI application at /mcp. `open` it before the first request, `close` it in the end.

    Closing ends no process.
    """

    def __init__(
        self, toolbox: Toolbox, layout: Layout, *, max_message_bytes: int, extend: Extend | None = None
    ) -> None:
        """Offer the tools of `toolbox`, and what `extend` adds to the SDK's server; nothing runs yet."""
        self._toolbox = toolbox
        self._extend = extend
        self._max_message_bytes = max_message_bytes
        self._sessions = McpSessions(layout)
        self._projects = Projects()
        self._calls = Calls(toolbox)
        self._sdk = SdkLoader(self._build)
        self._messages = HandshakeMessages(toolbox, self._calls, self._sessions, self._sdk)
        self._subscriptions = OutputSubscribers()
        self._hung_up = asyncio.Event()

    async def open(self) -> None:
        """Read the sessions' key."""
        await self._sessions.open()

    async def close(self) -> None:
        """Let go of calls in flight, and of exchanges whose clients have left."""
        await self._calls.close()
        await self._messages.close()
        await self._sdk.close()

    def hang_up(self) -> None:
        """End the streams that clients only listen to: the server stops, and would wait for them. Their clients come again."""
        self._hung_up.set()
        self._subscriptions.hang_up()

    def _build(self, module: Any) -> SdkServer:  # noqa: ANN401 -- a module that is imported late has no other type
        server: SdkServer = module.Sdk(
            self._toolbox,
            self._calls,
            self._subscriptions,
            version=__version__,
            max_message_bytes=self._max_message_bytes,
            instructions=_INSTRUCTIONS,
            extend=self._extend,
        )
        return server

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        # The blanks around a value are no part of it (RFC 9110, section 5.5), and httptools leaves those behind it.
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        scope = {**scope, "headers": headers}
        revision = header(scope["headers"], b"mcp-protocol-version")
        exchange = HttpExchange(
            scope=scope,
            receive=receive,
            send=send,
            access=access_of(scope),
            revision=revision,
            accepted=accepted_of(header(scope["headers"], b"accept"), is_raw=revision is None),
        )
        if exchange.access.scope is Scope.HELLO:
            greeted = await _greeting(exchange, self._max_message_bytes)
            if greeted is None:
                return
            exchange = greeted
        try:
            exchange = replace(exchange, tool_set=tool_set_of(scope.get("query_string", b"")))
        except InvalidRequest as error:
            data = {"reason": error.code, "hint": error.hint}
            await exchange.refuse(400, error.message, data=data)
            return
        # Before the revision is looked at: a command must never begin in the server's folder because its project was lost.
        name = header(scope["headers"], PROJECT_HEADER.encode())
        if name is not None:
            project = self._projects.find(name, exchange.access.principal)
            if project is None:
                await exchange.refuse(412, "This server does not know the project: send it again (PUT).")
                return
            exchange = replace(exchange, project=project)
        if revision is not None and revision not in HANDSHAKE_REVISIONS:
            sdk = await self._sdk.get()
            caller = Caller(
                access=exchange.access,
                project=exchange.project,
                asked_tools=exchange.tool_set,
                traceparent=exchange.traceparent,
            )
            await sdk.serve_modern(caller, scope, exchange.receive, send)
            return
        match scope["method"]:
            case "POST":
                await self._post(exchange)
            case "GET":
                await self._get(exchange)
            case "DELETE":
                await self._delete(exchange)
            case "PUT" if (
                _media_type(exchange) == "application/json"
            ):  # a relay; every other PUT is a mistake
                await self._put(exchange)
            case _:
                allow = (b"allow", b"GET, POST, DELETE")
                await exchange.refuse(405, "Method not allowed: POST, GET and DELETE are.", headers=(allow,))

    async def _session(self, exchange: HttpExchange) -> McpSession | None:
        """Return the session that the request names, or refuse it: 400 without an id, 404 for an unknown one."""
        session_id = header(exchange.scope["headers"], b"mcp-session-id")
        if session_id is None:
            await exchange.refuse(400, "Missing Mcp-Session-Id: call initialize and send the id it answers.")
            return None
        session = self._sessions.find(exchange.access.principal, session_id)
        if session is None:
            await exchange.refuse(404, "Session not found: call initialize again.")
        return session

    async def _get(self, exchange: HttpExchange) -> None:
        """Keep a stream open for what no request asked for: notifications of resources that the session has subscribed to."""
        if not exchange.accepted.events:
            await exchange.refuse(406, "Not acceptable: this answers with text/event-stream.")
        elif (session := await self._session(exchange)) is not None:
            stream = EventStream(exchange.send, (session.header,))
            await stream.write(COMMENT)
            caller = Caller(access=exchange.access, connection_id=session.connection_id)

            async def notify(uri: str) -> None:
                await stream.write(encode_event("message", updated_message(uri)))

            following = asyncio.create_task(
                self._subscriptions.of(caller).follow(notify), name="mcp stream, updates"
            )
            leaving = asyncio.create_task(gone(exchange.receive), name="mcp stream, the other end")
            stopping = asyncio.create_task(self._hung_up.wait(), name="mcp stream, this end")
            try:
                await stream.until_first({leaving, stopping, following})
                await stream.write(b"", is_last=True)
            finally:
                leaving.cancel()
                stopping.cancel()
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
                self._subscriptions.release(caller)

    async def _delete(self, exchange: HttpExchange) -> None:
        session = await self._session(exchange)
        if session is not None:
            await self._sessions.end(session)
            self._toolbox.engine.session_ends.end(session.connection_id)
            self._subscriptions.end(Caller(access=exchange.access, connection_id=session.connection_id))
            await exchange.answer(200)

    async def _put(self, exchange: HttpExchange) -> None:
        """Take where a host works, from its relay, and answer with the name for it."""
        try:
            exchange.access.require(Scope.RUN)  # only commands have a use for it
        except AccessDenied as error:
            await exchange.refuse(403, error.message, data={"reason": error.code, "hint": error.hint})
            return
        body = await exchange.body(self._max_message_bytes)
        if body is None:
            return
        try:
            name = self._projects.add(body, exchange.access.principal)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            await exchange.refuse(400, f"This is no project: {error}.")
            return
        await exchange.answer(200, orjson.dumps({"project": name}))

    async def _post(self, exchange: HttpExchange) -> None:
        if _media_type(exchange) != "application/json":
            await exchange.refuse(415, "Unsupported media type: the body is application/json.")
            return
        body = await exchange.body(self._max_message_bytes)
        if body is None:
            return
        message = parse_message(body)
        if isinstance(message, InvalidMessage):
            await exchange.refuse(400, message.message, code=message.code, request_id=message.request_id)
        elif message.is_enveloped and exchange.is_raw:
            sentence = "The request names a revision in _meta, but there is no MCP-Protocol-Version header."
            await exchange.refuse(400, sentence, code=_HEADER_MISMATCH, request_id=message.request_id)
        elif not (exchange.accepted.json or exchange.accepted.events):
            await exchange.refuse(406, "Not acceptable: accept application/json and text/event-stream.")
        elif message.kind == "request" and message.method == "initialize":
            await self._messages.initialize(exchange, message)
        elif (session := await self._session(exchange)) is not None:
            if message.kind == "request":
                await self._messages.request(exchange, message, session)
            else:
                await self._messages.notification(exchange, message, session)


def _media_type(exchange: HttpExchange) -> str:
    kind = header(exchange.scope["headers"], b"content-type") or ""
    return kind.partition(";")[0].strip().lower()


async def _greeting(exchange: HttpExchange, limit_bytes: int) -> HttpExchange | None:
    """Return the exchange of a page without a token as one that can be answered; None when it was refused, or its client has left."""
    if exchange.scope["method"] != "POST":
        await _refuse(exchange, exchange.scope["method"], None)
        return None
    body = await exchange.body(limit_bytes)
    if body is None:
        return None
    message = parse_message(body)
    if isinstance(message, Message) and message.method not in _METHODS:
        await _refuse(exchange, message.method or message.kind, message.request_id)
        return None
    is_read = False

    async def again() -> AsgiMessage:
        nonlocal is_read
        if is_read:
            return await exchange.receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replace(exchange, receive=again)


async def _refuse(exchange: HttpExchange, asked: str, request_id: str | int | None) -> None:
    await exchange.refuse(
        403,
        f"A web page without a token may not do this here ({asked[:40]}).",
        request_id=request_id,
        data={"reason": "scope_missing", "hint": PAGE_HINT},
    )
