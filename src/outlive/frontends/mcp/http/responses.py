"""HTTP answers of the MCP door: one JSON body, or a stream of server-sent events (`EventStream`).

Owns bytes to ASGI. Waiting for a slow client is the server's `send`; nothing is queued here.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

import orjson
from starlette.types import Receive, Send

from outlive.protocols.sse import COMMENT

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
