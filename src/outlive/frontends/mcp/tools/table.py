"""The table of MCP tools: one entry says everything about a tool (promises S1.1, S3.6, S4.2, S4.13).

From an entry follow the MCP Tool object of tools/list, the check of the arguments, the scope that a caller
needs, and the function that answers. To add a tool: a struct of arguments in `protocols.mcp.arguments`, a
function, an entry here. Descriptions are for models: each one names the tool that continues where this one
stops.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from outlive.core.errors import OutliveError
from outlive.core.values import dataclass
from outlive.engine import Process
from outlive.frontends.mcp.tools import documents, lean
from outlive.frontends.mcp.tools.calls import Outcome, allowed_patterns
from outlive.frontends.mcp.tools.runner import Runner, ToolCall, failed
from outlive.operations.schemas import arguments_schema
from outlive.operations.table import OPERATIONS
from outlive.operations.terminal_requests import CreateTerminal, ExecuteInTerminal
from outlive.operations.tool_sets import ToolSet
from outlive.policy.access import Scope
from outlive.protocols.mcp import arguments, results
from outlive.protocols.mcp.results import Schema
from outlive.protocols.mcp.tasks import TaskCall
from outlive.protocols.mcp.texts import executed_text, read_text, terminals_text

BACKGROUND_TOOL = "execute_background_linux_shell_command"  # an endpoint may stream its answer (promise S4.3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool.

    Attributes:
        name: Its name, as clients call it.
        title: Its name for people.
        description: What models read.
        operation: The operation that it carries out, whose scope its callers need.
        arguments: The struct that its arguments are checked by.
        answer: The function that carries out a call whose arguments were checked.
        output: The schema of `structuredContent`; None where the answer is text alone.
        refuse: The answer for an error; the arguments are None where they are what is wrong.
        listed: The arguments that its schema shows, where it is a tool for models: it takes all others, too,
            takes them as models send them (`protocols.mcp.lenient`), and a host that loses its patience ends
            nothing. None for the documents' tools.
        named: The arguments that the schema of a documents' tool shows, where it takes more than a document
            names.
        result: The answer for a process that an earlier call of this tool has left running: such a call may
            become a task.
    """

    name: str
    title: str
    description: str
    operation: str
    arguments: type[msgspec.Struct]
    answer: Callable[[ToolCall, Any], Awaitable[Outcome]]
    output: Schema | None = None
    refuse: Callable[[OutliveError, Any], Outcome] = failed
    listed: tuple[str, ...] | None = None
    named: tuple[str, ...] | None = None
    result: Callable[[Runner, Process, TaskCall], Awaitable[Outcome]] | None = None

    @property
    def scope(self) -> Scope:
        """How much a caller must be allowed to call it."""
        return OPERATIONS[self.operation].scope

    def _shown(self, configured: Sequence[str]) -> tuple[str, ...] | None:
        shown = self.listed or self.named
        if shown is None:
            return None
        known = {field.encode_name for field in msgspec.structs.fields(self.arguments)}
        return (*shown, *(name for name in configured if name in known))

    @property
    def is_for_models(self) -> bool:
        """Whether it is made for models, not for programs that go by the documents."""
        return self.listed is not None

    def definition(self, configured: Sequence[str] = (), *, most_wait_s: float | None = None) -> Schema:
        """Return the MCP Tool object (MCP 2025-11-25, "Tools").

        Where it does not show all arguments, it shows those that are `configured`, too; for models, the
        `most_wait_s` that the host lets a call wait.
        """
        # Clients decide by these hints whether they ask a person before the call. A tool that runs commands
        # may change anything and reach anywhere, and says so.
        reads_only = self.scope is Scope.READ
        schema = arguments_schema(self.arguments, listed=self._shown(configured))
        if self.is_for_models and most_wait_s is not None and "wait_s" in schema["properties"]:
            wait_s = schema["properties"]["wait_s"]
            bound = f"At most {most_wait_s:g}."
            wait_s["description"] = " ".join(filter(None, [wait_s.get("description"), bound]))
        tool: Schema = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": schema,
            "annotations": {
                "title": self.title,
                "readOnlyHint": reads_only,
                "destructiveHint": not reads_only,
                "idempotentHint": reads_only,
                "openWorldHint": not reads_only,
            },
        }
        return tool if self.output is None else {**tool, "outputSchema": self.output}


