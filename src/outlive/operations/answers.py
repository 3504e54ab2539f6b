"""What operations answer, declared once: a process, a page of output, an approval, a terminal. Pure.

Frontends publish these as schemas, and tests compare them with real answers; the answers themselves are made
as plain members in `protocols.jsonrpc.views` and `protocols.terminal`, because they are sent at once and
checked by nothing but the tests. Docstrings and descriptions are part of the published documents. A member
with a default is left out where it says nothing.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from outlive.core.command import Profile
from outlive.core.lifecycle import State
from outlive.core.terminal import Form, Target, TerminalState, Waiting
from outlive.operations.schemas import reference

# Descriptions that several answers share.
REDACTED = "How many secrets are stars in it; left out where there are none."
REACHABLE = (
    "False while it runs on a node that is away: the state is what it was. Absent where it can be reached."
)
Redacted = Annotated[int, Meta(description=REDACTED)]
Reachable = Annotated[bool, Meta(description=REACHABLE)]
Moment = Annotated[datetime, Meta(tz=True)]
ReadOn = Annotated[str, Meta(description="Where to read on.")]
StreamName = Literal["stdout", "stderr"]
EndCause = Literal[
    "cancel", "timeout", "output_limit", "oom", "shutdown", "approval_denied", "approval_expired"
]


class AnswerMembers(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The base of all answers: a member that is not declared is a fault, which the tests find."""


class SandboxView(AnswerMembers, kw_only=True, frozen=True):
    """What it runs in, and what took effect of that."""

    profile: Profile
    features: list[str]


class LocationView(AnswerMembers, kw_only=True, frozen=True):
    """Where it runs, where that is not simply the server's own machine."""

    backend: Annotated[
        str, Meta(description="`docker`, the name of a node, or `any` while it waits for a place.")
    ]
    image: str | None = None
    container: str | None = None


class NeedsView(AnswerMembers, kw_only=True, frozen=True):
    """What the machine must have that runs it."""

    cpu: Annotated[float | None, Meta(description="Processors.")] = None
    memory: Annotated[int | None, Meta(description="Bytes.")] = None
    gpu: float | None = None
    labels: dict[str, str] | None = None
    node: Annotated[str | None, Meta(description="The only one that counts.")] = None
    same_node_as: Annotated[str | None, Meta(description="The process beside which it runs.")] = None
    spread: Annotated[bool, Meta(description="It is kept apart from others of its group.")] = False
    wait: Annotated[bool, Meta(description="False: it was refused rather than queued.")] = True
    gpus: Annotated[list[str] | None, Meta(description="Those of the machine's GPUs that it was given.")] = (
        None
    )


class OriginView(AnswerMembers, kw_only=True, frozen=True):
    """Where the start of a process came from."""

    door: Annotated[str, Meta(description="jsonrpc, rest, mcp, bridge, terminal or services.")]
    host: Annotated[str | None, Meta(description="What the MCP client calls itself.")] = None
    call: Annotated[str | None, Meta(description="The id of the request there.")] = None
    parent: Annotated[str | None, Meta(description="The process in whose tree the caller lived.")] = None


