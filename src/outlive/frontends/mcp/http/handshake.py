"""The messages of a handshake revision: initialize, requests, notifications (`HandshakeMessages`), answered one by one.

A request's work runs in a task of its own, which a lost connection does not end. What HTTP says (methods, sessions, bodies) is
`endpoint`'s. `SdkLoader` imports the official SDK in a thread, once, at the first request that needs it.

`ServerRequests` are the server's own requests to a client. Such a request leaves on the answer of the client's request that it
belongs to; the response comes as a POST of its own (MCP revision 2025-11-25, "Transports"). Nothing of it outlives the server.
"""

import asyncio
import contextlib
import importlib
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Protocol

import orjson
from starlette.types import Receive, Scope, Send

from outlive.core.errors import CommandRefused
from outlive.frontends.mcp.http.calls import Calls, PlainCalls
from outlive.frontends.mcp.http.output_events import stream_background
from outlive.frontends.mcp.http.requests import (
    HANDSHAKE_REVISIONS,
    EventStream,
    Headers,
    HttpExchange,
    Message,
    gone,
)
from outlive.frontends.mcp.http.sessions import McpSession, McpSessions
from outlive.frontends.mcp.tools.calls import Caller
from outlive.frontends.mcp.tools.table import BACKGROUND_TOOL
from outlive.frontends.mcp.tools.toolbox import Toolbox
from outlive.protocols.mcp.texts import error_text
from outlive.protocols.sse import encode_event

_RAW_REVISION = HANDSHAKE_REVISIONS[-1]  # what a raw initialize without a protocolVersion gets
_RAW_INITIALIZE = {
    "protocolVersion": _RAW_REVISION,
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "0"},
}


# (method, params, seconds) -> the client's response: an object with `result` or `error`.
Ask = Callable[[str, Mapping[str, Any] | None, float | None], Awaitable[Mapping[str, Any]]]

_PATIENCE_S = 600.0  # a person may have to answer; the wait for a person that has left has an end
_RequestKey = tuple[str, str | None, str]


class ServerRequests:
    """Requests of the server to clients that wait for their response, by (principal, MCP session, our request id). Only the event loop uses it."""

    def __init__(self) -> None:
        """Begin with none."""
        self._waiting: dict[_RequestKey, asyncio.Future[Mapping[str, Any]]] = {}

    def through(self, caller: Caller, send: Callable[[bytes], Awaitable[None]]) -> Ask:
        """Return what asks the client of `caller` by `send`, which writes one message to it.

        What it returns raises TimeoutError when no response came in time (600 s if the request names no time).
        Cancellation: safe; a late response is dropped.
        """

        async def ask(
            method: str, params: Mapping[str, Any] | None, timeout_s: float | None
        ) -> Mapping[str, Any]:
            request_id = f"outlive-{secrets.token_hex(8)}"  # unlike any that clients count
            key = (caller.principal, caller.connection_id, request_id)
            question: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
            if params is not None:
                question["params"] = dict(params)
            future: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
            self._waiting[key] = future
            try:
                async with asyncio.timeout(_PATIENCE_S if timeout_s is None else timeout_s):
                    await send(orjson.dumps(question))
                    return await future
            finally:
                del self._waiting[key]

        return ask

    def settle(self, response: Message, caller: Caller) -> None:
        """Give a client's response to the request that waits for it; another response is dropped."""
        key = (caller.principal, caller.connection_id, str(response.request_id))
        future = self._waiting.get(key)
        if future is not None and not future.done():
            future.set_result(response.outcome)


# Adds handlers to the SDK's server (`mcp.server.lowlevel.Server`) after ours; the product itself passes none.
Extend = Callable[[Any], None]

_SDK_MODULE = "outlive.frontends.mcp.http.sdk"


class SdkServer(Protocol):
    """What the endpoint uses of `sdk.Sdk`, without importing it."""

    async def serve_modern(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request of 2026-07-28."""

    async def exchange(
        self,
        message: Message,
        caller: Caller,
        *,
        revision: str,
        notify: Callable[[bytes], Awaitable[None]] | None,
        ask: Ask | None = None,
    ) -> dict[str, Any]:
        """Serve one request of a handshake revision and return its JSON-RPC response."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """Be ready for `serve_modern` while the block runs."""
        ...


class SdkLoader:
    """Loads the SDK and keeps it running. `close` it in the end."""

    def __init__(self, build: Callable[[Any], SdkServer]) -> None:
        """Make the server by `build(module)` once the module is there."""
        self._build = build
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[SdkServer] | None = None

    async def get(self) -> SdkServer:
        """Return the running SDK; the first caller sets off the import, all wait for it.

        Cancellation: safe; the import goes on for the next one.
        """
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._run(self._ready), name="mcp sdk")
        return await asyncio.shield(self._ready)

    async def close(self) -> None:
        """Stop it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, ready: "asyncio.Future[SdkServer]") -> None:
        try:
            sdk = self._build(await asyncio.to_thread(importlib.import_module, _SDK_MODULE))
            async with sdk.running():
                ready.set_result(sdk)
                await asyncio.Event().wait()
        except Exception as error:
            if ready.done():
                raise
            self._ready = None  # the next request tries again
            ready.set_exception(error)


