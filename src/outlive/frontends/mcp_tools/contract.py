"""What MCP doors use: `Toolbox`, with the nouns of a call.

The toolbox knows no transport: the doors speak HTTP or stdio, name the caller, carry progress and cancel tasks.
"""

from collections.abc import Mapping

from outlive.core.errors import InvalidState
from outlive.engine import Engine, Process
from outlive.frontends.mcp_tools.calls import Caller, Outcome, Progress, UnknownTool
from outlive.frontends.mcp_tools.settings import ToolSet, ToolSettings

__all__ = ["Caller", "Outcome", "Progress", "ToolSet", "ToolSettings", "Toolbox", "UnknownTool"]


class Toolbox:
    """The tools of one engine under one set of settings. Used from the engine's event loop."""

    def __init__(self, engine: Engine, settings: ToolSettings) -> None:
        """Take the engine (opened by the caller) and the settings."""
        self._engine = engine
        self._settings = settings

    def definitions(self) -> list[dict[str, object]]:
        """Return the offered tools as MCP Tool objects: name, title, description, schemas, annotations."""
        return []

    async def call(
        self,
        name: str,
        arguments: Mapping[str, object],  # noqa: ARG002
        caller: Caller,  # noqa: ARG002
        *,
        progress: Progress | None = None,  # noqa: ARG002
    ) -> Outcome:
        """Run a tool.

        Wrong arguments, refusals and starts that fail are outcomes with `is_error`, not exceptions.

        Args:
            name: The tool's name.
            arguments: Its arguments as decoded JSON.
            caller: Who asks; sees the processes of its principal.
            progress: Gets new output while the call waits, coalesced, and something at least every 60 s.

        Raises:
            UnknownTool: There is no such tool.

        Cancellation: stops what the call started (TERM, termination timeout, KILL) unless it runs in the background.
        """
        raise UnknownTool("invalid_params", f"There is no tool {name[:40]!r}.")

    async def start_background(self, arguments: Mapping[str, object], caller: Caller) -> Process:  # noqa: ARG002
        """Start execute_background_linux_shell_command for a door that streams it itself (promise S4.3).

        Raises:
            OutliveError: Wrong arguments, a refusal or a failed start.

        Cancellation: the command may run all the same and is found by its caller.
        """
        raise InvalidState("no_process", "Nothing can be started yet.")

    def background_result(self, process: Process) -> Outcome:  # noqa: ARG002
        """Return the last result of a background command that is complete: both streams joined (promise S4.3)."""
        raise InvalidState("process_running", "The process still runs.")
