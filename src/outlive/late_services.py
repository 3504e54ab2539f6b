"""What doors build at their first request, since it takes long to import: `mcp_service`, `rest_service`."""

from collections.abc import Callable
from typing import Any, cast

from outlive import __version__
from outlive.config import Settings
from outlive.core.command import Profile
from outlive.core.layout import Layout
from outlive.core.location import LOCAL
from outlive.engine import Engine
from outlive.engine.terminals import Terminals
from outlive.frontends.mcp.http.door import McpService
from outlive.frontends.rest.door import LoadedRest
from outlive.operations.start import CONTAINER_OPTIONS, PLACE_OPTION
from outlive.operations.tool_sets import ToolSet


def mcp_service(
    engine: Engine,
    terminals: Terminals,
    layout: Layout,
    settings: Settings,
    extend: Callable[[Any], None] | None,
) -> McpService:
    """Build the MCP service; called at the first MCP request."""
    # Start-up time: a quarter of the whole start, which only MCP callers have to wait for.
    from outlive.frontends.mcp.http.endpoint import McpEndpoint  # noqa: PLC0415
    from outlive.frontends.mcp.tools.calls import ToolSettings  # noqa: PLC0415
    from outlive.frontends.mcp.tools.toolbox import Toolbox  # noqa: PLC0415

    tools = ToolSettings(
        enabled=not settings.tools_disabled,
        allowed_patterns=settings.allowed_patterns,
        blocked_patterns=settings.blocked_patterns,
        timeout_s=max(1, round(settings.command_timeout_s)),
        max_output_bytes=settings.max_output_bytes,
        allow_sudo=settings.allow_sudo,
        allow_scripts=not settings.scripts_disabled,
        termination_timeout_s=settings.termination_timeout_s,
        mcp_tools=cast("ToolSet", settings.mcp_tools),
        wait_s=settings.wait_s,
        has_partial_results=settings.mcp_partial_results,
        configured=_configured(settings),
        kept_s=settings.retention_s,
    )
    toolbox = Toolbox(engine, tools, terminals)
    return McpEndpoint(toolbox, layout, max_message_bytes=settings.max_message_bytes, extend=extend)


def _configured(settings: Settings) -> tuple[str, ...]:
    """Return which arguments for operators the models of this server are shown: those for what it has."""
    has_containers, has_nodes = settings.backend != LOCAL, bool(settings.nodes)
    wanted = {
        "profile": settings.profile != Profile.OPEN,
        PLACE_OPTION: has_containers or has_nodes,
        **dict.fromkeys(CONTAINER_OPTIONS, has_containers),
    }
    return tuple(name for name, is_configured in wanted.items() if is_configured)


def rest_service(engine: Engine, terminals: Terminals, settings: Settings) -> LoadedRest:
    """Build the REST service; called at the first REST request."""
    # Start-up time: most servers are never asked over REST.
    from outlive.frontends.rest.door import RestSettings  # noqa: PLC0415
    from outlive.frontends.rest.service import RestService  # noqa: PLC0415

    return RestService(
        engine,
        RestSettings(
            version=__version__,
            max_body_bytes=settings.max_message_bytes,
            max_output_bytes=settings.max_output_bytes,
            termination_timeout_s=settings.termination_timeout_s,
            wait_s=settings.wait_s,
        ),
        terminals,
    )
