"""HTTP answers of the MCP door: one JSON body, or a stream of server-sent events (`EventStream`).

Owns bytes to ASGI. Waiting for a slow client is the server's `send`; nothing is queued here.

One HTTP request to /mcp and its answer: `HttpExchange`. Bytes and headers; what messages mean is not known here.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from outlive.frontends.mcp.http.requests import Wants
from outlive.policy.access import Access
from outlive.protocols.sse import COMMENT, encode_event

Headers = Sequence[tuple[bytes, bytes]]

# MCP revision 2025-11-25, "Transports": proxies must neither store nor hold back events.
_EVENT_HEADERS: Headers = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
_QUIET_S = 15.0  # the longest silence on an event stream: below every proxy's usual minute of patience


def error_body(code: int, message: str, request_id: str | int | None = None) -> bytes:
    """Return a JSON-RPC error response."""
    error = {"code": code, "message": message}
    return orjson.dumps({"jsonrpc": "2.0", "id": request_id, "error": error})


async def send_body(send: Send, *, status: int, body: bytes = b"", headers: Headers = ()) -> None:
    """Answer with one JSON body, or with none."""
    all_headers = [(b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store"), *headers]
    if body:
        all_headers += [(b"content-type", b"application/json"), (b"x-content-type-options", b"nosniff")]
    if status == 204:
        del all_headers[0]  # RFC 9110, section 8.6: no length with 204
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})


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


_INVALID_REQUEST = -32600


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpExchange:
    """The ASGI parts of a request and what its headers say."""

    scope: Scope
    receive: Receive
    send: Send
    access: Access
    revision: str | None
    wants: Wants

    @property
    def is_raw(self) -> bool:
        """Whether the caller is no official client: it names no revision."""
        return self.revision is None

    async def answer(self, status: int, body: bytes = b"", headers: Headers = ()) -> None:
        """Answer with one JSON body, or with none."""
        await send_body(self.send, status=status, body=body, headers=headers)

    async def refuse(self, status: int, message: str, *, code: int = _INVALID_REQUEST) -> None:
        """Answer with a JSON-RPC error that belongs to no message."""
        await self.answer(status, error_body(code, message))

    async def respond(self, response: bytes, headers: Headers = ()) -> None:
        """Answer a message with its response, in the form that the caller accepts."""
        if self.wants.json:
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
