"""The MCP frontend of the server: its route, and nothing else until the first request comes.

What serves it (`endpoint`, with all tools) takes 65 ms of processor time to import, a quarter of the server's
whole start; it arrives with the first request. A request that the server refuses before it is read is
answered here (`send_rpc_error`): with a JSON-RPC error without id (MCP 2025-11-25, "Transports").
"""

import asyncio
import importlib
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from outlive.core.hints import worded
from outlive.server.error_formats import Headers, send_json

PATHS = ("/mcp", "/mcp/")  # promise S4.1; some hosts add the slash
_SERVICE = "outlive.frontends.mcp.http.endpoint"


class McpService(Protocol):
    """What is used here of `endpoint.McpEndpoint`, without importing it."""

    async def open(self) -> None:
        """Be ready for requests."""

    async def close(self) -> None:
        """Let go of everything; ends no process."""

    def hang_up(self) -> None:
        """Let idle clients know that the server stops."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""


class McpHttpFrontend:
    """MCP over HTTP, an ASGI application.

    Serve `routes()` inside `async with frontend`, that inside `async with engine`.

    Leaving the block ends no process.
    """

    def __init__(self, build: Callable[[], McpService]) -> None:
        """Make the service by `build` at the first request; by then its module is there."""
        self._build = build
        self._opening = asyncio.Lock()
        self._service: McpService | None = None

    async def __aenter__(self) -> Self:
        """Begin."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of calls in flight."""
        if self._service is not None:
            await self._service.close()

    def hang_up(self) -> None:
        """Let idle clients know that the server stops; they come again."""
        if self._service is not None:
            self._service.hang_up()

    def routes(self) -> list[BaseRoute]:
        """Return what the application serves."""
        return [Route(path, self, name="mcp") for path in PATHS]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        service = await self.service()
        await service(scope, receive, send)

    async def service(self) -> McpService:
        """Return the open service, made now if this is the first request."""
        async with self._opening:
            if self._service is None:
                await asyncio.to_thread(importlib.import_module, _SERVICE)
                service = self._build()
                await service.open()
                self._service = service
        return self._service


_INVALID_REQUEST = -32600  # JSON-RPC 2.0, section 5.1


async def send_rpc_error(
    scope: Scope, send: Send, *, status: int, error: str, message: str, hint: str, headers: Headers = ()
) -> None:
    """Answer with a JSON-RPC error whose data has slug and hint, as over JSON-RPC."""
    data = {"reason": error, "hint": worded(error, hint, "mcp")}
    shown = {"code": _INVALID_REQUEST, "message": message, "data": data}
    body = {"jsonrpc": "2.0", "id": None, "error": shown}
    await send_json(scope, send, status=status, body=body, headers=headers)
