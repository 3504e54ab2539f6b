"""The MCP endpoint over HTTP, `McpEndpoint`: POST, GET and DELETE /mcp as ASGI (promises S4.1-S4.6), for the
revisions of both eras.

A request goes one way: bytes to message, what its era asks of headers and session, `methods`, and the answer
as JSON or as events. Raw callers send no MCP-Protocol-Version header; the others name a revision with
sessions, or 2026-07-28, which has none. The work for a request of a session runs in a task that a lost
connection does not end; without sessions, closing the connection is the cancel. PUT takes where a relay's
host works (`Projects`). A page of this machine without a token may do little (`_GREETINGS`: the scope hello,
promise S4.10, decision 72).
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Coroutine
from typing import Any, TypeVar

import orjson
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from outlive.core.documents import checked_json
from outlive.core.errors import AccessDenied, CommandRefused, InvalidRequest, OutliveError
from outlive.core.layout import Layout
from outlive.core.values import replace
from outlive.engine.processes.output_redaction import hidden_value
from outlive.frontends.mcp.http.calls import Calls
from outlive.frontends.mcp.http.exchange import (
    EventStream,
    HttpExchange,
    accepted_of,
    encode_result,
    header,
    tool_set_of,
)
from outlive.frontends.mcp.http.methods import SERVER, McpMethod, McpRequest, method_table
from outlive.frontends.mcp.http.output_events import stream_background
from outlive.frontends.mcp.http.resources import OutputSubscribers, updated_message
from outlive.frontends.mcp.http.sessions import McpSession, McpSessions, Projects
from outlive.frontends.mcp.tools.calls import Caller
from outlive.frontends.mcp.tools.table import BACKGROUND_TOOL
from outlive.frontends.mcp.tools.toolbox import Toolbox
from outlive.policy.access import PAGE_HINT, Scope
from outlive.protocols.mcp.messages import (
    BATCH_REVISION,
    NEWEST_WITH_SESSIONS,
    PROJECT_HEADER,
    SESSION_REVISIONS,
    STATELESS_REVISION,
    Code,
    Declared,
    McpError,
    Message,
    check_stateless,
    read_initialize,
    read_message,
    stateless_result,
    stateless_status,
    unsupported,
)
from outlive.protocols.mcp.tasks import TASKS_EXTENSION
from outlive.protocols.mcp.texts import error_text
from outlive.protocols.request_ids import find_request_id
from outlive.protocols.sse import COMMENT, encode_event
from outlive.protocols.trace_context import traceparent_in
from outlive.server.access.guard import access_of

_logger = logging.getLogger(__name__)

# `server/discover` is what 2026-07-28 has in the place of initialize; the notification ends the handshake of
# the others.
_GREETINGS = frozenset({"initialize", "notifications/initialized", "ping", "server/discover", "tools/list"})
_RAW_INITIALIZE = {
    "protocolVersion": NEWEST_WITH_SESSIONS,
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "0"},
}
_Answer = TypeVar("_Answer")
_CLOSED_S = 0.1  # until a client's close of a connection is noticed: it may have begun anew with the same id
_MAX_BATCH = 1000  # as over JSON-RPC; their bytes are bounded by the body's size
_NO_BATCH = (
    f"A batch (a JSON array) is of a session of revision {BATCH_REVISION} alone: send one message "
    "per request."
)


class McpEndpoint:
    """MCP over HTTP, an ASGI application at /mcp. `open` it before the first request, `close` it in the end.

    Closing ends no process.

    Attributes:
        methods: What it answers.
    """

    def __init__(self, toolbox: Toolbox, layout: Layout, *, max_message_bytes: int) -> None:
        self._toolbox = toolbox
        self._max_message_bytes = max_message_bytes
        self._sessions = McpSessions(layout)
        self._projects = Projects()
        self._calls = Calls(toolbox)
        self._subscriptions = OutputSubscribers()
        self._works: set[asyncio.Task[Any]] = set()
        self._hung_up = asyncio.Event()
        self.methods = method_table(toolbox, self._calls, self._subscriptions)

    async def open(self) -> None:
        """Read the sessions' key."""
        await self._sessions.open()

    async def close(self) -> None:
        """Let go of calls in flight, and of requests whose clients have left."""
        await self._calls.close()
        for work in self._works:
            work.cancel()
        await asyncio.gather(*self._works, return_exceptions=True)

    def hang_up(self) -> None:
        """End the streams that clients only listen to: the server stops, and would wait for them.

        Their clients come again.
        """
        self._hung_up.set()
        self._subscriptions.hang_up()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        # The blanks around a value are no part of it (RFC 9110, section 5.5), and httptools leaves those
        # behind it.
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        scope = {**scope, "headers": headers}
        revision = header(headers, b"mcp-protocol-version")
        exchange = HttpExchange(
            scope=scope,
            receive=receive,
            send=send,
            access=access_of(scope),
            revision=revision,
            accepted=accepted_of(scope, is_raw=revision is None),
        )
        try:
            self._note_host(exchange)
            if scope["method"] == "POST":
                await self._post(exchange)
            else:
                await self._verb(exchange, scope["method"])
        except McpError as error:
            await exchange.refuse(self._finished(error))

    def _note_host(self, exchange: HttpExchange) -> None:
        """Take what the address and the relay say of a caller's host.

        Raises:
            McpError: There is no such tool set, or no such project here.
        """
        if query := exchange.scope.get("query_string", b""):
            try:
                exchange.tool_set = tool_set_of(query)
            except InvalidRequest as error:
                raise _refusal(error) from error
        # Before the revision is looked at: a command must never begin in the server's folder because its
        # project was lost.
        name = header(exchange.scope["headers"], PROJECT_HEADER.encode())
        if name is not None:
            exchange.project = self._projects.find(name, exchange.access.principal)
            if exchange.project is None:
                raise _invalid("This server does not know the project: send it again (PUT).", 412)

    async def _verb(self, exchange: HttpExchange, verb: str) -> None:
        _check_page(exchange, verb)
        if exchange.revision == STATELESS_REVISION:
            await exchange.refuse(_invalid("Method not allowed: POST is.", 405), [(b"allow", b"POST")])
        elif exchange.revision is not None and exchange.revision not in SESSION_REVISIONS:
            raise unsupported(exchange.revision, is_enveloped=False)
        elif verb == "GET":
            await self._get(exchange)
        elif verb == "DELETE":
            await self._delete(exchange)
        elif verb == "PUT" and exchange.media_type == "application/json":
            await self._put(exchange)  # of a relay; every other PUT is a mistake
        else:
            error = _invalid("Method not allowed: POST, GET and DELETE are.", 405)
            await exchange.refuse(error, [(b"allow", b"GET, POST, DELETE")])

    def _session(self, exchange: HttpExchange) -> McpSession:
        """Return the session that the request names.

        Raises:
            McpError: It names none (400), or an unknown one (404).
        """
        session_id = header(exchange.scope["headers"], b"mcp-session-id")
        if session_id is None:
            raise _invalid("Missing Mcp-Session-Id: call initialize and send the id it answers.")
        session = self._sessions.find(exchange.access.principal, session_id)
        if session is None:
            raise _invalid("Session not found: call initialize again.", 404)
        return session

    async def _get(self, exchange: HttpExchange) -> None:
        """Keep a stream open for what no request asked for: notifications of resources that the session has
        subscribed to.
        """
        _check_accept(has_form=exchange.accepted.events)
        session = self._session(exchange)
        stream = EventStream(exchange.send, (session.header,))
        await stream.write(COMMENT)
        caller = Caller(access=exchange.access, connection_id=session.connection_id)

        async def notify(uri: str) -> None:
            await stream.write(encode_event("message", updated_message(uri)))

        following = asyncio.create_task(
            self._subscriptions.of(caller).follow(notify), name="mcp stream, updates"
        )
        stopping = asyncio.create_task(self._hung_up.wait(), name="mcp stream, this end")
        try:
            await exchange.until_left(stopping, following, stream=stream)
            await stream.write(b"", is_last=True)
        finally:
            stopping.cancel()
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            self._subscriptions.release(caller)

    async def _delete(self, exchange: HttpExchange) -> None:
        session = self._session(exchange)
        await self._sessions.end(session)
        self._toolbox.engine.session_ends.end(session.connection_id)
        self._subscriptions.end(Caller(access=exchange.access, connection_id=session.connection_id))
        await exchange.answer(200)

    async def _put(self, exchange: HttpExchange) -> None:
        """Take where a host works, from its relay, and answer with the name for it."""
        try:
            exchange.access.require(Scope.RUN)  # only commands have a use for it
            name = self._projects.add(await exchange.body(self._max_message_bytes), exchange.access.principal)
        except AccessDenied as error:
            raise _refusal(error, 403) from error
        except ValueError as error:
            raise _invalid(f"This is no project: {error}.") from error
        await exchange.answer(200, orjson.dumps({"project": name}))

    async def _post(self, exchange: HttpExchange) -> None:
        if exchange.media_type != "application/json":
            raise _invalid("Unsupported media type: the body is application/json.", 415)
        body = await exchange.body(self._max_message_bytes)
        try:
            raw = orjson.loads(checked_json(body, max_bytes=self._max_message_bytes))
        except ValueError as error:
            text = f"Parse error: {error}"
            raise McpError(Code.PARSE_ERROR, text, request_id=find_request_id(body)) from error
        if isinstance(raw, list):
            await self._batch(exchange, raw)
            return
        message = read_message(raw)
        try:
            await self._message(exchange, message)
        except McpError as error:
            error.request_id = message.request_id
            raise

    async def _message(self, exchange: HttpExchange, message: Message) -> None:
        _check_page(exchange, message.method or message.kind)
        if message.is_enveloped and exchange.is_raw:
            sentence = "The request names a revision in _meta, but there is no MCP-Protocol-Version header."
            raise McpError(Code.HEADER_MISMATCH, sentence)
        _check_accept(has_form=bool(exchange.accepted))
        if exchange.revision is not None and exchange.revision not in SESSION_REVISIONS:
            await self._without_session(exchange, message)
        elif message.kind == "request" and message.method == "initialize":
            await self._begin_session(exchange, message)
        else:
            session = self._session(exchange)
            caller = _caller(exchange, message, session)
            if message.kind == "request":
                declared = Declared(revision=exchange.revision or session.revision)
                await self._request(exchange, message, caller, declared)
            else:
                await self.take(message, caller)
                is_raw_cancel = exchange.is_raw and message.method == "notifications/cancelled"
                await exchange.answer(204 if is_raw_cancel else 202)

    async def _without_session(self, exchange: HttpExchange, message: Message) -> None:
        """Serve a message of 2026-07-28, or refuse one of a revision that is not served."""
        declared = check_stateless(message, exchange.scope["headers"])
        if message.kind == "notification":
            await exchange.answer(202)
            return
        if message.method == "subscriptions/listen":
            _check_accept(has_form=exchange.accepted.events)  # its answer is a stream
        caller = replace(
            _caller(exchange, message, None),
            has_tasks=declared.has_extension(TASKS_EXTENSION),
            client=declared.client,
        )
        await self._request(exchange, message, caller, declared)

    async def _begin_session(self, exchange: HttpExchange, message: Message) -> None:
        if exchange.is_raw:
            message = replace(message, params={**_RAW_INITIALIZE, **message.params})
        try:
            declared = read_initialize(message.params)
        except McpError as error:
            error.status = 200
            raise
        request = self._expected(message, _caller(exchange, message, None), declared, None)
        _, response = await self._result(request)
        session = self._sessions.begin(exchange.access.principal, declared.revision, declared.client)
        await exchange.respond(response, headers=(session.header,))

    async def take(self, message: Message, caller: Caller) -> None:
        """Heed what is no request of a session: a cancel.

        All else is only acknowledged, since nothing is asked of clients.

        Raises:
            McpError: The caller may not end what it wants to cancel, or it cannot be ended now.
        """
        if message.cancels is not None:
            reason = message.params.get("reason")
            wanted = replace(caller, request_id=str(message.cancels))
            try:
                await self._calls.cancel(wanted, reason=reason if isinstance(reason, str) else "")
            except CommandRefused as error:
                raise _invalid(error_text(error), 403) from error
            except OutliveError as error:  # the keeper is away, say
                raise McpError(Code.INTERNAL_ERROR, error_text(error), status=503) from error

    async def _request(
        self, exchange: HttpExchange, message: Message, caller: Caller, declared: Declared
    ) -> None:
        """Answer a request; what it reports before goes the same way, as events."""
        stream = EventStream(exchange.send)
        if self._calls.is_in_use(caller):
            await asyncio.sleep(_CLOSED_S)
        # Before anything else is awaited: a cancel must find it from now on.
        request = self._expected(message, caller, declared, stream if exchange.accepted.events else None)
        if exchange.is_raw and exchange.accepted.events and _is_background_call(message):
            with contextlib.closing(request.in_flight):
                await stream_background(self._toolbox, request, stream, exchange)
            return
        answered = await self._outlast(self._work(request), exchange, stream, ends=request.is_stateless)
        if answered is None:
            request.in_flight.status.has_left = True
            return
        status, response = answered
        if exchange.is_raw or not request.in_flight.status.is_cancelled():
            await exchange.respond(response, status=status, stream=stream)
        # A cancelled request gets no response (MCP revision 2025-11-25, "Cancellation"); the HTTP one ends
        # empty.
        elif exchange.accepted.events:
            await stream.write(b"", is_last=True)
        else:
            await exchange.answer(202)

    async def _batch(self, exchange: HttpExchange, raw: list[object]) -> None:
        """Answer the messages of a batch, side by side, with one array (MCP revision 2025-03-26,
        "Transports").
        """
        is_named = header(exchange.scope["headers"], b"mcp-session-id") is not None
        session = self._session(exchange) if is_named else None
        if session is None or {exchange.revision or BATCH_REVISION, session.revision} != {BATCH_REVISION}:
            raise _invalid(_NO_BATCH)
        if not 0 < len(raw) <= _MAX_BATCH:
            raise _invalid(f"A batch has 1 to {_MAX_BATCH} messages.")
        _check_accept(has_form=bool(exchange.accepted))
        stream = EventStream(exchange.send)
        requests: list[McpRequest] = []
        responses: list[bytes] = []
        for one in raw:
            try:
                requests += await self._entry(exchange, session, stream, one)
            except McpError as error:
                responses.append(orjson.dumps(self._finished(error).response()))
        if not (requests or responses):
            await exchange.answer(202)
            return

        async def work() -> list[tuple[int, bytes]]:
            return await asyncio.gather(*map(self._work, requests))

        answered = await self._outlast(work(), exchange, stream, ends=False)
        if answered is None:
            for request in requests:
                request.in_flight.status.has_left = True
            return
        responses += [
            response
            for request, (_, response) in zip(requests, answered, strict=True)
            if exchange.is_raw or not request.in_flight.status.is_cancelled()
        ]
        if responses:
            await exchange.respond(b"[%b]" % b",".join(responses), stream=stream)
        # All were cancelled, and an empty array is no answer (JSON-RPC 2.0, section 6).
        elif stream.has_begun:
            await stream.write(b"", is_last=True)
        else:
            await exchange.answer(202)

    async def _entry(
        self, exchange: HttpExchange, session: McpSession, stream: EventStream, raw: object
    ) -> list[McpRequest]:
        """Return the request that an entry of a batch is; none for what has no answer, which is heeded.

        Raises:
            McpError: What answers it.
        """
        message = read_message(raw)
        caller = _caller(exchange, message, session)
        try:
            _check_page(exchange, message.method or message.kind)
            if message.method == "initialize":
                raise _invalid("A batch cannot begin a session.")
            if message.kind == "request":
                declared = Declared(revision=session.revision)
                return [
                    self._expected(message, caller, declared, stream if exchange.accepted.events else None)
                ]
            await self.take(message, caller)
        except McpError as error:
            error.request_id = message.request_id
            raise
        return []

    def _expected(
        self, message: Message, caller: Caller, declared: Declared, stream: EventStream | None
    ) -> McpRequest:
        """Return a request that a cancel finds from now on.

        Raises:
            McpError: Another request of the session has its id.
        """
        in_flight = self._calls.expect(caller)
        return McpRequest(
            message=message, caller=caller, declared=declared, in_flight=in_flight, stream=stream
        )

    async def _work(self, request: McpRequest) -> tuple[int, bytes]:
        with contextlib.closing(request.in_flight):
            return await self._result(request)

    async def _result(self, request: McpRequest) -> tuple[int, bytes]:
        """Return the response to a request, with the HTTP status that its revision gives it."""
        try:
            result = await self._method(request).answer(request)
            if request.is_stateless:
                result = stateless_result(request.message.method, result, SERVER)
            return 200, encode_result(request.message.request_id, result)
        except McpError as known:
            error = known
        except Exception:  # the endpoint's boundary: logged, and reported by a reference
            reference = secrets.token_hex(4)
            _logger.exception("an MCP request failed", extra={"reference": reference})
            error = McpError(Code.INTERNAL_ERROR, f"Something went wrong (reference {reference}).")
        error.request_id = request.message.request_id
        status = stateless_status(error.code) if request.is_stateless else 200
        return status, orjson.dumps(self._finished(error).response())

    def _finished(self, error: McpError) -> McpError:
        """Return an error as it is sent: a sentence may repeat words of the request, with their secrets."""
        hide = self._toolbox.engine.redaction.texts({})
        error.message, error.data = hide(error.message), hidden_value(error.data, hide)
        return error

    def _method(self, request: McpRequest) -> McpMethod:
        method = self.methods.get(request.message.method)
        if method is None or not (method.is_stateless if request.is_stateless else method.in_sessions):
            raise McpError(Code.METHOD_NOT_FOUND, "Method not found", request.message.method)
        return method

    async def _outlast(
        self, work: Coroutine[Any, Any, _Answer], exchange: HttpExchange, stream: EventStream, *, ends: bool
    ) -> _Answer | None:
        """Run `work` in a task of its own and return its answer; None when the client left.

        In a session a lost connection is no cancel, and `work` goes on (MCP revision 2025-11-25, "Sending
        Messages to the Server"); without one it `ends` then.
        """
        task = asyncio.create_task(work, name="mcp request")
        self._works.add(task)
        task.add_done_callback(self._works.discard)
        try:
            await exchange.until_left(task, stream=stream if exchange.accepted.events else None)
        finally:
            if ends and not task.done():
                task.cancel()
        return task.result() if task.done() and not task.cancelled() else None


