"""The MCP door of the server: its route, and what all sessions share."""

from types import TracebackType
from typing import Any, Self

from starlette.routing import BaseRoute, Route

from outlive.core.layout import Layout
from outlive.engine import Engine
from outlive.frontends.mcp_http.calls import Calls
from outlive.frontends.mcp_http.endpoint import McpEndpoint
from outlive.frontends.mcp_http.sdk_loading import SdkLoading, SdkServer
from outlive.frontends.mcp_http.sessions import McpSessions
from outlive.frontends.mcp_http.settings import McpHttpSettings
from outlive.frontends.mcp_tools.contract import Toolbox

__all__ = ["PATH", "McpHttpDoor"]

PATH = "/mcp"  # promise S4.1
_INSTRUCTIONS = (
    "Runs commands that outlive whoever asked for them. A call that takes long answers with an id: read, wait and "
    "list find the command again, also after a restart."
)


class McpHttpDoor:
    """MCP over HTTP. Serve `routes()` inside `async with door`, that inside `async with engine`.

    Leaving the block ends no process.
    """

    def __init__(self, engine: Engine, toolbox: Toolbox, layout: Layout, settings: McpHttpSettings) -> None:
        """Offer the tools of `toolbox`; nothing runs yet."""
        self._toolbox = toolbox
        self._settings = settings
        self._sessions = McpSessions(layout)
        self._calls = Calls(engine, toolbox, termination_timeout_s=settings.termination_timeout_s)
        self._sdk = SdkLoading(self._build)
        self._endpoint = McpEndpoint(toolbox, self._calls, self._sessions, self._sdk, settings)

    async def __aenter__(self) -> Self:
        """Read the sessions' key."""
        await self._sessions.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of calls in flight."""
        await self._calls.close()
        await self._endpoint.close()
        await self._sdk.close()

    def hang_up(self) -> None:
        """Let idle clients know that the server stops; they come again."""
        self._endpoint.hang_up()

    def routes(self) -> list[BaseRoute]:
        """Return what the application serves."""
        return [Route(PATH, self._endpoint, name="mcp")]

    def _build(self, module: Any) -> SdkServer:  # noqa: ANN401 -- a module that is imported late has no other type
        server: SdkServer = module.Sdk(
            self._toolbox,
            self._calls,
            version=self._settings.version,
            max_message_bytes=self._settings.max_message_bytes,
            instructions=_INSTRUCTIONS,
        )
        return server
