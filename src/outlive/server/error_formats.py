"""Errors over HTTP: the table from slug to status, the common JSON format, and `ErrorFormats`, which picks a
format by path.

The guard, the boundary and the front page answer before any frontend is reached. The format of their errors
follows from the path: problem details on REST's paths, JSON-RPC on MCP's, {"error", "message", "hint"}
everywhere else. Each frontend hands in its own format, so that no frontend imports another. What an error
means is decided where it is raised, never here.

Source of the statuses: RFC 9110, section 15 (421 is 15.5.20, 426 is 15.5.22).
"""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from starlette.types import Scope, Send

Headers = Sequence[tuple[bytes, bytes]]
CLOSE: Headers = ((b"connection", b"close"),)  # ends the HTTP connection after the answer

# Every error slug and its HTTP status. A test fails when a slug of `core.errors` is missing.
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
        "no_unfiltered": 409,
        "key_taken": 409,
        "name_invalid": 422,
        "name_taken": 409,
        "process_ambiguous": 409,
        "process_running": 409,
        "process_queued": 409,
        "command_denied": 403,
        "approval_denied": 403,
        "approval_expired": 403,
        "approval_changed": 409,
        "approval_settled": 409,
        "not_in_line": 409,
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
        "line_too_long": 422,
        "stdin_full": 503,
        "stdin_lost": 409,
        "secrets_lost": 409,
        "sandbox_unavailable": 422,
        "profile_too_weak": 403,
        "no_terminal": 409,
        "not_holder": 409,
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
        "node_busy": 409,
        "path_refused": 403,
        "file_missing": 404,
        "file_failed": 409,
        "file_changed": 409,
        "copy_unknown": 404,
        "batch_limit": 503,
        "copy_limit": 503,
        "no_room": 503,
        "process_limit": 503,
        "audit_unavailable": 503,
        "disk_full": 507,
        "disk_silent": 503,
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
        "protocol_mismatch": 502,
        "state_folder": 500,
        "state_format": 500,
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
        # Without this ASGI extension a refused upgrade is always 403: close code 1008 (policy violation) says
        # the same.
        if "websocket.http.response" not in (scope.get("extensions") or {}):
            await send({"type": "websocket.close", "code": 1008})
            return
        prefix = "websocket."
    raw = json.dumps(body, default=str).encode() + b"\n"
    all_headers = [
        (b"content-type", media_type.encode()),
        (b"content-length", str(len(raw)).encode()),
        # Answers hold output and process ids: no proxy or browser may keep them, or guess another content
        # type.
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        *headers,
    ]
    await send({"type": f"{prefix}http.response.start", "status": status, "headers": all_headers})
    await send({"type": f"{prefix}http.response.body", "body": b"" if _is_head(scope) else raw})


def _is_head(scope: Scope) -> bool:
    """Tell whether the answer has headers only (RFC 9110, section 9.3.2).

    Its length stays that of the body.
    """
    return scope.get("method") == "HEAD"


class SendError(Protocol):
    """Answers a request or an upgrade with an error, as `send_error` does."""

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
    """A `SendError` that picks the format by the request's path."""

    def __init__(self, by_path: Mapping[str, SendError]) -> None:
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
        """Answer in the path's own format."""
        shape = self._shape(str(scope.get("path", "")))
        await shape(scope, send, status=status, error=error, message=message, hint=hint, headers=headers)

    def _shape(self, path: str) -> SendError:
        found = self._exact.get(path)
        if found is not None:
            return found
        return next((shape for prefix, shape in self._below.items() if path.startswith(prefix)), send_error)
