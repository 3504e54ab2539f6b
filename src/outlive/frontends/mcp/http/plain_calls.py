"""tools/call of a handshake revision without the SDK: `PlainCalls`, for our own tools and the shape that all send.

The SDK reads every call into models and shapes every result by models: a fifth of the processor time that the server
spends on a short command (decision 32). What it would find for a plain call is known: this answers the same. Whatever
else a call may look like is the SDK's to judge.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from outlive.frontends.mcp.http.calls import Calls
from outlive.frontends.mcp.http.requests import Message
from outlive.frontends.mcp.tools.calls import Caller, Outcome
from outlive.frontends.mcp.tools.contract import Toolbox

_logger = logging.getLogger(__name__)
_INTERNAL_ERROR = -32603
_PARAMS = frozenset({"name", "arguments", "_meta"})
_META = frozenset({"progressToken"})


class PlainCalls:
    """Answers plain calls of the tools of a toolbox."""

    def __init__(self, toolbox: Toolbox, calls: Calls) -> None:
        """Take the tools and what runs them."""
        self._calls = calls
        self._names = frozenset(str(definition["name"]) for definition in toolbox.definitions())

    def takes(self, message: Message) -> bool:
        """Tell whether a message is a plain call: one of our tools, arguments, at most a progress token."""
        if message.method != "tools/call" or message.tool not in self._names:
            return False
        params = message.params or {}
        meta = params.get("_meta", {})
        return (
            params.keys() <= _PARAMS
            and isinstance(params.get("arguments", {}), dict)
            and isinstance(meta, dict)
            and meta.keys() <= _META
            and type(meta.get("progressToken", 0)) in {int, str}  # not bool, which is an int to isinstance
        )

    async def answer(
        self, message: Message, caller: Caller, notify: Callable[[bytes], Awaitable[None]] | None
    ) -> dict[str, Any]:
        """Carry out a call that `takes` takes and return its JSON-RPC response; `notify` sends its notifications.

        Cancellation: stops what the call started, unless it runs in the background.
        """
        token = (message.params or {}).get("_meta", {}).get("progressToken")
        count = 0

        async def progress(text: str) -> None:
            nonlocal count
            count += 1  # the number must grow; how far a command is, nobody knows
            if notify is not None:
                params = {"progressToken": token, "progress": count, "message": text}
                told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
                await notify(orjson.dumps(told))

        response: dict[str, Any] = {"jsonrpc": "2.0", "id": message.request_id}
        try:
            outcome = await self._calls.call(
                message.tool or "", message.arguments, caller, None if token is None else progress
            )
            response["result"] = result_of(outcome)
        except Exception as error:  # noqa: BLE001 -- the door's boundary: logged, and told by a reference
            response["error"] = unexpected(error)
        return response


def result_of(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome that is no task as a CallToolResult (MCP revision 2025-11-25, "Tools")."""
    result: dict[str, Any] = {
        "content": [{"type": "text", "text": outcome.text}],
        "isError": outcome.is_error,
    }
    if outcome.structured is not None:
        result["structuredContent"] = outcome.structured
    return result


def unexpected(error: Exception) -> dict[str, Any]:
    """Log an error that nobody foresaw and return the JSON-RPC error that names only the log's reference."""
    reference = secrets.token_hex(4)
    _logger.error("an MCP request failed", exc_info=error, extra={"reference": reference})
    return {"code": _INTERNAL_ERROR, "message": f"Something went wrong (reference {reference})."}
