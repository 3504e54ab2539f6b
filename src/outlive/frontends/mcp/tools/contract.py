"""What MCP doors use: `Toolbox`, with the nouns of a call.

The toolbox knows no transport: the doors speak HTTP or stdio, name the caller, carry progress and cancel tasks.
"""

from collections.abc import Mapping, Sequence

from outlive.core.errors import AccessDenied
from outlive.core.events import AuditEvent
from outlive.engine import Engine, Process
from outlive.engine.terminals import Terminals, terminals_of
from outlive.frontends.mcp.tools.calls import (
    SCOPES,
    Answer,
    Caller,
    Outcome,
    Progress,
    Tool,
    ToolPolicy,
    ToolSettings,
    UnknownTool,
)
from outlive.frontends.mcp.tools.commands import CommandTools
from outlive.frontends.mcp.tools.lean import LeanTools
from outlive.frontends.mcp.tools.processes import ProcessTools
from outlive.frontends.mcp.tools.runner import Runner
from outlive.frontends.mcp.tools.tasks import ProcessTasks, Tasks
from outlive.frontends.mcp.tools.terminals import TerminalTools
from outlive.frontends.mcp.tools.workspaces import Workspaces
from outlive.protocols.mcp.lean import LEAN_TOOLS
from outlive.protocols.mcp.schemas import COMMAND_TOOLS, PROCESS_TOOLS, Schema
from outlive.protocols.mcp.terminal_tools import TERMINAL_TOOLS
from outlive.protocols.mcp.texts import error_text
from outlive.server.terminal_calls import TerminalCalls


class Toolbox:
    """The tools of one engine under one set of settings. Used from the engine's event loop."""

    def __init__(self, engine: Engine, settings: ToolSettings, terminals: Terminals | None = None) -> None:
        """Take the engine (opened by the caller), the settings, and the terminals: the engine's own if none are given."""
        runner, admission, workspaces = Runner(engine, settings), ToolPolicy(settings), Workspaces(engine)
        self._runner = runner
        commands = CommandTools(runner, admission, workspaces)
        lean = LeanTools(runner, admission, workspaces)
        self._processes = processes = ProcessTools(runner, admission)
        # All of them, whatever is offered now: a task may be of an earlier start with other settings.
        self._tasks = ProcessTasks(
            runner,
            {
                "command_execute": commands.result,
                "command_execute_script": commands.result,
                "execute_linux_shell_command": processes.result,
                "run": lean.result,
            },
        )
        self._tools: dict[str, Tool] = {}
        if settings.mcp_tools in {"documents", "all"}:
            self._add(
                COMMAND_TOOLS,
                (commands.execute, commands.execute_script, commands.get_status, commands.list_history),
            )
            self._add(
                PROCESS_TOOLS,
                (processes.execute, processes.execute_background, processes.terminate, processes.list),
            )
        if settings.mcp_tools in {"lean", "all"}:
            self._add(LEAN_TOOLS, (lean.run, lean.read, lean.wait, lean.send, lean.control, lean.list))
        if settings.mcp_tools in {"terminals", "all"}:
            calls = TerminalCalls(terminals or terminals_of(engine), wait_s=settings.wait_s)
            self._add(TERMINAL_TOOLS, TerminalTools(calls, admission).answers())

    def _tool(self, name: str) -> Tool:
        tool = self._tools.get(name)
        if tool is None:
            hint = f"The tools are: {', '.join(self._tools)}."
            raise UnknownTool("invalid_params", f"There is no tool {name[:40]!r}.", hint=hint)
        return tool

    def _add(self, definitions: Sequence[Schema], answers: Sequence[Answer]) -> None:
        for definition, answer in zip(definitions, answers, strict=True):
            self._tools[str(definition["name"])] = Tool(
                definition=definition, answer=answer, scope=SCOPES[str(definition["name"])]
            )

    @property
    def tasks(self) -> Tasks:
        """What callers that have tasks ask and do about them."""
        return self._tasks

    def let_go(self) -> None:
        """From now on a cancelled call ends nothing: for a server that stops, whose commands go on."""
        self._runner.let_go()

    def definitions(self) -> list[dict[str, object]]:
        """Return the offered tools as MCP Tool objects: name, title, description, schemas, annotations."""
        return [dict(tool.definition) for tool in self._tools.values()]

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
            caller: Who asks; sees the processes of its principal.
            progress: Gets new output while the call waits, coalesced, and something at least every 60 s.

        Raises:
            UnknownTool: There is no such tool.

        Cancellation: stops what the call started (TERM, termination timeout, KILL) unless it runs in the background.
        """
        tool = self._tool(name)
        try:
            caller.access.require(tool.scope)
        except AccessDenied as error:
            self._runner.engine.events.publish(
                AuditEvent(
                    what="access",
                    by=caller.owner,
                    decision="denied",
                    reason=error.code,
                    details={"path": f"/mcp {name}"},
                )
            )
            return Outcome(text=error_text(error), is_error=True)
        outcome = await tool.answer(arguments, caller, progress)
        return await self._tasks.adopt(outcome) if caller.has_tasks else outcome

    async def start_background(self, arguments: Mapping[str, object], caller: Caller) -> Process:
        """Start execute_background_linux_shell_command for a door that streams it itself (promise S4.3).

        Raises:
            OutliveError: Wrong arguments, a refusal or a failed start.

        Cancellation: the command may run all the same and is found by its caller.
        """
        tool = self._tool("execute_background_linux_shell_command")  # it is not offered with every setting
        caller.access.require(tool.scope)
        return await self._processes.start_background(arguments, caller)

    async def background_result(self, process: Process) -> Outcome:
        """Return the last result of a background command that is complete: both streams joined (promise S4.3).

        Raises:
            InvalidState: `process_running`: it is not complete.

        Cancellation: safe; nothing is consumed.
        """
        return await self._processes.background_result(process)
