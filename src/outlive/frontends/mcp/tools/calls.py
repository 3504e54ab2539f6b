"""The nouns of a tool call: `Caller` asks a `Tool`, `Outcome` answers, `Progress` carries output meanwhile."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from outlive.core.errors import InvalidRequest
from outlive.core.process import Owner
from outlive.engine import Process
from outlive.policy.access import Access, Scope
from outlive.protocols.mcp.tasks import Task, TaskCall

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
