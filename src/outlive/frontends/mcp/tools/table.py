"""The table of MCP tools: one entry says everything about a tool (promises S1.1, S3.6, S4.2, S4.13).

From an entry follow the MCP Tool object of tools/list, the check of the arguments, the scope that a caller needs, and the function
that answers. To add a tool: a struct of arguments in `protocols.mcp.arguments`, a function, an entry here. Descriptions are for
models: each one names the tool that continues where this one stops.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec

from outlive.core.errors import OutliveError
from outlive.core.tool_sets import ToolSet
from outlive.engine import Process
from outlive.frontends.mcp.tools import commands, lean, processes, terminals
from outlive.frontends.mcp.tools.calls import Outcome
from outlive.frontends.mcp.tools.runner import Runner, ToolCall, failed
from outlive.operations.schemas import arguments_schema
from outlive.operations.table import OPERATIONS
from outlive.policy.access import Scope
from outlive.protocols.mcp import arguments, schemas
from outlive.protocols.mcp.schemas import Schema
from outlive.protocols.mcp.tasks import TaskCall
from outlive.protocols.mcp.texts import read_text, terminals_text
from outlive.protocols.terminal import requests
from outlive.server.terminal_calls import TerminalCalls

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
        is_terse: Whether its schema leaves out what a model need not know: the lean tools fit into 8 KB (promise S4.13).
        result: The answer for a process that an earlier call of this tool has left running: such a call may become a task.
    """

    name: str
    title: str
    description: str
    operation: str
    arguments: type[msgspec.Struct]
    answer: Callable[[ToolCall, Any], Awaitable[Outcome]]
    output: Schema | None = None
    refuse: Callable[[OutliveError, Any], Outcome] = failed
    is_terse: bool = False
    result: Callable[[Runner, Process, TaskCall], Awaitable[Outcome]] | None = None

    @property
    def scope(self) -> Scope:
        """How much a caller must be allowed to call it."""
        return OPERATIONS[self.operation].scope

    def definition(self) -> Schema:
        """Return the MCP Tool object (MCP 2025-11-25, "Tools")."""
        # Clients decide by these hints whether they ask a person before the call. A tool that runs commands may change
        # anything and reach anywhere, and says so.
        reads_only = self.scope is Scope.READ
        tool: Schema = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": arguments_schema(self.arguments, is_terse=self.is_terse),
            "annotations": {
                "title": self.title,
                "readOnlyHint": reads_only,
                "destructiveHint": not reads_only,
                "idempotentHint": reads_only,
                "openWorldHint": not reads_only,
            },
        }
        return tool if self.output is None else {**tool, "outputSchema": self.output}


COMMAND_TOOLS = (
    Tool(
        name="command_execute",
        title="Execute a command",
        description="Run a command and return its output and exit code. A call that is answered "
        "before the end says running: true: ask command_get_status for the rest.",
        operation="execute",
        arguments=arguments.ExecuteArguments,
        answer=commands.execute,
        output=schemas.EXECUTED,
        refuse=commands.refuse,
        result=commands.result,
    ),
    Tool(
        name="command_execute_script",
        title="Execute a script",
        description="Run a script with an interpreter and return its output and exit code.",
        operation="execute",
        arguments=arguments.ScriptArguments,
        answer=commands.execute_script,
        output=schemas.SCRIPT_EXECUTED,
        refuse=commands.refuse,
        result=commands.result,
    ),
    Tool(
        name="command_get_status",
        title="Get a command's status",
        description="Return state and output so far of a running or finished command.",
        operation="get",
        arguments=arguments.StatusArguments,
        answer=commands.get_status,
        output=schemas.COMMAND_STATUS,
        refuse=commands.refuse_status,
    ),
    Tool(
        name="command_list_history",
        title="List executed commands",
        description="Return the newest commands first.",
        operation="list",
        arguments=arguments.HistoryArguments,
        answer=commands.list_history,
        output=schemas.HISTORY,
        refuse=commands.refuse,
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
        answer=processes.execute,
        result=processes.result,
    ),
    Tool(
        name=BACKGROUND_TOOL,
        title="Start a shell command in the background",
        description="Start a shell command that goes on after this call; it ends by itself, by its timeout, or by "
        "terminate_process.",
        operation="execute",
        arguments=arguments.ShellArguments,
        answer=processes.execute_background,
    ),
    Tool(
        name="terminate_process",
        title="Terminate a process",
        description="End a process and everything it started (TERM, then KILL) by PID (only processes started by "
        "this server).",
        operation="control",
        arguments=arguments.TerminateArguments,
        answer=processes.terminate,
    ),
    Tool(
        name="list_processes",
        title="List background processes",
        description="List all running processes started by this server.",
        operation="list",
        arguments=arguments.NoArguments,
        answer=processes.list_active,
        output=schemas.PROCESSES,
    ),
)

