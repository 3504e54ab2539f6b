"""Every object that JSON-RPC alone sends, with the types of its members: results of methods and parameters of
notifications. Pure.

What other doors answer, too, is declared in `operations.answers`. docs/messages.md is made from the
declarations, and a test compares them with what comes over a socket. The objects themselves are made as
plain dicts, so that one `orjson.dumps` encodes them. A member with a default is present only where it
applies; every other one always is.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from outlive.core.layout import Degraded
from outlive.operations.answers import AnswerMembers, Moment, ProcessAnswer, SandboxView, StreamName

StatusWord = Literal["queued", "started", "paused", "completed", "failed"]
WaitsFor = Literal["approval", "group", "place"]


class StatsMembers(AnswerMembers, kw_only=True, frozen=True):
    """What the tree of a process looks like; times are seconds, sizes bytes."""

    pids: list[int]
    threads: int
    cpu: float
    memory_bytes: int
    ports: list[int]
    waiting: str | None
    at_prompt: Annotated[
        bool, Meta(description="Always true: it waits for its next command, as a shell does.")
    ] = False


class ProcessMembers(ProcessAnswer, kw_only=True, frozen=True):
    """A process: what `get` answers, and what stands for a process in other results and in notifications."""

    status: StatusWord
    pgid: int | None
    session_id: str | None
    timed_out: Annotated[bool, Meta(description="Of `wait`.")] = False
    stats: Annotated[StatsMembers | None, Meta(description="Of `get`.")] = None


# -- results


class StartedMembers(AnswerMembers, kw_only=True, frozen=True):
    """`execute`: the process that runs, or waits for its turn."""

    status: Annotated[Literal["started", "queued"], Meta(description="queued: until its turn comes.")]
    pid: int | None
    pgid: int | None
    process_id: str
    shell: str | None
    sandbox: SandboxView
    repeated: Annotated[
        bool, Meta(description="Always true: an earlier start with this `key` started it.")
    ] = False


class RerunMembers(StartedMembers, kw_only=True, frozen=True):
    """`rerun`: the new process."""

    lacks_environment: Annotated[
        bool,
        Meta(
            description="Always true: the environment that its caller gave it was stored nowhere, and it has "
            "the server's."
        ),
    ] = False


class ProcessList(AnswerMembers, kw_only=True, frozen=True):
    """`list`."""

    processes: list[ProcessMembers]
    more: bool
    degraded: Degraded | None = None


class UsedMembers(AnswerMembers, kw_only=True, frozen=True):
    """What the tree of a process uses; times are seconds, sizes bytes."""

    process_id: str
    processes: Annotated[int, Meta(description="How many live in its tree; 0 once it is over.")]
    cpu: float
    memory_bytes: int
    ports: Annotated[list[int], Meta(description="TCP, listening.")]


class UsageList(AnswerMembers, kw_only=True, frozen=True):
    """`usage`."""

    at: Moment
    usage: Annotated[
        list[UsedMembers],
        Meta(description="In the order that was asked for; unknown processes are left out."),
    ]


class StatusMembers(AnswerMembers, kw_only=True, frozen=True):
    """What became of it, in one word."""

    status: str


# -- parameters of notifications


class CapabilityMembers(AnswerMembers, kw_only=True, frozen=True):
    """What this server can do."""

    methods: list[str]
    output: list[str]
    input: list[str]
    max_line_bytes: int
    max_message_bytes: int
    reconnect_grace: float
    output_session: bool
    backend: str
    scope: str


class ConnectedMembers(AnswerMembers, kw_only=True, frozen=True):
    """`connected`: the greeting."""

    session_id: str
    version: str
    protocol: int
    capabilities: CapabilityMembers
    resumed: bool
    processes: list[ProcessMembers]
    degraded: Degraded | None = None


class QueuedMembers(AnswerMembers, kw_only=True, frozen=True):
    """`process.queued`."""

    status: str
    process_id: str
    waits_for: WaitsFor | None
    hint: str | None


class ChangeMembers(AnswerMembers, kw_only=True, frozen=True):
    """A change of a process's state.

    Members that do not apply are null, so that clients can rely on their presence.
    """

    status: str
    pid: int | None
    pgid: int | None
    exit_code: int | None
    error: str | None
    process_id: str
    cursor: str


class CompletionMembers(ChangeMembers, kw_only=True, frozen=True):
    """`process.completed`."""

    output_lost: Annotated[bool, Meta(description="Always true.")] = False


class OutputMembers(AnswerMembers, kw_only=True, frozen=True):
    """`process.output`; `output` writes them as bytes, many at once."""

    type: StreamName
    data: str
    truncated: bool
    process_id: str
    end: int
    partial: Annotated[bool, Meta(description="Always true.")] = False
    length: int = 0
    hint: Annotated[str, Meta(description="What to set so that no such line is cut.")] = ""
    redacted: int = 0


class ClosedMembers(AnswerMembers, kw_only=True, frozen=True):
    """`process.closed`."""

    process_id: str
    cursor: str


class GapMembers(AnswerMembers, kw_only=True, frozen=True):
    """`process.gap`: bytes `from` to `to` of one stream, which are no longer kept."""

    process_id: str
    type: StreamName
    from_: int = msgspec.field(name="from")
    to: int
    cursor: str


class EventMembers(AnswerMembers, kw_only=True, frozen=True):
    """`event`; each one has the same members, null where they do not apply."""

    event: str
    at: Moment
    process_id: str | None
    process: ProcessMembers | None
    reason: str | None
    missed: int
    node: str | None


NOTIFICATIONS: Mapping[str, type[AnswerMembers]] = MappingProxyType(
    {
        "connected": ConnectedMembers,
        "process.queued": QueuedMembers,
        "process.started": ChangeMembers,
        "process.output": OutputMembers,
        "process.paused": ChangeMembers,
        "process.resumed": ChangeMembers,
        "process.cancelled": ChangeMembers,
        "process.completed": CompletionMembers,
        "process.closed": ClosedMembers,
        "process.gap": GapMembers,
        "event": EventMembers,
    }
)