def _caller(exchange: HttpExchange, message: Message, session: McpSession | None) -> Caller:
    return Caller(
        access=exchange.access,
        connection_id=None if session is None else session.connection_id,
        request_id=None if message.request_id is None else str(message.request_id),
        is_raw=exchange.is_raw,
        project=exchange.project,
        asked_tools=exchange.tool_set,
        client="" if session is None else session.client,
        traceparent=traceparent_in(message.params) or exchange.traceparent,
    )


def _is_background_call(message: Message) -> bool:
    return message.method == "tools/call" and message.params.get("name") == BACKGROUND_TOOL


def _invalid(sentence: str, status: int = 400) -> McpError:
    return McpError(Code.INVALID_REQUEST, sentence, status=status)


def _refusal(error: OutliveError, status: int = 400) -> McpError:
    data = {"reason": error.code, "hint": error.hint}
    return McpError(Code.INVALID_REQUEST, error.message, data, status=status)


def _check_accept(*, has_form: bool) -> None:
    """Let pass what takes an answer in a form that it comes in."""
    if not has_form:
        raise _invalid("Not acceptable: accept application/json and text/event-stream.", 406)


def _check_page(exchange: HttpExchange, asked: str) -> None:
    """Let pass what a page without a token may ask for; every other caller may ask for anything."""
    if exchange.access.scope is Scope.HELLO and asked not in _GREETINGS:
        text = f"A web page without a token may not do this here ({asked[:40]})."
        raise _refusal(AccessDenied("scope_missing", text, hint=PAGE_HINT), 403)
