"""The nouns of a tool call: `Caller` asks a `Tool`, `Outcome` answers, `Progress` carries output meanwhile.

What the tools must be told: `ToolSettings` (promise S1.8), filled in by the composition root.

How much a caller must be allowed for each tool: `SCOPES`. A tool without a line here cannot be offered.

Whether a tool may run something: `ToolPolicy`, the settings of promise S1.8 before every start.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from outlive.core.errors import CommandRefused, InvalidRequest
from outlive.core.process import Owner
from outlive.engine import Process
from outlive.operations.table import OPERATIONS
from outlive.policy.access import Access, Scope
from outlive.policy.patterns import CommandPatterns
from outlive.protocols.mcp.tasks import Task, TaskCall
from outlive.protocols.mcp.texts import EXECUTION_DISABLED, SCRIPTS_DISABLED

# New output as text, for notifications/progress; awaited, so that a slow client holds nobody else.
Progress = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls a tool.

    `access`: who that is, and how much it may do. `connection_id`: the MCP session. `request_id`: the JSON-RPC id as a
    string (promise M.ids). `has_tasks`: the request declares the tasks extension. `is_raw`: the request names no MCP
    revision, as the documents' own callers do.
    """

    access: Access
    connection_id: str | None = None
    request_id: str | None = None
    has_tasks: bool = False
    is_raw: bool = False

    @property
    def owner(self) -> Owner:
        """Whose a process becomes that it starts, and who asks for what is done."""
        return Owner(
            principal=self.principal,
            connection_id=self.connection_id,
            request_id=self.request_id,
            inside=self.access.inside,
            door="mcp",
            address=self.access.address,
            is_admin=self.access.scope >= Scope.ADMIN,
        )

    @property
    def principal(self) -> str:
        """Whose processes it sees."""
        return self.access.principal


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A process that a call has left running because its time was up, and the call as its result depends on it."""

    process: Process
    call: TaskCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a tool answers: the text block, `structuredContent` where the tool has an output schema, isError.

    `unfinished`: what still runs although the caller has not asked for an early answer. `task`: it has become this
    task, which is the answer then.
    """

    text: str
    structured: Mapping[str, object] | None = None
    is_error: bool = False
    unfinished: Unfinished | None = None
    task: Task | None = None


# What carries a tool out: arguments as they came, the caller, where output goes meanwhile.
Answer = Callable[[Mapping[str, object], Caller, Progress | None], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool on offer: its MCP Tool object, what carries it out, and the scope that takes."""

    definition: Mapping[str, object]
    answer: Answer
    scope: Scope


class UnknownTool(InvalidRequest):
    """There is no tool of that name, or the setting `mcp_tools` leaves it out."""


ToolSet = Literal["lean", "documents", "terminals", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """Limits and defaults of the tools. Times are seconds, sizes bytes.

    Attributes:
        enabled: Whether anything may be run at all.
        allowed_patterns: Globs; every simple command must match one.
        blocked_patterns: Globs; no simple command may match one.
        timeout_s: When a command's tree is ended, if the call names no timeout.
        max_output_bytes: What a result shows of each stream; the log keeps everything.
        allow_sudo: Whether commands may begin with sudo.
        allow_scripts: Whether scripts may be run.
        termination_timeout_s: Between TERM and KILL (promise S4.6).
        mcp_tools: Which tools are offered (promise S4.13).
        wait_s: How long a call waits for the end before it answers "still running" (promise S1.10), where the client
            is an official one that asked for no progress: many hosts give up after 60 s.
        heartbeat_s: After this long without output a waiting call reports progress all the same (promise S1.10).
        kept_s: How long a process is kept after its end, as tasks tell it; None for ever.
    """

    enabled: bool = True
    allowed_patterns: tuple[str, ...] = ("*",)
    blocked_patterns: tuple[str, ...] = ()
    timeout_s: int = 60
    max_output_bytes: int = 1024 * 1024
    allow_sudo: bool = False
    allow_scripts: bool = True
    termination_timeout_s: float = 30.0
    mcp_tools: ToolSet = "all"
    wait_s: float = 45.0
    heartbeat_s: float = 20.0
    kept_s: float | None = None


# What a tool does: the name of an operation, which says the scope.
_OPERATIONS: Mapping[str, str] = MappingProxyType(
    {
        "command_execute": "execute",
        "command_execute_script": "execute",
        "command_get_status": "get",
        "command_list_history": "list",
        "execute_linux_shell_command": "execute",
        "execute_background_linux_shell_command": "execute",
        "terminate_process": "control",
        "list_processes": "list",
        "run": "execute",
        "send": "write",
    }
)
# Those of the same name.
_SAME = ("read", "wait", "control", "list", *(name for name in OPERATIONS if name.startswith("terminal_")))
SCOPES: Mapping[str, Scope] = MappingProxyType(
    {tool: OPERATIONS[name].scope for tool, name in (*_OPERATIONS.items(), *((one, one) for one in _SAME))}
)


class ToolPolicy:
    """Decides from the settings alone; raises CommandRefused with a text of promise S1.7."""

    def __init__(self, settings: ToolSettings) -> None:
        """Take the settings."""
        self._settings = settings
        self._patterns = CommandPatterns(
            allowed=settings.allowed_patterns,
            blocked=settings.blocked_patterns,
            allow_sudo=settings.allow_sudo,
        )

    def check_line(self, line: str) -> None:
        """Let a shell line pass."""
        self._check_enabled()
        self._patterns.check_line(line)

    def check_argv(self, argv: Sequence[str]) -> None:
        """Let a command without a shell pass."""
        self._check_enabled()
        self._patterns.check_argv(argv)

    def check_script(self, interpreter: str, content: str) -> None:
        """Let a script pass."""
        self._check_enabled()
        if not self._settings.allow_scripts:
            raise _disabled(SCRIPTS_DISABLED)
        self._patterns.check_script(interpreter, content)

    def _check_enabled(self) -> None:
        if not self._settings.enabled:
            raise _disabled(EXECUTION_DISABLED)


def _disabled(text: str) -> CommandRefused:
    return CommandRefused("command_not_allowed", text, hint="The operator has switched it off.")
