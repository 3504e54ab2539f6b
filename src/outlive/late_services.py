"""What takes long to import: `mcp_service` and `rest_service`, built at a door's first request, and
`telemetry`, for few servers.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self

from outlive.config import Settings
from outlive.config.telemetry_settings import telemetry_plan
from outlive.core.layout import Layout
from outlive.engine import Engine
from outlive.engine.terminals import Terminals
from outlive.frontends.mcp.http.door import McpService
from outlive.frontends.rest.door import LoadedRest
from outlive.observability.families import Family
from outlive.server.operations import Operations

_logger = logging.getLogger(__name__)


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


class SentTelemetry(Protocol):
    """What sends spans and metrics while it is open."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exception: object) -> None: ...

    def report(self, metrics: Callable[[], Sequence[Family]]) -> None:
        """Send these metrics now and then."""

    def counts(self) -> Mapping[str, tuple[int, int]]:
        """Return by signal how much the collector has taken, and how much was given up."""


def telemetry(
    engine: Engine,
    layout: Layout,
    settings: Settings,
    environ: Mapping[str, str],
) -> SentTelemetry | None:
    """Build what sends spans and metrics; None where no collector is named, or the packages are missing,
    which is logged.
    """
    plan = telemetry_plan(settings, environ)
    if not (plan.is_active or plan.trouble):
        return None
    from outlive.observability.telemetry import has_packages, why_not_sent  # noqa: PLC0415 -- for few servers

    if obstacle := why_not_sent(plan):
        _logger.warning(obstacle)
    if not (plan.is_active and has_packages()):
        return None
    from outlive.observability.telemetry.telemetry import Telemetry  # noqa: PLC0415 -- as above

    return Telemetry(engine, plan, layout, shows_line=settings.otlp_command_lines, environ=environ)
