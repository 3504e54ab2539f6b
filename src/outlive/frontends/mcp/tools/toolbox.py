"""The tools of one engine under one set of settings: `Toolbox`, which checks a call by the table and carries
it out.

The toolbox knows no transport: HTTP and stdio name the caller, carry progress and cancel calls.

`ProcessTasks` shows what outlasts its call as a task of the extension `io.modelcontextprotocol/tasks`. A task
is the process that a call left running: its id is the process's, its status is read from the record, its
result is rendered from record and log when a client asks. Kept beside the process, and removed with it, is
only that it is a task, and of which call (decision 31).
"""

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Protocol, cast

from outlive.config import Settings
from outlive.config.settings import marked
from outlive.core.command import Profile
from outlive.core.errors import AccessDenied, OutliveError, ProcessNotFound
from outlive.core.events import AuditEvent
from outlive.core.hints import Door, hint_for
from outlive.core.location import LOCAL
from outlive.core.values import replace
from outlive.engine import Engine, Process
from outlive.frontends.mcp.tools import documents
from outlive.frontends.mcp.tools.calls import Caller, CallStatus, Outcome, Progress, UnknownTool
from outlive.frontends.mcp.tools.lean_answers import runnable
from outlive.frontends.mcp.tools.runner import Runner, ToolCall, failed, is_visible
from outlive.frontends.mcp.tools.table import BACKGROUND_TOOL, TOOL_SETS, Tool
from outlive.frontends.mcp.tools.waits import patience_of
from outlive.kernel.files import read_all, write_whole
from outlive.operations.start import CONTAINER_OPTIONS, PLACE_OPTION
from outlive.operations.tool_sets import ToolSet
from outlive.policy.access import Scope
from outlive.protocols.mcp.arguments import ShellArguments, read_arguments
from outlive.protocols.mcp.tasks import Task, TaskCall, task_of, tool_result
from outlive.server.operations import Operations

_logger = logging.getLogger(__name__)


class Tasks(Protocol):
    """What the HTTP endpoint asks of tasks.

    Each method raises ProcessNotFound for a task that the caller does not have.
    """

    async def get(self, task_id: str, caller: Caller) -> Task:
        """Return a task as it is now; one that is completed, with its result."""
        ...

    async def update(self, task_id: str, responses: Mapping[str, object], caller: Caller) -> None:
        """Take responses to input requests, by key; what was not asked for is ignored."""
        ...

    async def cancel(self, task_id: str, caller: Caller) -> None:
        """Ask for a task's end; returns before that. A task that has ended stays as it is."""
        ...