class HandshakeMessages:
    """Answers parsed messages; `close` lets go of the work whose clients have left."""

    def __init__(self, toolbox: Toolbox, calls: Calls, sessions: McpSessions, sdk: SdkLoader) -> None:
        """Join the parts, which the endpoint has opened before the first request."""
        self._toolbox = toolbox
        self._calls = calls
        self._plain_calls = PlainCalls(toolbox, calls)
        self._sessions = sessions
        self._sdk = sdk
        self._server_requests = ServerRequests()
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
        caller = Caller(access=exchange.access, project=exchange.project, asked_tools=exchange.tool_set)
        response = await sdk.exchange(message, caller, revision=_RAW_REVISION, notify=None)
        headers: Headers = ()
        if "result" in response:
            revision = response["result"]["protocolVersion"]
            session = self._sessions.begin(exchange.access.principal, revision, message.client_name)
            headers = (session.header,)
        await exchange.respond(orjson.dumps(response), headers)

    async def notification(self, exchange: HttpExchange, message: Message, session: McpSession) -> None:
        """Heed a cancel and a response; every other notification is only acknowledged."""
        if message.kind == "response":
            self._server_requests.settle(
                message, Caller(access=exchange.access, connection_id=session.connection_id)
            )
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
        """Answer a request; what it reports before goes the same way, as events."""
        if message.request_id is None:
            raise AssertionError("a request has an id")
        caller = _caller(exchange, session, message.request_id, message.traceparent)
        request = self._calls.expect(caller)  # before anything is awaited: a cancel must find it from now on
        accepted = exchange.accepted
        stream = EventStream(exchange.send)
        if exchange.is_raw and accepted.events and message.tool == BACKGROUND_TOOL:
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
                listener = notify if accepted.events else None
                if self._plain_calls.takes(message, caller):
                    return orjson.dumps(await self._plain_calls.answer(message, caller, listener))
                sdk = await self._sdk.get()
                response = await sdk.exchange(
                    message,
                    caller,
                    revision=exchange.revision or session.revision,
                    notify=listener,
                    # A raw caller may not know that a server can send requests.
                    ask=self._server_requests.through(caller, notify)
                    if listener and not exchange.is_raw
                    else None,
                )
                return orjson.dumps(response)

        response = await self._outlast(work(), exchange, stream)
        if response is None:
            request.status.has_left = True
            return
        if request.status.is_cancelled() and not exchange.is_raw:
            # A cancelled request gets no response (MCP revision 2025-11-25, "Cancellation"); the HTTP one ends empty.
            if accepted.events:
                await stream.write(b"", is_last=True)
            else:
                await exchange.answer(202)
        elif stream.has_begun:
            await stream.write(encode_event("message", response), is_last=True)
        else:
            await exchange.respond(response)

    async def _outlast(
        self, work: Coroutine[Any, Any, bytes], exchange: HttpExchange, stream: EventStream
    ) -> bytes | None:
        """Run `work` in a task of its own and return its answer; None when the client left, and `work` goes on.

        A lost connection is no cancel (MCP revision 2025-11-25, "Sending Messages to the Server").
        """
        task = asyncio.create_task(work, name="mcp exchange")
        self._works.add(task)
        task.add_done_callback(self._works.discard)
        leaving = asyncio.create_task(gone(exchange.receive), name="mcp exchange, the other end")
        try:
            if exchange.accepted.events:
                await stream.until_first({task, leaving})
            else:
                await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
        return task.result() if task.done() and not task.cancelled() else None


def _caller(
    exchange: HttpExchange, session: McpSession, request_id: str | int, traceparent: str = ""
) -> Caller:
    return Caller(
        access=exchange.access,
        connection_id=session.connection_id,
        request_id=str(request_id),
        is_raw=exchange.is_raw,
        project=exchange.project,
        asked_tools=exchange.tool_set,
        client=session.client,
        traceparent=traceparent or exchange.traceparent,
    )
