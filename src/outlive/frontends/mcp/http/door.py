"""The MCP door of the server: its route, and nothing else until somebody asks.

What serves it (`service`, with all tools) takes 65 ms of processor time to import, a quarter of the server's whole
start; it arrives with the first request.

What the MCP door over HTTP must be told.

How MCP callers are told that nobody has read their request: a JSON-RPC error without id (MCP 2025-11-25, "Transports").
"""

import asyncio
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from outlive.core.hints import worded
from outlive.server.error_formats import Headers, send_json

PATH = "/mcp"  # promise S4.1
_SERVICE = "outlive.frontends.mcp.http.service"


class McpService(Protocol):
    """What the door uses of `service.McpHttpService`, without importing it."""

    async def open(self) -> None:
        """Be ready for requests."""

    async def close(self) -> None:
        """Let go of everything; ends no process."""

    def hang_up(self) -> None:
        """Let idle clients know that the server stops."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""


class McpHttpFrontend:
    """MCP over HTTP. Serve `routes()` inside `async with door`, that inside `async with engine`.

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
        return [Route(PATH, _Endpoint(self), name="mcp")]

    async def service(self) -> McpService:
        """Return the open service, made now if this is the first request."""
        async with self._opening:
            if self._service is None:
                await asyncio.to_thread(importlib.import_module, _SERVICE)
                service = self._build()
                await service.open()
                self._service = service
        return self._service


class _Endpoint:
    """The door as an ASGI application: an object, because Starlette wraps functions."""

    def __init__(self, door: McpHttpFrontend) -> None:
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = await self._door.service()
        await service(scope, receive, send)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpHttpSettings:
    """Times are seconds, sizes bytes."""

    version: str
    max_message_bytes: int = 16 * 1024 * 1024
    termination_timeout_s: float = 30.0


_INVALID_REQUEST = -32600  # JSON-RPC 2.0, section 5.1


async def send_rpc_error(
    scope: Scope, send: Send, *, status: int, error: str, message: str, hint: str, headers: Headers = ()
) -> None:
    """Answer with a JSON-RPC error whose data has slug and hint, as on the JSON-RPC door."""
    data = {"reason": error, "hint": worded(error, hint, "mcp")}
    shown = {"code": _INVALID_REQUEST, "message": message, "data": data}
    body = {"jsonrpc": "2.0", "id": None, "error": shown}
    await send_json(scope, send, status=status, body=body, headers=headers)