# What an official client needs beside what the documents name: it is answered before the end, and is shown
# less.
_WAITS = ("wait_s", "background", "max_output")
_SHELL_ARGUMENTS = ("cmd", "timeout", "cwd", *_WAITS)

COMMAND_TOOLS = (
    Tool(
        name="command_execute",
        title="Execute a command",
        description="Run a command and return its output and exit code. A call that is answered "
        "before the end says running: true: ask command_get_status for the rest.",
        operation="execute",
        arguments=arguments.ExecuteArguments,
        named=("command", "timeout", "shell", "cwd", *_WAITS),
        answer=documents.execute_command,
        output=results.EXECUTED,
        refuse=documents.refuse,
        result=documents.command_result,
    ),
    Tool(
        name="command_execute_script",
        title="Execute a script",
        description="Run a script with an interpreter and return its output and exit code.",
        operation="execute",
        arguments=arguments.ScriptArguments,
        named=("script_content", "interpreter", "timeout", "cwd", *_WAITS),
        answer=documents.execute_script,
        output=results.SCRIPT_EXECUTED,
        refuse=documents.refuse,
        result=documents.command_result,
    ),
    Tool(
        name="command_get_status",
        title="Get a command's status",
        description="Return state and output so far of a running or finished command.",
        operation="get",
        arguments=arguments.StatusArguments,
        answer=documents.get_status,
        output=results.COMMAND_STATUS,
        refuse=documents.refuse_status,
    ),
    Tool(
        name="command_list_history",
        title="List executed commands",
        description="Return the newest commands first.",
        operation="list",
        arguments=arguments.HistoryArguments,
        answer=documents.list_history,
        output=results.HISTORY,
        refuse=documents.refuse,
    ),
)

PROCESS_TOOLS = (
    Tool(
        name="execute_linux_shell_command",
        title="Execute a shell command",
        description="Run a shell command and return its output. What takes longer than wait_s goes on in the "
        "background.",
        operation="execute",
        arguments=arguments.ShellArguments,
        named=_SHELL_ARGUMENTS,
        answer=documents.execute_shell,
        result=documents.shell_result,
    ),
    Tool(
        name=BACKGROUND_TOOL,
        title="Start a shell command in the background",
        description="Start a shell command that goes on after this call; it ends by itself, by its timeout, "
        "or by terminate_process.",
        operation="execute",
        arguments=arguments.ShellArguments,
        named=_SHELL_ARGUMENTS,
        answer=documents.execute_background,
    ),
    Tool(
        name="terminate_process",
        title="Terminate a process",
        description="End a process and everything it started (TERM, then KILL) by PID (only processes "
        "started by this server).",
        operation="control",
        arguments=arguments.TerminateArguments,
        answer=documents.terminate,
    ),
    Tool(
        name="list_processes",
        title="List background processes",
        description="List all running processes started by this server.",
        operation="list",
        arguments=arguments.NoArguments,
        answer=documents.list_active,
        output=results.PROCESSES,
    ),
)

# The sentences are for models. What `run` warns of is what models do by habit, and what costs them a turn.
LEAN_TOOLS = (
    Tool(
        name="run",
        title="Run",
        description="Run a command. Output is kept and shortened for you: don't pipe into head, tail or "
        "grep; to see more, use read, don't run again. stdin is empty; cd lasts only in a workspace. A "
        "long command keeps running: use its id (p1) with wait, read, send, stop.",
        operation="execute",
        arguments=arguments.RunArguments,
        listed=(
            "command",
            "script",
            "cwd",
            "env",
            "pty",
            "wait_s",
            "wait_for",
            "timeout",
            "workspace",
            "key",
        ),
        answer=lean.run,
        result=lean.result,
    ),
    Tool(
        name="read",
        title="Read output",
        description="Show output of a process, running or ended. Default: what you have not seen.",
        operation="read",
        arguments=arguments.ReadArguments,
        listed=("id", "grep", "tail", "cursor", "all_projects"),
        answer=lean.read,
    ),
    Tool(
        name="wait",
        title="Wait",
        description="Wait until processes end or need input; shows new output.",
        operation="wait",
        arguments=arguments.WaitArguments,
        listed=("ids", "mode", "wait_for", "wait_s"),
        answer=lean.wait,
    ),
    Tool(
        name="send",
        title="Send input",
        description="Type into a process run with pty; returns what it prints.",
        operation="write",
        arguments=arguments.SendArguments,
        listed=("id", "text", "keys", "eof"),
        answer=lean.send,
    ),
    Tool(
        name="stop",
        title="Stop",
        description="Kill processes and all their children.",
        operation="control",
        arguments=arguments.StopArguments,
        listed=("ids",),
        answer=lean.stop,
    ),
    Tool(
        name="control",
        title="Control",
        description="Pause, resume or signal a process.",
        operation="control",
        arguments=arguments.ControlArguments,
        listed=("id", "action", "signal"),
        answer=lean.control,
    ),
    Tool(
        name="list",
        title="List",
        description="List running processes of this project (newest 20).",
        operation="list",
        arguments=arguments.ListArguments,
        listed=("all", "all_projects"),
        answer=lean.list_all,
    ),
)