class ProcessAnswer(AnswerMembers, kw_only=True, frozen=True):
    """What every frontend shows of a process; each has words of its own for its status."""

    process_id: Annotated[str, Meta(description="Its permanent id, never used again.")]
    state: Annotated[State, Meta(description="Where it is in its life.")]
    waits_for: Annotated[
        Literal["approval", "group", "place"] | None, Meta(description="What it is queued for.")
    ]
    hint: Annotated[str | None, Meta(description="What has to be done so that it starts.")]
    pid: int | None
    command: str
    shell: str | None
    cwd: str
    exit_code: Annotated[
        int | None, Meta(description="0 to 255, or minus the signal's number; null while nothing is known.")
    ]
    error: Annotated[str | None, Meta(description="Why it did not end by itself.")]
    cause: Annotated[EndCause | None, Meta(description="What ended it; null for a natural end.")]
    completed: Annotated[bool, Meta(description="It has ended and its output is whole.")]
    streams: Literal["open", "closed"]
    cursor: Annotated[str, Meta(description="The end of its output so far.")]
    stdout_bytes: int
    stderr_bytes: int
    created_at: Moment
    started_at: Moment | None
    ended_at: Moment | None
    stdio: Literal["pipes", "merge", "pty"]
    stdin: Literal["none", "pipe", "lent"]
    detached: bool
    descendants: Annotated[int, Meta(description="How many processes it has left running.")]
    stalled: Annotated[bool, Meta(description="The disk is full; it waits.")]
    gaps: Annotated[bool, Meta(description="Some of its output was released.")]
    output_lost: Annotated[
        bool, Meta(description="Some of its output is lost: `status` is never `completed` then.")
    ]
    lost_bytes: Annotated[int | None, Meta(description="How much of it is lost, where that is known.")]
    timeout: float | None
    grace: float
    tags: dict[str, str]
    group: str | None
    sandbox: SandboxView
    env_secrets: Annotated[list[str], Meta(description="Names of variables whose values are kept nowhere.")]
    started_by: Annotated[OriginView | None, Meta(description="Where its start came from.")] = None
    location: Annotated[
        LocationView | None, Meta(description="Where it runs; absent on the server's machine.")
    ] = None
    needs: Annotated[
        NeedsView | None, Meta(description="What its machine must have; absent where nothing was counted.")
    ] = None
    short_id: Annotated[
        str | None, Meta(description="Its name in its project: p7. Absent where it has none.")
    ] = None
    project: Annotated[
        str | None, Meta(description="The folder that it belongs to; absent where it was started for none.")
    ] = None
    key: Annotated[
        str | None, Meta(description="Its caller's name for it in the project; absent where it has none.")
    ] = None
    name: Annotated[
        str | None, Meta(description="What its caller has called it; absent where it has no name.")
    ] = None
    unknown: Annotated[
        bool,
        Meta(
            description="It runs on a node that is away, or is still being found after a restart: the rest "
            "is what was known last."
        ),
    ] = False
    waiting: Annotated[
        Literal["input", "password"] | None,
        Meta(description="What it waits for, where it is watched: after a wait for input, or with notify."),
    ] = None
    at_prompt: Annotated[
        bool,
        Meta(description="It waits for its next command, as a shell at its prompt does: nothing is asked."),
    ] = False
    person_asked: Annotated[bool, Meta(description="A person was notified of what it waits for.")] = False
    session_over: Annotated[
        bool, Meta(description="It lives, and its client has ended the MCP session that started it.")
    ] = False
    redacted: Redacted = 0
    reachable: Reachable = True


class StandingView(AnswerMembers, kw_only=True, frozen=True):
    """What an approval for always is about: exactly these words of each command, in this project's folder."""

    project: str
    commands: list[list[str]]


class Approval(AnswerMembers, kw_only=True, frozen=True):
    """What waits for a person's approval.

    `argv` are the words that would be executed, whatever `command` says.
    """

    process_id: str
    digest: Annotated[
        str, Meta(description="Stands for all that decides what runs; approving it takes this.")
    ]
    command: str
    argv: list[str]
    script: Annotated[str | None, Meta(description="The script that would run, or its first 64 KiB.")]
    script_bytes: Annotated[int, Meta(description="How long the script is, whole.")]
    cwd: str
    variables: Annotated[list[str], Meta(description="The names of the variables that the caller set.")]
    env: Annotated[
        dict[str, str | None],
        Meta(description="These with their values, masked without `raw`; null: the variable is taken away."),
    ]
    profile: Profile
    location: Annotated[LocationView | None, Meta(description="Where it would run, if not on this machine.")]
    reason: Annotated[str, Meta(description="Why it is asked about.")]
    principal: Annotated[str, Meta(description="The principal that wants to start it.")]
    since: Moment
    expires_at: Annotated[Moment | None, Meta(description="Then it is refused.")]
    tags: dict[str, str]
    group: str | None
    always: Annotated[
        StandingView | None,
        Meta(description="What approving it for always would approve; null: only once."),
    ]
    only_once: Annotated[str, Meta(description="Why it can be approved only once.")]
    redacted: Annotated[int, Meta(description=f"{REDACTED[:-1]}; masked values of `env` count.")] = 0


class Approvals(AnswerMembers, kw_only=True, frozen=True):
    """What waits for a person's approval, oldest first."""

    approvals: list[Approval]


class Chunk(AnswerMembers, kw_only=True, frozen=True):
    """A piece of one stream that ends at byte `end`."""

    type: StreamName
    data: str
    end: int
    redacted: Redacted = 0
    time: Annotated[
        datetime | None,
        Meta(description="With `times`: when the first byte of it was written, within a tenth of a second."),
    ] = None


class GapView(AnswerMembers, kw_only=True, frozen=True):
    """Bytes `from` to `to` of one stream, which are no longer kept."""

    type: StreamName
    gap: Annotated[bool, Meta(description="True: there is no `data`.")]
    from_: int = msgspec.field(name="from")
    to: int
    end: int


# No union of structs: msgspec wants a tag to know one from another, and these differ in which members they
# have.
_Piece = Annotated[Any, Meta(extra_json_schema={"anyOf": [reference(Chunk), reference(GapView)]})]


