"""Who may use the MCP door: its API key (promise S4.9.key) and what browsers ask before (CORS). Pure."""

import hmac

from starlette.types import Scope

from outlive.frontends.mcp_http.requests import header
from outlive.frontends.mcp_http.responses import Headers

__all__ = ["cors_headers", "has_key", "is_preflight"]


def has_key(scope: Scope, api_key: str) -> bool:
    """Tell whether a request carries the key, if one is asked for; the Unix socket is its owner's alone."""
    if not api_key or (scope.get("server") or (None, None))[1] is None:
        return True
    sent = [header(scope["headers"], b"x-api-key") or ""]
    authorization = header(scope["headers"], b"authorization") or ""
    scheme, _, word = authorization.partition(" ")
    sent.append(word.strip() if scheme.lower() == "bearer" else authorization)
    wanted = api_key.encode()
    return any([hmac.compare_digest(one.encode("latin-1"), wanted) for one in sent])  # noqa: C419 -- always both


def is_preflight(scope: Scope) -> bool:
    """Tell whether a browser asks what it may send (Fetch standard, "CORS-preflight request")."""
    return (
        scope["method"] == "OPTIONS"
        and header(scope["headers"], b"access-control-request-method") is not None
    )


def cors_headers(scope: Scope) -> Headers:
    """Return what lets a page read the answer. Foreign origins were refused before this (promise S4.10)."""
    origin = header(scope["headers"], b"origin")
    if origin is None:
        return ()
    allowed = (
        b"accept, authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, "
    )
    return (
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", allowed + b"mcp-session-id, x-api-key"),
        (b"access-control-expose-headers", b"mcp-session-id"),
        (b"vary", b"origin"),
    )
