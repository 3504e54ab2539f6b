"""In which shape a caller is told an error that no door has answered: `ErrorFormats`, the one place that decides.

Guard, boundary and front page answer before or beside the doors. What they say belongs to the path: problems on REST's,
JSON-RPC on MCP's, plain JSON everywhere else. The doors bring their shapes; they do not know each other.

Answers that every HTTP door gives in the same shape: {"error", "message", "hint"} with the right status.

Owns the table from error slug to HTTP status (RFC 9110, section 15; 421 is 15.5.20, 426 is 15.5.22).
"""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from starlette.types import Scope, Send

Headers = Sequence[tuple[bytes, bytes]]
CLOSE: Headers = ((b"connection", b"close"),)  # ends the HTTP connection after the answer

STATUS: Mapping[str, int] = MappingProxyType(
    {
        "command_not_allowed": 403,
        "command_opaque": 403,
        "foreign_origin": 403,
        "foreign_host": 421,
        "foreign_user": 403,
        "key_missing": 401,
        "token_missing": 401,
        "token_invalid": 401,
        "inside_process": 401,
        "caller_undetermined": 503,
        "token_not_found": 404,
        "not_owner": 403,
        "scope_missing": 403,
        "invalid_params": 422,
        "invalid_cursor": 422,
        "process_ambiguous": 409,
        "process_running": 409,
        "process_queued": 409,
        "command_denied": 403,
        "approval_denied": 403,
        "approval_expired": 403,
        "approval_changed": 409,
        "approval_settled": 409,
        "approval_limit": 503,
        "process_not_found": 404,
        "no_process": 404,
        "terminal_busy": 409,
        "terminal_not_found": 404,
        "terminal_not_ours": 409,
        "no_terminal_host": 409,
        "command_incomplete": 422,
        "process_ended": 409,
        "stdin_closed": 409,
        "stdin_full": 503,
        "stdin_lost": 409,
        "secrets_lost": 409,
        "sandbox_unavailable": 422,
        "profile_too_weak": 403,
        "no_terminal": 409,
        "terminal_limit": 503,
        "extension_away": 503,
        "extension_lost": 503,
        "extension_failed": 409,
        "cwd_missing": 422,
        "not_found": 422,
        "permission_denied": 422,
        "argument_too_long": 422,
        "start_failed": 500,
        "docker_unavailable": 503,
        "docker_timeout": 504,
        "image_missing": 422,
        "container_failed": 500,
        "mount_failed": 422,
        "mount_refused": 403,
        "connection_limit": 503,
        "rate_limited": 429,
        "process_limit": 503,
        "audit_unavailable": 503,
        "disk_full": 507,
        "read_only": 507,
        "folder_gone": 503,
        "keeper_unavailable": 503,
        "node_unavailable": 503,
        "start_unanswered": 504,
        "keeper_restarted": 503,
        "server_lost": 503,
        "server_unavailable": 503,
        "timeout": 504,
        "stream_timeout": 504,
        "parse_error": 400,
        "invalid_request": 400,
        "method_not_found": 404,
        "binary_frame": 400,
        "cursor_expired": 410,
        "store_corrupt": 500,
        "config_invalid": 500,
        "state_folder": 500,
        "port_taken": 500,
        "server_running": 500,
        "unsupported_platform": 500,
        "internal_error": 500,
    }
)


async def send_error(
    scope: Scope,
    send: Send,
    *,
    status: int,
    error: str,
    message: str,
    hint: str,
    headers: Headers = (),
) -> None:
    """Answer a request or a WebSocket upgrade with an error."""
    body = {"error": error, "message": message, "hint": hint}
    await send_json(scope, send, status=status, body=body, headers=headers)


async def send_json(
    scope: Scope,
    send: Send,
    *,
    status: int,
    body: Mapping[str, object],
    headers: Headers = (),
    media_type: str = "application/json",
) -> None:
    """Answer a request, or refuse a WebSocket upgrade with a real status where the server can do that."""
    prefix = ""
    if scope["type"] == "websocket":
        if "websocket.http.response" not in (scope.get("extensions") or {}):
            await send({"type": "websocket.close", "code": 1008})
            return
        prefix = "websocket."
    raw = json.dumps(body).encode() + b"\n"
    all_headers = [
        (b"content-type", media_type.encode()),
        (b"content-length", str(len(raw)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        *headers,
    ]
    await send({"type": f"{prefix}http.response.start", "status": status, "headers": all_headers})
    await send({"type": f"{prefix}http.response.body", "body": b"" if _is_head(scope) else raw})


def _is_head(scope: Scope) -> bool:
    return scope.get("method") == "HEAD"


class SendError(Protocol):
    """Answers a request or an upgrade with an error, as `answers.send_error` does."""

    async def __call__(
        self,
        scope: Scope,
        send: Send,
        *,
        status: int,
        error: str,
        message: str,
        hint: str,
        headers: Headers = (),
    ) -> None:
        """Send it."""


class ErrorFormats:
    """A `SendError` that speaks as the path demands."""

    def __init__(self, by_path: Mapping[str, SendError]) -> None:
        """Take the shapes by path; one that ends in "/" counts for everything below it."""
        self._exact = {path: shape for path, shape in by_path.items() if not path.endswith("/")}
        self._below = {path: shape for path, shape in by_path.items() if path.endswith("/")}

    async def __call__(
        self,
        scope: Scope,
        send: Send,
        *,
        status: int,
        error: str,
        message: str,
        hint: str,
        headers: Headers = (),
    ) -> None:
        """Answer in the path's own shape."""
        shape = self._shape(str(scope.get("path", "")))
        await shape(scope, send, status=status, error=error, message=message, hint=hint, headers=headers)

    def _shape(self, path: str) -> SendError:
        found = self._exact.get(path)
        if found is not None:
            return found
        return next((shape for prefix, shape in self._below.items() if path.startswith(prefix)), send_error)
