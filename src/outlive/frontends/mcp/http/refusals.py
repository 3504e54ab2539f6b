"""How MCP callers are told that nobody has read their request: a JSON-RPC error without id (MCP 2025-11-25, "Transports")."""

from starlette.types import Scope, Send

from outlive.core.hints import worded
from outlive.server.errors.answers import Headers, send_json

_INVALID_REQUEST = -32600  # JSON-RPC 2.0, section 5.1


async def send_rpc_error(
    scope: Scope, send: Send, *, status: int, error: str, message: str, hint: str, headers: Headers = ()
) -> None:
    """Answer with a JSON-RPC error whose data has slug and hint, as on the JSON-RPC door."""
    data = {"reason": error, "hint": worded(error, hint, "mcp")}
    shown = {"code": _INVALID_REQUEST, "message": message, "data": data}
    body = {"jsonrpc": "2.0", "id": None, "error": shown}
    await send_json(scope, send, status=status, body=body, headers=headers)
