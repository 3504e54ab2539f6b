"""One HTTP request to /mcp and the forms of its answer: a JSON body, or a stream of server-sent events.

Bytes to ASGI.

What messages mean is not known here. Waiting for a slow client is the server's `send`; nothing is queued.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Any
from urllib.parse import parse_qs

import orjson
from starlette.types import Receive, Scope, Send

from outlive.core.errors import InvalidRequest
from outlive.core.values import dataclass
from outlive.frontends.mcp.tools.calls import Project
from outlive.operations.tool_sets import TOOL_SETS, ToolSet
from outlive.policy.access import Access
from outlive.protocols.mcp.messages import Code, McpError, MessageId
from outlive.protocols.sse import COMMENT, encode_event
from outlive.protocols.trace_context import traceparent_of
from outlive.server.access.web_pages import Accept

_EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the caller takes as an answer."""

    json: bool
    events: bool

    def __bool__(self) -> bool:
        """Tell whether it takes any answer at all."""
        return self.json or self.events


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """Return the value of the first header of that (lower-case) name; None when there is none."""
    return next((value.decode("latin-1").strip() for key, value in headers if key == name), None)


def tool_set_of(query: bytes) -> ToolSet | None:
    """Return the tool set that the query of an address names; None where it names none.

    Raises:
        InvalidRequest: There is no such set.
    """
    named = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("tools")
    if named is None:
        return None
    found = next((name for name in TOOL_SETS if name == named[-1]), None)
    if found is None:
        text = f"There is no tool set {named[-1][:40]!r}."
        raise InvalidRequest("invalid_params", text, hint=f"The sets are: {', '.join(TOOL_SETS)}.")
    return found


def accepted_of(scope: Scope, *, is_raw: bool) -> Accepted:
    """Return what the Accept headers of a request ask for.

    A raw caller gets events only where it names them, and JSON unless it names nothing else; where both are
    named, a background call is answered with events and every other one with JSON (promises S4.3, S4.11).
    """
    accept = Accept.of(scope)
    takes_json = accept.weight("application/json") > 0
    if is_raw:
        events = accept.named(_EVENTS) > 0
        return Accepted(json=takes_json or not events, events=events)
    return Accepted(json=takes_json, events=accept.weight(_EVENTS) > 0)


Headers = Sequence[tuple[bytes, bytes]]

# MCP revision 2025-11-25, "Transports": proxies must neither store nor hold back events.
_EVENT_HEADERS: Headers = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
_QUIET_S = 15.0  # the longest silence on an event stream: below every proxy's usual minute of patience


async def gone(receive: Receive) -> None:
    """Return when the client has closed the connection; the body was read before."""
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream:
    """One response of events. Writers may be several tasks; each call's bytes stay together.

    Attributes:
        has_begun: The head of the response is on its way.
    """

    __slots__ = ("_headers", "_lock", "_send", "_written_at", "has_begun")

    def __init__(self, send: Send, headers: Headers = ()) -> None:
        """Write to `send`, beginning with the first `write`; `headers` come on top of those of an event
        stream.

        Silence counts from now on.
        """
        self.has_begun = False
        self._send = send
        self._headers = headers
        self._lock = asyncio.Lock()
        self._written_at = asyncio.get_running_loop().time()

    async def write(self, events: bytes, *, is_last: bool = False) -> None:
        """Send events; returns when the transport takes more, and at once when the client is gone.

        Cancellation: the bytes may have been handed over or not.
        """
        async with self._lock:
            if not self.has_begun:
                headers = [*_EVENT_HEADERS, *self._headers]
                await self._send({"type": "http.response.start", "status": 200, "headers": headers})
                self.has_begun = True
            await self._send({"type": "http.response.body", "body": events, "more_body": not is_last})
            self._written_at = asyncio.get_running_loop().time()

    async def until_first(self, ends: Collection[asyncio.Task[Any]]) -> None:
        """Return when the first of `ends` is done; meanwhile something is written at least every 15 s.

        Cancellation: safe; `ends` go on.
        """
        clock = asyncio.get_running_loop().time
        while True:
            rest = self._written_at + _QUIET_S - clock()
            ended, _ = await asyncio.wait(ends, timeout=max(rest, 0.0), return_when=asyncio.FIRST_COMPLETED)
            if ended:
                return
            if clock() >= self._written_at + _QUIET_S:
                await self.write(COMMENT)