_TERMINAL_TEXTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = MappingProxyType(
    {"terminal_list": terminals_text, "terminal_execute": executed_text, "terminal_read": read_text}
)
_NOT_SHOWN = frozenset({"default", "description", "required"})


def _terminal_tool(name: str, title: str, description: str) -> Tool:
    """Return the tool of an operation on terminals, which every door answers alike (promise S3.6)."""
    operation = OPERATIONS[name]
    text_of: Callable[[Mapping[str, Any]], str] = _TERMINAL_TEXTS.get(name, json.dumps)

    async def answer(call: ToolCall, asked: Any) -> Outcome:  # noqa: ANN401 -- checked against the tool's struct before
        await _check_shell(call, asked)
        members = await call.runner.operations.carry_out(name, asked, call.caller.owner)
        return Outcome(text=text_of(members), structured=members)

    return Tool(
        name=name,
        title=title,
        description=description,
        operation=name,
        arguments=operation.request or arguments.NoArguments,
        answer=answer,
        output=None if operation.answer is None else _bare(arguments_schema(operation.answer)),
    )


def _bare(schema: Any) -> Any:  # noqa: ANN401 -- JSON
    """Return the schema of an answer without words. MCP applies it to errors, too, which have no member: none
    is required.
    """
    if isinstance(schema, dict):
        return {name: _bare(part) for name, part in schema.items() if name not in _NOT_SHOWN}
    return schema


async def _check_shell(call: ToolCall, asked: object) -> None:
    """Let pass what the settings of the tools let run, where a call runs something."""
    settings = call.runner.settings
    if isinstance(asked, CreateTerminal):
        allowed_patterns(settings).check_argv((asked.shell or "bash",))
    if isinstance(asked, ExecuteInTerminal):
        allowed_patterns(settings).check_line(asked.command)
        terminals = call.runner.operations.terminals
        if asked.terminal_id is None and not await terminals.has_active(call.caller.owner):
            allowed_patterns(settings).check_argv(("bash",))  # one is opened


TERMINAL_TOOLS = (
    _terminal_tool("terminal_list", "List terminals", "List the open terminals."),
    _terminal_tool(
        "terminal_create",
        "Open a terminal",
        "Open a terminal: a shell that stays, with its folder, variables and jobs. It outlives this session "
        "and the server; close it when it is not needed any more.",
    ),
    _terminal_tool(
        "terminal_execute",
        "Run a command in a terminal",
        "Run a command of any number of lines at a terminal's prompt and return its output and exit code. "
        "What waits for input or takes longer than wait_s goes on: then use terminal_read and "
        "terminal_write.",
    ),
    _terminal_tool(
        "terminal_read",
        "Read a terminal",
        "Return what a terminal shows: the newest output, or that from a cursor on; also after its end.",
    ),
    _terminal_tool(
        "terminal_write",
        "Type into a terminal",
        "Type a text, then keys, whatever runs there: answers, passwords, ctrl-c.",
    ),
    _terminal_tool("terminal_resize", "Resize a terminal", "Set a terminal's size."),
    _terminal_tool(
        "terminal_close", "Close a terminal", "Close a terminal: its shell and what runs in it end."
    ),
)

# The setting `mcp_tools` says which are offered (promise S4.13).
TOOL_SETS: Mapping[ToolSet, tuple[Tool, ...]] = MappingProxyType(
    {
        "documents": (*COMMAND_TOOLS, *PROCESS_TOOLS),
        "lean": LEAN_TOOLS,
        "terminals": TERMINAL_TOOLS,
        "all": (*COMMAND_TOOLS, *PROCESS_TOOLS, *LEAN_TOOLS, *TERMINAL_TOOLS),
    }
)
