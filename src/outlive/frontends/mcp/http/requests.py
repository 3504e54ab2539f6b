"""What one HTTP request to /mcp says, and the forms of its answer: a JSON body, or a stream of server-sent events. Bytes to ASGI.

Here are the header rules and the JSON-RPC envelope (`parse_message`), `HttpExchange` and `EventStream`; what messages mean is not
known here. Waiting for a slow client is the server's `send`; nothing is queued.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs

import orjson
from starlette.types import Receive, Scope, Send

from outlive.core.errors import InvalidRequest
from outlive.frontends.mcp.tools.calls import Project
from outlive.operations.tool_sets import TOOL_SETS, ToolSet
from outlive.policy.access import Access
from outlive.protocols.sse import COMMENT, encode_event
from outlive.protocols.trace_context import traceparent_in, traceparent_of

# The revisions with an initialize handshake; whatever else a header names is the SDK's to judge.
HANDSHAKE_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_ENVELOPE_KEY = "io.modelcontextprotocol/protocolVersion"  # in `_meta` of every request from 2026-07-28 on

_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600


@dataclass(frozen=True, slots=True)
class InvalidMessage:
    """A body that is no message: the JSON-RPC error that answers it, with the id where one was seen."""

    code: int
    message: str
    request_id: str | int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One JSON-RPC message. `request_id` has the type it was sent with; notifications have none.

    `outcome`: of a response, the object with its `result` or `error`; empty otherwise.
    """

    kind: Literal["request", "notification", "response"]
    method: str = ""
    params: Mapping[str, Any] | None = None
    request_id: str | int | None = None
    outcome: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_enveloped(self) -> bool:
        """Whether it says of itself that it belongs to a revision without handshake."""
        meta = (self.params or {}).get("_meta")
        return isinstance(meta, dict) and _ENVELOPE_KEY in meta and self.method != "initialize"

    @property
    def tool(self) -> str | None:
        """The tool that it calls; None for everything but tools/call."""
        name = (self.params or {}).get("name") if self.method == "tools/call" else None
        return name if isinstance(name, str) else None

    @property
    def client_name(self) -> str:
        """The name of the program that sends an `initialize`; empty where it says none."""
        info = (self.params or {}).get("clientInfo")
        name = info.get("name") if isinstance(info, dict) else None
        return name if isinstance(name, str) else ""

    @property
    def traceparent(self) -> str:
        """The valid `traceparent` of its `_meta`; "" for none."""
        return traceparent_in(self.params)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the tool; empty when they are missing or no object."""
        found = (self.params or {}).get("arguments")
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the caller takes as an answer."""

    json: bool
    events: bool


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


def accepted_of(accept: str | None, *, is_raw: bool) -> Accepted:
    """Return what an Accept header asks for (RFC 9110, section 12.5.1, without weights).

    A raw caller gets JSON unless it names event streams and not JSON; where both are named, a background call is
    answered with events and every other one with JSON (promises S4.3, S4.11).
    """
    names = {part.partition(";")[0].strip().lower() for part in (accept or "").split(",")}
    if is_raw:
        events = "text/event-stream" in names
        return Accepted(
            json=not events or bool(names & {"application/json", "application/*", "*/*"}), events=events
        )
    return Accepted(
        json=bool(names & {"application/json", "application/*", "*/*"}),
        events=bool(names & {"text/event-stream", "text/*", "*/*"}),
    )


def parse_message(body: bytes) -> Message | InvalidMessage:
    """Return the one message of a body. Batches are of one old revision only and are refused. Never raises."""
    try:
        raw = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return InvalidMessage(_PARSE_ERROR, f"Parse error: {error}")
    if not isinstance(raw, dict):
        return InvalidMessage(_INVALID_REQUEST, "The body is one JSON-RPC message: a JSON object.")
    request_id = raw.get("id")
    if "id" in raw and (isinstance(request_id, bool) or not isinstance(request_id, str | int)):
        return InvalidMessage(_INVALID_REQUEST, "The id of a request is a string or a whole number.")
    if raw.get("jsonrpc") != "2.0":
        return InvalidMessage(_INVALID_REQUEST, 'A message carries "jsonrpc": "2.0".', request_id)
    if "method" not in raw:
        if request_id is not None and ("result" in raw) != ("error" in raw):
            return Message(kind="response", request_id=request_id, outcome=raw)
        return InvalidMessage(_INVALID_REQUEST, "A request names its method.", request_id)
    method, params = raw["method"], raw.get("params")
    if not isinstance(method, str) or not (params is None or isinstance(params, dict)):
        return InvalidMessage(
            _INVALID_REQUEST, "The method is a string, the params are an object.", request_id
        )
    kind: Literal["request", "notification"] = "notification" if request_id is None else "request"
    return Message(kind=kind, method=method, params=params, request_id=request_id)


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
        """Write to `send`, beginning with the first `write`; `headers` come on top of those of an event stream.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpExchange:
    """The ASGI parts of a request and what its headers say.

    `project` is where the host of its relay works; `tool_set` is what the address names (`/mcp?tools=lean`), None where it names none.
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

    async def refuse(
        self,
        status: int,
        message: str,
        *,
        code: int = _INVALID_REQUEST,
        request_id: str | int | None = None,
        headers: Headers = (),
        **more: object,
    ) -> None:
        """Answer with a JSON-RPC error; `more` are further members of its `error`."""
        error = {"code": code, "message": message, **more}
        await self.answer(status, orjson.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}), headers)

    async def respond(self, response: bytes, headers: Headers = ()) -> None:
        """Answer a message with its response, in the form that the caller accepts."""
        if self.accepted.json:
            await self.answer(200, response, headers)
        else:
            stream = EventStream(self.send, headers)
            await stream.write(encode_event("message", response), is_last=True)

    async def body(self, limit_bytes: int) -> bytes | None:
        """Return the whole body; None when it is too large (then it was refused: 413) or the client has left."""
        pieces: list[bytes] = []
        size = 0
        while True:
            event = await self.receive()
            if event["type"] == "http.disconnect":
                return None
            pieces.append(event.get("body", b""))
            size += len(pieces[-1])
            if size > limit_bytes:
                await self.refuse(413, f"The body is larger than {limit_bytes} bytes.")
                return None
            if not event.get("more_body"):
                return b"".join(pieces)
