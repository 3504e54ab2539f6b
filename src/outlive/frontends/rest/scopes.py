"""How much a caller must be allowed for each REST route: `SCOPES`, and `check_scope`, which every route depends on.

A route without a line here needs the widest scope: a forgotten one is closed, not open.
"""

from collections.abc import Mapping
from types import MappingProxyType

from fastapi.requests import HTTPConnection

from outlive.policy.access import Scope
from outlive.server.access.guard import access_of

_ONE = "/v1/processes/{process_id}"
_TERMINAL = "/v1/terminals/{terminal_id}"
_ASYNC = "/api/async"
_WEBSOCKET = "WEBSOCKET"  # in the place of the method

_ROUTES: Mapping[tuple[str, str], Scope] = MappingProxyType(
    {
        ("POST", "/v1/processes"): Scope.RUN,
        ("GET", "/v1/processes"): Scope.READ,
        ("GET", _ONE): Scope.READ,
        ("PATCH", _ONE): Scope.RUN,
        ("DELETE", _ONE): Scope.RUN,
        ("POST", f"{_ONE}/control"): Scope.RUN,
        ("POST", f"{_ONE}/signal"): Scope.RUN,
        ("POST", f"{_ONE}/resize"): Scope.RUN,
        ("POST", f"{_ONE}/stdin"): Scope.RUN,
        ("GET", f"{_ONE}/wait"): Scope.READ,
        ("GET", f"{_ONE}/output"): Scope.READ,
        ("GET", f"{_ONE}/follow"): Scope.READ,
        (_WEBSOCKET, f"{_ONE}/follow"): Scope.READ,
        ("GET", "/v1/terminals"): Scope.READ,
        ("POST", "/v1/terminals"): Scope.RUN,
        ("GET", _TERMINAL): Scope.READ,
        ("DELETE", _TERMINAL): Scope.RUN,
        ("POST", f"{_TERMINAL}/execute"): Scope.RUN,
        ("GET", f"{_TERMINAL}/output"): Scope.READ,
        ("POST", f"{_TERMINAL}/input"): Scope.RUN,
        ("POST", f"{_TERMINAL}/resize"): Scope.RUN,
        ("GET", "/v1/approvals"): Scope.ADMIN,
        ("POST", "/v1/approvals/{process_id}/approve"): Scope.ADMIN,
        ("POST", "/v1/approvals/{process_id}/deny"): Scope.ADMIN,
        ("POST", f"{_ASYNC}/process/terminate_by_pid/"): Scope.RUN,
        ("GET", f"{_ASYNC}/processes/list/"): Scope.READ,
        ("POST", f"{_ASYNC}/execute/background/"): Scope.RUN,
        ("GET", f"{_ASYNC}/process/{{process_id}}/"): Scope.READ,
        ("POST", f"{_ASYNC}/process/terminate/{{process_id}}/"): Scope.RUN,
        ("POST", "/api/sync/execute/"): Scope.RUN,
        ("GET", "/healthz"): Scope.READ,
        ("GET", "/readyz"): Scope.READ,
        ("GET", "/openapi.json"): Scope.HELLO,  # static pages (`frontends.web_pages`)
        ("GET", "/docs"): Scope.HELLO,
    }
)
# The documented paths are answered without their last slash, too.
SCOPES: Mapping[tuple[str, str], Scope] = MappingProxyType(
    {(method, path.removesuffix("/")): scope for (method, path), scope in _ROUTES.items()} | dict(_ROUTES)
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
