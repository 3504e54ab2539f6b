"""What browsers ask before they send a page's request, and read before it sees the answer (CORS). Pure."""

from starlette.types import Scope

from outlive.frontends.mcp_http.requests import header
from outlive.frontends.mcp_http.responses import Headers

__all__ = ["cors_headers", "is_preflight"]


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
