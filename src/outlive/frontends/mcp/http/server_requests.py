"""Requests of the server to a client: `Asking`, the ones that wait for their response.

A question leaves on the answer of the request that it belongs to; the response comes as a POST of its own
(MCP revision 2025-11-25, "Transports"). Nothing of it outlives the server: who asks is a request in flight.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from outlive.frontends.mcp.http.requests import Message
from outlive.frontends.mcp.tools.calls import Caller

# (method, params, seconds) -> the client's response: an object with `result` or `error`.
Ask = Callable[[str, Mapping[str, Any] | None, float | None], Awaitable[Mapping[str, Any]]]

_PATIENCE_S = 600.0  # a person may have to answer; nobody waits for one who has left for ever
_Key = tuple[str, str | None, str]


class Asking:
    """Questions in flight, by (principal, MCP session, our request id). Only the event loop uses it."""

    def __init__(self) -> None:
        """Begin with none."""
        self._waiting: dict[_Key, asyncio.Future[Mapping[str, Any]]] = {}

    def through(self, caller: Caller, send: Callable[[bytes], Awaitable[None]]) -> Ask:
        """Return what asks the client of `caller` by `send`, which writes one message to it.

        What it returns raises TimeoutError when no response came in time (600 s unless told otherwise).
        Cancellation: safe; a late response is then nobody's.
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

    def hear(self, response: Message, caller: Caller) -> None:
        """Give a client's response to who waits for it; what nobody asked is dropped."""
        key = (caller.principal, caller.connection_id, str(response.request_id))
        future = self._waiting.get(key)
        if future is not None and not future.done():
            future.set_result(response.outcome)
