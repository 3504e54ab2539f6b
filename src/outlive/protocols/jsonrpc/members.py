"""Every object that JSON-RPC sends, with the types of its members: results of methods and parameters of
notifications. Pure.

Each is declared once, here. The type checker compares the code that makes an object with its declaration;
docs/messages.md is made from the declarations, and a test compares them with what comes over a socket. They
are plain dicts at run time, so that one `orjson.dumps` encodes them. A member that is `NotRequired` is
present only where it applies; every other one always is.
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from outlive.core.layout import Degraded

_Time = Annotated[datetime, Meta(description="ISO 8601, UTC.")]
StreamName = Literal["stdout", "stderr"]
StatusWord = Literal["queued", "started", "paused", "completed", "failed"]
WaitsFor = Literal["approval", "group", "place"]


class SandboxMembers(TypedDict):
    """How strongly a process is bounded, and by which features."""

    profile: str
    features: list[str]


class LocationMembers(TypedDict):
    """Where a process runs; left out of a process that simply runs on this machine."""

    backend: str
    image: NotRequired[str]
    container: NotRequired[str]


class NeedsMembers(TypedDict):
    """What the machine must have that runs a process; left out where nothing was counted."""

    cpu: NotRequired[Annotated[float, Meta(description="Processors.")]]
    memory: NotRequired[Annotated[int, Meta(description="Bytes.")]]
    gpu: NotRequired[float]
    labels: NotRequired[dict[str, str]]
    node: NotRequired[Annotated[str, Meta(description="The only one that counts.")]]
    same_node_as: NotRequired[Annotated[str, Meta(description="The process beside which it runs.")]]
    spread: NotRequired[Annotated[bool, Meta(description="Always true.")]]
    wait: NotRequired[Annotated[bool, Meta(description="Always false.")]]


class OriginMembers(TypedDict):
    """Where the start of a process came from."""

    door: NotRequired[Annotated[str, Meta(description="jsonrpc, rest, mcp, bridge, terminal or services.")]]
    host: NotRequired[Annotated[str, Meta(description="What the MCP client calls itself.")]]
    call: NotRequired[Annotated[str, Meta(description="The id of the request there.")]]
    parent: NotRequired[Annotated[str, Meta(description="The process in whose tree the caller lived.")]]


class StatsMembers(TypedDict):
    """What the tree of a process looks like; times are seconds, sizes bytes."""

    pids: list[int]
    threads: int
    cpu: float
    memory_bytes: int
    ports: list[int]
    waiting: str | None
    at_prompt: NotRequired[
        Annotated[bool, Meta(description="Always true: it waits for its next command, as a shell does.")]
    ]


class ProcessMembers(TypedDict):
    """A process: what `get` answers, and what stands for a process in other results and in notifications."""

    process_id: str
    status: StatusWord
    state: str
    waits_for: WaitsFor | None
    hint: str | None
    pid: int | None
    pgid: int | None
    command: str
    shell: str | None
    cwd: str
    exit_code: int | None
    error: str | None
    cause: str | None
    completed: bool
    streams: Literal["open", "closed"]
    cursor: str
    stdout_bytes: int
    stderr_bytes: int
    created_at: _Time
    started_at: _Time | None
    ended_at: _Time | None
    stdio: Annotated[str, Meta(description="pipes, merge or pty.")]
    stdin: Annotated[str, Meta(description="none, pipe or lent.")]
    detached: bool
    descendants: int
    stalled: bool
    gaps: bool
    output_lost: bool
    lost_bytes: int | None
    timeout: float | None
    grace: float
    tags: dict[str, str]
    group: str | None
    sandbox: SandboxMembers
    env_secrets: list[str]
    session_id: str | None
    started_by: NotRequired[OriginMembers]
    location: NotRequired[LocationMembers]
    needs: NotRequired[NeedsMembers]
    short_id: NotRequired[Annotated[str, Meta(description="Its name in its project: p7.")]]
    project: NotRequired[str]
    key: NotRequired[str]
    name: NotRequired[str]
    unknown: NotRequired[Annotated[bool, Meta(description="Always true.")]]
    reachable: NotRequired[Annotated[bool, Meta(description="Always false.")]]
    waiting: NotRequired[
        Annotated[Literal["input", "password"], Meta(description="Where it waits for that.")]
    ]
    at_prompt: NotRequired[
        Annotated[bool, Meta(description="Always true: it waits for its next command, as a shell does.")]
    ]
    person_asked: NotRequired[
        Annotated[bool, Meta(description="Always true: a person was notified of what it waits for.")]
    ]
    session_over: NotRequired[
        Annotated[bool, Meta(description="Always true: it lives, and its client has ended its MCP session.")]
    ]
    redacted: NotRequired[int]
    timed_out: NotRequired[Annotated[bool, Meta(description="Of `wait`.")]]
    stats: NotRequired[Annotated[StatsMembers, Meta(description="Of `get`.")]]


# -- results


class StartedMembers(TypedDict):
    """`execute`: the process that runs, or waits for its turn."""

    status: Annotated[Literal["started", "queued"], Meta(description="queued: until its turn comes.")]
    pid: int | None
    pgid: int | None
    process_id: str
    shell: str | None
    sandbox: SandboxMembers
    repeated: NotRequired[
        Annotated[bool, Meta(description="Always true: an earlier start with this `key` started it.")]
    ]


class RerunMembers(StartedMembers):
    """`rerun`: the new process."""

    lacks_environment: NotRequired[
        Annotated[
            bool,
            Meta(
                description=(
                    "Always true: the environment that its caller gave it was stored nowhere, and it "
                    "has the server's."
                )
            ),
        ]
    ]


class ProcessList(TypedDict):
    """`list`."""

    processes: list[ProcessMembers]
    more: bool
    degraded: NotRequired[Degraded]


class UsedMembers(TypedDict):
    """What the tree of a process uses; times are seconds, sizes bytes."""

    process_id: str
    processes: Annotated[int, Meta(description="How many live in its tree; 0 once it is over.")]
    cpu: float
    memory_bytes: int
    ports: Annotated[list[int], Meta(description="TCP, listening.")]


class UsageList(TypedDict):
    """`usage`."""

    at: _Time
    usage: Annotated[
        list[UsedMembers],
        Meta(description="In the order that was asked for; unknown processes are left out."),
    ]


# A piece of output, or (with `gap`) a range that was released. "from" is a word of Python's own.
ChunkMembers = TypedDict(
    "ChunkMembers",
    {
        "type": StreamName,
        "end": int,
        "data": NotRequired[str],
        "redacted": NotRequired[int],
        "time": NotRequired[datetime],
        "gap": NotRequired[bool],
        "from": NotRequired[int],
        "to": NotRequired[int],
    },
)


class PageMembers(TypedDict):
    """`read`."""

    process_id: str
    chunks: Annotated[
        list[ChunkMembers],
        Meta(description="Output has data; what was released has gap, from and to instead."),
    ]
    cursor: str
    more: bool
    completed: bool
    redacted: NotRequired[int]


class StandingMembers(TypedDict):
    """What an approval for always would be about: exactly these words of each command, in this project's real
    folder.
    """

    project: str
    commands: list[list[str]]


class ApprovalMembers(TypedDict):
    """A start that waits for an approval: what a person has to know of it."""

    process_id: str
    digest: str
    command: str
    argv: list[str]
    script: str | None
    script_bytes: int
    cwd: str
    variables: list[str]
    env: dict[str, str | None]
    profile: str
    location: LocationMembers | None
    reason: str
    principal: str
    since: _Time
    expires_at: _Time | None
    tags: dict[str, str]
    group: str | None
    always: Annotated[
        StandingMembers | None,
        Meta(description="What approving it for always would approve; null: only once."),
    ]
    only_once: Annotated[str, Meta(description="Why it can be approved only once.")]
    redacted: NotRequired[int]


class ApprovalList(TypedDict):
    """`approvals`."""

    approvals: list[ApprovalMembers]


class StatusMembers(TypedDict):
    """What became of it, in one word."""

    status: str


# -- parameters of notifications


class CapabilityMembers(TypedDict):
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


class ConnectedMembers(TypedDict):
    """`connected`: the greeting."""

    session_id: str
    version: str
    protocol: int
    capabilities: CapabilityMembers
    resumed: bool
    processes: list[ProcessMembers]
    degraded: NotRequired[Degraded]


class QueuedMembers(TypedDict):
    """`process.queued`."""

    status: str
    process_id: str
    waits_for: WaitsFor | None
    hint: str | None


class ChangeMembers(TypedDict):
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


class CompletionMembers(ChangeMembers):
    """`process.completed`."""

    output_lost: NotRequired[Annotated[bool, Meta(description="Always true.")]]


class OutputMembers(TypedDict):
    """`process.output`; `output` writes them as bytes, many at once."""

    type: StreamName
    data: str
    truncated: bool
    process_id: str
    end: int
    partial: NotRequired[Annotated[bool, Meta(description="Always true.")]]
    length: NotRequired[int]
    hint: NotRequired[Annotated[str, Meta(description="What to set so that no such line is cut.")]]
    redacted: NotRequired[int]


class ClosedMembers(TypedDict):
    """`process.closed`."""

    process_id: str
    cursor: str


GapMembers = TypedDict(
    "GapMembers", {"process_id": str, "type": StreamName, "from": int, "to": int, "cursor": str}
)


class EventMembers(TypedDict):
    """`event`; each one has the same members, null where they do not apply."""

    event: str
    at: _Time
    process_id: str | None
    process: ProcessMembers | None
    reason: str | None
    missed: int
    node: str | None


NOTIFICATIONS: Mapping[str, Any] = MappingProxyType(
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