@dataclass(slots=True, kw_only=True)
class HttpExchange:
    """The ASGI parts of a request and what its headers say.

    `project` is where the host of its relay works; `tool_set` is what the address names (`/mcp?tools=lean`),
    None where it names none.
    """

    scope: Scope
    receive: Receive
    send: Send
    access: Access
    revision: str | None
    accepted: Accepted
    project: Project | None = None
    tool_set: ToolSet | None = None

    @property
    def traceparent(self) -> str:
        """The valid `traceparent` among its headers, "" for none: a message's own counts for more."""
        return traceparent_of(self.scope["headers"])

    @property
    def is_raw(self) -> bool:
        """Whether the caller is no official client: it names no revision."""
        return self.revision is None

    @property
    def media_type(self) -> str:
        """What its body is, without parameters, in lower case."""
        kind = header(self.scope["headers"], b"content-type") or ""
        return kind.partition(";")[0].strip().lower()

    async def until_left(self, *ends: asyncio.Task[Any], stream: EventStream | None) -> None:
        """Return when the first of `ends` is done, or the client has left; meanwhile a `stream` is kept from
        falling silent.

        Cancellation: safe; `ends` go on.
        """
        leaving = asyncio.create_task(gone(self.receive), name="mcp request, the other end")
        try:
            if stream is None:
                await asyncio.wait({*ends, leaving}, return_when=asyncio.FIRST_COMPLETED)
            else:
                await stream.until_first({*ends, leaving})
        finally:
            leaving.cancel()

    async def answer(self, status: int, body: bytes = b"", headers: Headers = ()) -> None:
        """Answer with one JSON body, or with none."""
        all_headers = [
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
            *headers,
        ]
        if body:
            all_headers += [(b"content-type", b"application/json"), (b"x-content-type-options", b"nosniff")]
        if status == 204:
            del all_headers[0]  # RFC 9110, section 8.6: no length with 204
        await self.send({"type": "http.response.start", "status": status, "headers": all_headers})
        await self.send({"type": "http.response.body", "body": body})

    async def refuse(self, error: McpError, headers: Headers = ()) -> None:
        """Answer with an error and its status."""
        await self.answer(error.status, orjson.dumps(error.response()), headers)

    async def respond(
        self, response: bytes, *, status: int = 200, headers: Headers = (), stream: EventStream | None = None
    ) -> None:
        """Answer with a response: in the form that the caller accepts, or on the stream where that has
        begun.
        """
        if self.accepted.json and not (stream is not None and stream.has_begun):
            await self.answer(status, response, headers)
        else:
            stream = EventStream(self.send, headers) if stream is None else stream
            await stream.write(encode_event("message", response), is_last=True)

    async def body(self, limit_bytes: int) -> bytes:
        """Return the whole body; b"" when the client has left, and reads no answer.

        Raises:
            McpError: It is too large (413).
        """
        pieces: list[bytes] = []
        size = 0
        while True:
            event = await self.receive()
            if event["type"] == "http.disconnect":
                return b""
            pieces.append(event.get("body", b""))
            size += len(pieces[-1])
            if size > limit_bytes:
                raise McpError(
                    Code.INVALID_REQUEST, f"The body is larger than {limit_bytes} bytes.", status=413
                )
            if not event.get("more_body"):
                return b"".join(pieces)


def encode_result(request_id: MessageId | None, result: object) -> bytes:
    """Return a JSON-RPC response."""
    return orjson.dumps({"jsonrpc": "2.0", "id": request_id, "result": result})