class ProcessTasks:
    """The tasks of one engine. Used from its event loop; files are touched in threads."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        # Of all tools, whatever is offered now: a task may be of an earlier start with other settings.
        self._renderers = {tool.name: tool.result for tool in TOOL_SETS["all"] if tool.result is not None}

    async def adopt(self, outcome: Outcome) -> Outcome:
        """Return a tool's outcome with the task that its unfinished process becomes, if it has one and may.

        Cancellation: `Toolbox.call` ends the process, as everywhere in a call that has not been answered.
        """
        unfinished = outcome.unfinished
        # A command with an input waits for the client, and the client would wait for the task: both for ever.
        if unfinished is None or unfinished.process.has_stdin:
            return outcome
        process = unfinished.process
        try:
            await asyncio.to_thread(write_whole, _path(process), unfinished.call.encode())
        except OSError:
            # A handle that may be forgotten must not be given out: the plain answer is as good.
            _logger.exception("a task could not be kept", extra={"process_id": process.process_id})
            return outcome
        return replace(outcome, task=self._task(process))

    async def get(self, task_id: str, caller: Caller) -> Task:
        """Return a task as it is now.

        Raises:
            ProcessNotFound: The caller has no such task.
            StoreCorrupt: The disk does not give its output.

        Cancellation: safe.
        """
        process, call = await self._find(task_id, caller)
        task = self._task(process)
        if task.status != "completed":
            return task
        shown = await self._renderers[call.tool](self._runner, process, call)
        result = tool_result(shown.text, shown.structured, is_error=shown.is_error)
        return replace(task, result=result)

    async def update(
        self,
        task_id: str,
        responses: Mapping[str, object],  # noqa: ARG002 -- the protocol's
        caller: Caller,
    ) -> None:
        """Ignore the responses: no command's task asks for input, so no key is outstanding.

        Raises:
            ProcessNotFound: The caller has no such task.
            AccessDenied: `scope_missing`.
        """
        caller.access.require(Scope.RUN)
        await self._find(task_id, caller)

    async def cancel(self, task_id: str, caller: Caller) -> None:
        """Ask for the end of the whole tree: TERM, the termination timeout, KILL.

        Raises:
            ProcessNotFound: The caller has no such task.
            AccessDenied: `scope_missing`.
            BackendUnavailable: The keeper does not answer.

        Cancellation: the end goes on.
        """
        caller.access.require(Scope.RUN)
        process, _ = await self._find(task_id, caller)
        if process.status.is_ended:
            return
        await self._runner.cancel(process, caller)

    async def _find(self, task_id: str, caller: Caller) -> tuple[Process, TaskCall]:
        process = await self._runner.engine.queries.find(task_id)
        if is_visible(process, caller):
            call = TaskCall.decode(await asyncio.to_thread(read_all, _path(process)))
            if call is not None:
                return process, call
        raise ProcessNotFound("process_not_found", "There is no such task.")

    def _task(self, process: Process) -> Task:
        return task_of(process.record, now=datetime.now(UTC), kept_s=self._runner.settings.retention_s)


def _path(process: Process) -> str:
    return f"{process.folder}/task"


class Toolbox:
    """The tools of one engine. Used from the engine's event loop.

    Attributes:
        engine: Runs the processes.
        settings: Limits and defaults.
        runner: What all calls share.
        tasks: What earlier calls have become.
    """

    def __init__(self, engine: Engine, settings: Settings, operations: Operations | None = None) -> None:
        self.engine = engine
        self.settings = settings
        self._configured = _configured(settings)
        self.runner = Runner(engine, settings, operations)
        self._all = {tool.name: tool for tools in TOOL_SETS.values() for tool in tools}
        # "all" is made of others: a tool has the words of the set that it comes from.
        self._words: dict[str, Door] = {
            tool.name: name for name, tools in TOOL_SETS.items() if name != "all" for tool in tools
        }
        self._sets = {name: {tool.name: tool for tool in tools} for name, tools in TOOL_SETS.items()}
        self.tasks = ProcessTasks(self.runner)

    def is_for_models(self, name: str) -> bool:
        """Tell whether a tool is made for models: a time limit of its host ends no command of its."""
        tool = self._all.get(name)
        return tool is not None and tool.is_for_models

    def definitions(self, caller: Caller) -> list[dict[str, object]]:
        """Return the tools that a caller is offered as MCP Tool objects: name, title, description, schemas,
        annotations.
        """
        # A host that waits on at progress asks for it, or has asked before.
        is_patient = self.runner.memory.is_patient(caller)
        most_s = patience_of(caller, has_progress=True, is_patient=is_patient).most_s
        return [
            tool.definition(self._configured, most_wait_s=most_s) for tool in self._tools_of(caller).values()
        ]

    async def call(
        self,
        name: str,
        arguments: Mapping[str, object],
        caller: Caller,
        *,
        progress: Progress | None = None,
        partial: Progress | None = None,
        status: CallStatus | None = None,
    ) -> Outcome:
        """Run a tool.

        Wrong arguments, refusals and starts that fail are outcomes with `is_error`, not exceptions.

        Args:
            name: The tool's name.
            arguments: Its arguments as decoded JSON.
            caller: The client; it sees the processes of its principal.
            progress: Gets new output while the call waits, coalesced, and something at least every 60 s.
            partial: Gets the output alone while a documented tool waits, coalesced.
            status: What becomes of the call, where its door says so; of a call that no client hears the
                session has seen nothing.

        Raises:
            UnknownTool: There is no such tool.

        Cancellation: stops what the call started (TERM, termination timeout, KILL) unless it runs in the
        background, or its host has lost its patience; also while its answer is made.
        """
        status = CallStatus() if status is None else status
        tool = self._tool(name, caller)
        try:
            caller.access.require(tool.scope)
        except AccessDenied as error:
            details = {"path": f"/mcp {name}"}
            self.engine.events.publish(
                AuditEvent(
                    what="access", by=caller.owner, decision="denied", reason=error.code, details=details
                )
            )
            await self.engine.events.recorded()
            return failed(error)
        try:
            return await self._answer(
                tool, arguments, ToolCall(self.runner, caller, progress, status, partial)
            )
        except asyncio.CancelledError:
            await self.runner.leave(status)
            raise

    async def _answer(self, tool: Tool, arguments: Mapping[str, object], tool_call: ToolCall) -> Outcome:
        caller = tool_call.caller
        asked = None
        try:
            asked = read_arguments(arguments, tool.arguments, listed=tool.listed)
            outcome = await tool.answer(tool_call, asked)
        except OutliveError as error:
            error.hint = hint_for(error, self._words[tool.name])
            if tool.is_for_models:
                error.hint = await runnable(caller, error.hint)
            self.engine.redaction.finish(error)
            outcome = tool.refuse(error, asked)
            tool_call.shown.clear()
        await self.engine.events.recorded()  # what was refused, also where a tool answers it as a result
        if caller.has_tasks:
            outcome = await self.tasks.adopt(outcome)
        # At the very end: a call that fails or is cancelled halfway has shown nothing, nor has one that
        # became a task.
        if outcome.task is None and not tool_call.status.is_unheard():
            for process_id, (start, end, is_over) in tool_call.shown.items():
                self.runner.memory.note_shown(caller, process_id, start, end, is_over=is_over)
        return outcome

    async def start_background(self, arguments: Mapping[str, object], caller: Caller) -> Process:
        """Start execute_background_linux_shell_command for an endpoint that streams it itself (promise S4.3).

        Raises:
            OutliveError: Wrong arguments, a refusal or a failed start.

        Cancellation: the command may run all the same and is found by its caller.
        """
        # It is not offered with every setting.
        caller.access.require(self._tool(BACKGROUND_TOOL, caller).scope)
        asked = read_arguments(arguments, ShellArguments)
        return await documents.start_background(ToolCall(self.runner, caller), asked)

    def _tools_of(self, caller: Caller) -> Mapping[str, Tool]:
        """Return the tool set of the caller's host, else the server's: whichever it is, no set is a wall."""
        return self._sets[caller.tool_set or cast("ToolSet", self.settings.mcp_tools)]

    def _tool(self, name: str, caller: Caller) -> Tool:
        tools = self._tools_of(caller)
        tool = tools.get(name)
        if tool is None:
            hint = f"The tools are: {', '.join(tools)}."
            raise UnknownTool("invalid_params", f"There is no tool {name[:40]!r}.", hint=hint)
        return tool


def _configured(settings: Settings) -> tuple[str, ...]:
    """Return which arguments for operators the models of this server are shown: those for what it has."""
    has_containers, has_nodes = settings.backend != LOCAL, bool(marked(settings, "places"))
    wanted = {
        "profile": settings.profile != Profile.OPEN,
        PLACE_OPTION: has_containers or has_nodes,
        **dict.fromkeys(CONTAINER_OPTIONS, has_containers),
    }
    return tuple(name for name, is_configured in wanted.items() if is_configured)