LEAN_TOOLS = (
    Tool(
        name="run",
        title="Run",
        description="Run a command. Answers at its end, when wait_for is met, or after wait_s with the command still "
        "running; then use wait, read, send, control with its id. Output is kept: never run again to see more.",
        operation="execute",
        arguments=arguments.RunArguments,
        is_terse=True,
        answer=lean.run,
        result=lean.result,
    ),
    Tool(
        name="read",
        title="Read output",
        description="Read a process's output, running or ended: from cursor on (to end), its last lines, or "
        "matching lines.",
        operation="read",
        arguments=arguments.ReadArguments,
        is_terse=True,
        answer=lean.read,
    ),
    Tool(
        name="wait",
        title="Wait",
        description="Wait until any or all of these processes have ended.",
        operation="wait",
        arguments=arguments.WaitArguments,
        is_terse=True,
        answer=lean.wait,
    ),
    Tool(
        name="send",
        title="Send input",
        description="Write to a process started with stdin=pipe or pty; answers with what it then prints.",
        operation="write",
        arguments=arguments.SendArguments,
        is_terse=True,
        answer=lean.send,
    ),
    Tool(
        name="control",
        title="Control",
        description="Pause, resume, cancel (TERM, then KILL) a whole process tree, or signal its main process.",
        operation="control",
        arguments=arguments.ControlArguments,
        is_terse=True,
        answer=lean.control,
    ),
    Tool(
        name="list",
        title="List",
        description="List processes, newest first: those that run, or all.",
        operation="list",
        arguments=arguments.ListArguments,
        is_terse=True,
        answer=lean.list_all,
    ),
)

TERMINAL_TOOLS = (
    Tool(
        name="terminal_list",
        title="List terminals",
        description="List the open terminals.",
        operation="terminal_list",
        arguments=requests.ListTerminals,
        answer=terminals.answers(TerminalCalls.list, lambda members: terminals_text(members["terminals"])),
        output=schemas.TERMINALS,
    ),
    Tool(
        name="terminal_create",
        title="Open a terminal",
        description="Open a terminal: a shell that stays, with its folder, variables and jobs. It outlives this session "
        "and the server; close it when it is not needed any more.",
        operation="terminal_create",
        arguments=requests.CreateTerminal,
        answer=terminals.create,
        output=schemas.TERMINAL,
    ),
    Tool(
        name="terminal_execute",
        title="Run a command in a terminal",
        description="Run a command of any number of lines at a terminal's prompt and return its output and exit code. What "
        "waits for input or takes longer than wait_s goes on: then use terminal_read and terminal_write.",
        operation="terminal_execute",
        arguments=requests.ExecuteInTerminal,
        answer=terminals.execute,
        output=schemas.TERMINAL_EXECUTED,
    ),
    Tool(
        name="terminal_read",
        title="Read a terminal",
        description="Return what a terminal shows: the newest output, or that from a cursor on; also after its end.",
        operation="terminal_read",
        arguments=requests.ReadTerminal,
        answer=terminals.answers(TerminalCalls.read, read_text),
        output=schemas.TERMINAL_TEXT,
    ),
    Tool(
        name="terminal_write",
        title="Type into a terminal",
        description="Type a text, then keys, whatever runs there: answers, passwords, ctrl-c.",
        operation="terminal_write",
        arguments=requests.WriteToTerminal,
        answer=terminals.answers(TerminalCalls.write),
        output=schemas.TERMINAL_WRITTEN,
    ),
    Tool(
        name="terminal_resize",
        title="Resize a terminal",
        description="Set a terminal's size.",
        operation="terminal_resize",
        arguments=requests.ResizeTerminal,
        answer=terminals.answers(TerminalCalls.resize),
        output=schemas.TERMINAL_SIZE,
    ),
    Tool(
        name="terminal_close",
        title="Close a terminal",
        description="Close a terminal: its shell and what runs in it end.",
        operation="terminal_close",
        arguments=requests.CloseTerminal,
        answer=terminals.answers(TerminalCalls.close),
        output=schemas.TERMINAL_CLOSED,
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
