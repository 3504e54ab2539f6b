"""What a page of this machine may say to /mcp without a token: `greeting`, the scope hello (promise S4.10, decision 72)."""

from dataclasses import replace

import orjson
from starlette.types import Message as AsgiMessage

from outlive.frontends.mcp.http.exchange import HttpExchange
from outlive.frontends.mcp.http.requests import Message, parse_message
from outlive.policy.access import PAGE_HINT

# `server/discover` is what 2026-07-28 has in the place of initialize; the notification ends the handshake of the others.
_METHODS = frozenset({"initialize", "notifications/initialized", "ping", "server/discover", "tools/list"})
_INVALID_REQUEST = -32600


async def greeting(exchange: HttpExchange, limit_bytes: int) -> HttpExchange | None:
    """Return the same exchange, to be answered as every other one; None when it was refused, or its client has left."""
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
    error = {
        "code": _INVALID_REQUEST,
        "message": f"A web page without a token may not do this here ({asked[:40]}).",
        "data": {"reason": "scope_missing", "hint": PAGE_HINT},
    }
    await exchange.answer(403, orjson.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}))
