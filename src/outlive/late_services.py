"""What takes long to import, and is built at a door's first request: `mcp_service` and `rest_service`."""

from outlive.config import Settings
from outlive.core.layout import Layout
from outlive.engine import Engine
from outlive.engine.terminals import Terminals
from outlive.frontends.mcp.http.door import McpService
from outlive.frontends.rest.door import LoadedRest
from outlive.server.operations import Operations


def mcp_service(
    engine: Engine,
    terminals: Terminals,
    layout: Layout,
    settings: Settings,
) -> McpService:
    """Build the MCP service; called at the first MCP request."""
    # Start-up time: a quarter of the whole start, which only MCP callers have to wait for.
    from outlive.frontends.mcp.http.endpoint import McpEndpoint  # noqa: PLC0415
    from outlive.frontends.mcp.tools.toolbox import Toolbox  # noqa: PLC0415

    return McpEndpoint(
        Toolbox(engine, settings, terminals), layout, max_message_bytes=settings.max_message_bytes
    )


def rest_service(engine: Engine, operations: Operations, settings: Settings) -> LoadedRest:
    """Build the REST service; called at the first REST request."""
    # Start-up time: most servers are never asked over REST.
    from outlive.frontends.rest.service import RestService  # noqa: PLC0415

    return RestService(engine, settings, operations)
