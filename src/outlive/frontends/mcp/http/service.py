"""What serves /mcp once somebody asks: the endpoint with all its parts, opened and closed together."""

from typing import Any

from starlette.types import Receive, Scope, Send

from outlive.core.layout import Layout
from outlive.engine import Engine
from outlive.frontends.mcp.http.calls import Calls
from outlive.frontends.mcp.http.door import McpHttpSettings
from outlive.frontends.mcp.http.endpoint import McpEndpoint
from outlive.frontends.mcp.http.sdk_loader import Extend, SdkLoading, SdkServer
from outlive.frontends.mcp.http.sessions import McpSessions
from outlive.frontends.mcp.tools.toolbox import Toolbox

_INSTRUCTIONS = (
    "Runs commands that outlive whoever asked for them. A call that takes long answers with an id: read, wait and "
    "list find the command again, also after a restart."
)


class McpHttpService:
    """MCP over HTTP, an ASGI application. `open` it before the first request, `close` it in the end.

    Closing ends no process.
    """

    def __init__(
        self,
        engine: Engine,
        toolbox: Toolbox,
        layout: Layout,
        settings: McpHttpSettings,
        *,
        extend: Extend | None = None,
    ) -> None:
        """Offer the tools of `toolbox`, and what `extend` adds to the SDK's server; nothing runs yet."""
        self._extend = extend
        self._toolbox = toolbox
        self._settings = settings
        self._sessions = McpSessions(layout)
        self._calls = Calls(engine, toolbox, termination_timeout_s=settings.termination_timeout_s)
        self._sdk = SdkLoading(self._build)
        self._endpoint = McpEndpoint(toolbox, self._calls, self._sessions, self._sdk, settings)

    async def open(self) -> None:
        """Read the sessions' key."""
        await self._sessions.open()

    async def close(self) -> None:
        """Let go of calls in flight."""
        await self._calls.close()
        await self._endpoint.close()
        await self._sdk.close()

    def hang_up(self) -> None:
        """Let idle clients know that the server stops; they come again."""
        self._endpoint.hang_up()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        await self._endpoint(scope, receive, send)

    def _build(self, module: Any) -> SdkServer:  # noqa: ANN401 -- a module that is imported late has no other type
        server: SdkServer = module.Sdk(
            self._toolbox,
            self._calls,
            version=self._settings.version,
            max_message_bytes=self._settings.max_message_bytes,
            instructions=_INSTRUCTIONS,
            extend=self._extend,
        )
        return server