class OutputPage(AnswerMembers, kw_only=True, frozen=True):
    """Output in the order of writing."""

    process_id: str
    chunks: list[_Piece]
    cursor: Annotated[str, Meta(description="Where the next page begins.")]
    more: Annotated[bool, Meta(description="There is more output already.")]
    completed: Annotated[
        bool, Meta(description="The process has ended: nothing will follow but what descendants write.")
    ]
    redacted: Redacted = 0


class Acknowledgement(AnswerMembers, kw_only=True, frozen=True):
    """What was done."""

    process_id: str
    removed: bool


class DiskRequest(msgspec.Struct, kw_only=True, frozen=True):
    """`disk`: nothing to say."""


class DiskShare(AnswerMembers, kw_only=True, frozen=True):
    """Some processes, and what their folders take on disk."""

    processes: int
    bytes: int


class ProjectShare(AnswerMembers, kw_only=True, frozen=True):
    """A project's part of the disk; `states` has its processes by their states."""

    project: Annotated[str | None, Meta(description="Its folder; null for what belongs to none.")]
    processes: int
    running: Annotated[int, Meta(description="How many of them have not ended.")]
    bytes: int
    reclaimable_bytes: Annotated[int, Meta(description="Of what has ended: `prune` would free it.")]
    states: dict[str, DiskShare]


class RetentionRule(AnswerMembers, kw_only=True, frozen=True):
    """One part of the rule by which the server removes what has ended."""

    rule: Annotated[
        Literal["age", "count", "size"],
        Meta(description="By seconds since the end, by how many there are, by bytes of output."),
    ]
    limit: Annotated[int | None, Meta(description="In seconds, processes or bytes; null: none.")]
    used: Annotated[
        int, Meta(description="As much of it as there is: the oldest one's age, all that have ended.")
    ]
    processes: Annotated[
        int, Meta(description="How many of the caller's it removes next, within a minute or so.")
    ]
    bytes: Annotated[int, Meta(description="Their output.")]
    next_at: Annotated[
        Moment | None, Meta(description="When the age takes the caller's oldest that stays until then.")
    ] = None


class DiskUsageAnswer(AnswerMembers, kw_only=True, frozen=True):
    """What takes the state folder's disk: the caller's processes, the folder's own files, and how much is
    free.
    """

    processes: int
    running: int
    bytes: int
    reclaimable_bytes: int
    states: dict[str, DiskShare]
    projects: Annotated[list[ProjectShare], Meta(description="The largest first.")]
    own_bytes: Annotated[int, Meta(description="Registry, audit log and whatever else is no process's.")]
    free_bytes: Annotated[int, Meta(description="Free on the state folder's file system, for its user.")]
    total_bytes: int
    retention: list[RetentionRule]


class TerminalView(AnswerMembers, kw_only=True, frozen=True):
    """One terminal."""

    terminal_id: str
    terminal_name: str
    target: Target
    state: TerminalState
    process_id: Annotated[
        str | None, Meta(description="Its shell's process; null for a terminal that is not ours.")
    ]
    cwd: str | None


class TerminalPage(AnswerMembers, kw_only=True, frozen=True):
    """The terminals that are open."""

    terminals: list[TerminalView]


class ExecutedView(AnswerMembers, kw_only=True, frozen=True):
    """What a command gave. While it runs `is_complete` is false and `exit_code` null."""

    terminal_id: str
    output: Annotated[str, Meta(description="What it printed, without prompt, echo and escape sequences.")]
    exit_code: int | None
    cursor: Annotated[str | None, Meta(description="Where to read on.")]
    is_complete: bool
    waiting: Waiting
    is_closed: Annotated[bool, Meta(description="The command has ended the shell.")]
    redacted: Redacted = 0


class TerminalTextView(AnswerMembers, kw_only=True, frozen=True):
    """A piece of a terminal's output."""

    terminal_id: str
    text: str
    form: Form
    cursor: ReadOn
    state: TerminalState
    waiting: Waiting
    exit_code: Annotated[int | None, Meta(description="Of the command that ended last; null while one runs.")]
    has_more: bool
    has_gap: Annotated[bool, Meta(description="Output before it is not kept any more.")]
    redacted: Redacted = 0


class TypedView(AnswerMembers, kw_only=True, frozen=True):
    """What was typed."""

    terminal_id: str
    written: Annotated[int, Meta(description="Bytes.")]


class ResizedTerminal(AnswerMembers, kw_only=True, frozen=True):
    """A terminal's size."""

    terminal_id: str
    rows: int
    cols: int


class ClosedTerminal(AnswerMembers, kw_only=True, frozen=True):
    """A terminal that is closed now."""

    terminal_id: str
    closed: Annotated[bool, Meta(description="True.")]
