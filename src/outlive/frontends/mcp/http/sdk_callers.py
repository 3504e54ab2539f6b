"""Who makes a request, read from the SDK's context: the principal our endpoint named, and what the client declares."""

from dataclasses import replace
from typing import Any

from mcp.server.context import ServerRequestContext

from outlive.frontends.mcp.tools.calls import Caller
from outlive.protocols.mcp.tasks import TASKS_EXTENSION

CALLER = "outlive.mcp_caller"  # in the ASGI scope: who asks, without the request's id

Context = ServerRequestContext[dict[str, Any], Any]


def caller_of(context: Context) -> Caller:
    """Return the caller of one request. No handshake revision declares extensions for each request."""
    known: Caller = context.request.scope[CALLER]  # type: ignore[union-attr] # every request comes over HTTP
    capabilities = context.session.client_capabilities
    extensions = (capabilities.extensions if capabilities is not None else None) or {}
    return replace(known, request_id=str(context.request_id), has_tasks=TASKS_EXTENSION in extensions)
