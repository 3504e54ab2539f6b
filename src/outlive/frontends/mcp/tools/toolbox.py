"""The tools of one engine under one set of settings: `Toolbox`, which checks a call by the table and carries it out.

The toolbox knows no transport: HTTP and stdio name the caller, carry progress and cancel calls.
"""

from collections.abc import Mapping

from outlive.core.errors import AccessDenied, InvalidState, OutliveError
from outlive.core.events import AuditEvent
from outlive.engine import Engine, Process
from outlive.engine.terminals import Terminals
from outlive.frontends.mcp.tools import processes
from outlive.frontends.mcp.tools.calls import Caller, Outcome, Progress, ToolSettings, UnknownTool
from outlive.frontends.mcp.tools.runner import Runner, ToolCall, failed
from outlive.frontends.mcp.tools.table import TOOL_SETS, Tool
from outlive.frontends.mcp.tools.tasks import ProcessTasks, Tasks
from outlive.protocols.mcp.arguments import ShellArguments, read_arguments

_BACKGROUND_TOOL = "execute_background_linux_shell_command"


class Toolbox:
    """The tools of one engine. Used from the engine's event loop."""

    def __init__(self, engine: Engine, settings: ToolSettings, terminals: Terminals | None = None) -> None:
        """Take the engine (opened by the caller), the settings, and the terminals: the engine's own if none are given."""
        self.engine = engine
        self.settings = settings
        self._runner = runner = Runner(engine, settings, terminals)
        self._tools = {tool.name: tool for tool in TOOL_SETS[settings.mcp_tools]}
        # All of them, whatever is offered now: a task may be of an earlier start with other settings.
        renderers = {tool.name: tool.result for tool in TOOL_SETS["all"] if tool.result is not None}
        self._tasks = ProcessTasks(runner, renderers)

    @property
    def names(self) -> frozenset[str]:
        """The names of the offered tools."""
        return frozenset(self._tools)

    @property
    def tasks(self) -> Tasks:
        """The tasks that earlier calls have become."""
        return self._tasks

    def let_go(self) -> None:
        """From now on a cancelled call ends nothing: for a server that stops, whose commands go on."""
        self._runner.let_go()

    def definitions(self) -> list[dict[str, object]]:
        """Return the offered tools as MCP Tool objects: name, title, description, schemas, annotations."""
        return [tool.definition() for tool in self._tools.values()]

    async def call(
        self,
        name: str,
        arguments: Mapping[str, object],
        caller: Caller,
        *,
        progress: Progress | None = None,
    ) -> Outcome:
        """Run a tool.

        Wrong arguments, refusals and starts that fail are outcomes with `is_error`, not exceptions.

        Args:
            name: The tool's name.
            arguments: Its arguments as decoded JSON.
            caller: The client; it sees the processes of its principal.
            progress: Gets new output while the call waits, coalesced, and something at least every 60 s.

        Raises:
            UnknownTool: There is no such tool.

        Cancellation: stops what the call started (TERM, termination timeout, KILL) unless it runs in the background.
        """
        tool = self._tool(name)
        try:
            caller.access.require(tool.scope)
        except AccessDenied as error:
            details = {"path": f"/mcp {name}"}
            self.engine.events.publish(
                AuditEvent(
                    what="access", by=caller.owner, decision="denied", reason=error.code, details=details
                )
            )
            return failed(error)
        asked = None
        try:
            asked = read_arguments(arguments, tool.arguments)
            outcome = await tool.answer(ToolCall(self._runner, caller, progress), asked)
        except OutliveError as error:
            outcome = tool.refuse(error, asked)
        return await self._tasks.adopt(outcome) if caller.has_tasks else outcome

    async def start_background(self, arguments: Mapping[str, object], caller: Caller) -> Process:
        """Start execute_background_linux_shell_command for an endpoint that streams it itself (promise S4.3).

        Raises:
            OutliveError: Wrong arguments, a refusal or a failed start.

        Cancellation: the command may run all the same and is found by its caller.
        """
        caller.access.require(self._tool(_BACKGROUND_TOOL).scope)  # it is not offered with every setting
        asked = read_arguments(arguments, ShellArguments)
        return await processes.start_background(ToolCall(self._runner, caller), asked)

    async def background_result(self, process: Process) -> Outcome:
        """Return the last result of a background command that is complete: both streams joined (promise S4.3).

        Raises:
            InvalidState: `process_running`: it is not complete.

        Cancellation: safe; nothing is consumed.
        """
        if not process.is_complete:
            raise InvalidState("process_running", "The process is not complete yet.")
        return await processes.result(self._runner, process)

    def _tool(self, name: str) -> Tool:
        tool = self._tools.get(name)
        if tool is None:
            hint = f"The tools are: {', '.join(self._tools)}."
            raise UnknownTool("invalid_params", f"There is no tool {name[:40]!r}.", hint=hint)
        return tool
