"""How much a caller must be allowed for each REST route: `SCOPES`, and `check_scope`, which every route depends on.

A route without a line here needs the widest scope: a forgotten one is closed, not open.
"""

from collections.abc import Mapping
from types import MappingProxyType

from fastapi.requests import HTTPConnection

from outlive.operations.table import OPERATIONS
from outlive.policy.access import Scope
from outlive.server.access.guard import access_of

_ONE = "/v1/processes/{process_id}"
_TERMINAL = "/v1/terminals/{terminal_id}"
_ASYNC = "/api/async"
_WEBSOCKET = "WEBSOCKET"  # in the place of the method

# What a route does: the name of an operation, which says the scope.
_ROUTES: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("POST", "/v1/processes"): "execute",
        ("GET", "/v1/processes"): "list",
        ("GET", _ONE): "get",
        ("PATCH", _ONE): "relabel",
        ("DELETE", _ONE): "remove",
        ("POST", f"{_ONE}/control"): "control",
        ("POST", f"{_ONE}/signal"): "signal",
        ("POST", f"{_ONE}/resize"): "resize",
        ("POST", f"{_ONE}/stdin"): "write",
        ("GET", f"{_ONE}/wait"): "wait",
        ("GET", f"{_ONE}/output"): "read",
        ("GET", f"{_ONE}/follow"): "attach",
        (_WEBSOCKET, f"{_ONE}/follow"): "attach",
        ("GET", "/v1/terminals"): "terminal_list",
        ("POST", "/v1/terminals"): "terminal_create",
        ("GET", _TERMINAL): "terminal_list",
        ("DELETE", _TERMINAL): "terminal_close",
        ("POST", f"{_TERMINAL}/execute"): "terminal_execute",
        ("GET", f"{_TERMINAL}/output"): "terminal_read",
        ("POST", f"{_TERMINAL}/input"): "terminal_write",
        ("POST", f"{_TERMINAL}/resize"): "terminal_resize",
        ("GET", "/v1/approvals"): "approvals",
        ("POST", "/v1/approvals/{process_id}/approve"): "approve",
        ("POST", "/v1/approvals/{process_id}/deny"): "deny",
        ("POST", f"{_ASYNC}/process/terminate_by_pid/"): "control",
        ("GET", f"{_ASYNC}/processes/list/"): "list",
        ("POST", f"{_ASYNC}/execute/background/"): "execute",
        ("GET", f"{_ASYNC}/process/{{process_id}}/"): "get",
        ("POST", f"{_ASYNC}/process/terminate/{{process_id}}/"): "control",
        ("POST", "/api/sync/execute/"): "execute",
        ("GET", "/healthz"): "health",
        ("GET", "/readyz"): "health",
    }
)
# Static pages (`server.access.web_pages`): a link on any page may open them.
_PAGES = {("GET", "/openapi.json"): Scope.HELLO, ("GET", "/docs"): Scope.HELLO}
# The documented paths are answered without their last slash, too.
SCOPES: Mapping[tuple[str, str], Scope] = MappingProxyType(
    {
        (method, shown): OPERATIONS[name].scope
        for (method, path), name in _ROUTES.items()
        for shown in (path, path.removesuffix("/"))
    }
    | _PAGES
)


async def check_scope(connection: HTTPConnection) -> None:
    """Let a request pass whose caller may do that much; a dependency of every route.

    Raises:
        AccessDenied: `scope_missing`.
    """
    scope = connection.scope
    access_of(scope).require(scope_of(scope.get("method", _WEBSOCKET), scope["route"].path))


def scope_of(method: str, path: str) -> Scope:
    """Return what a route needs, named by its method and its path with the parameters' names."""
    return SCOPES.get((method, path), Scope.ADMIN)
