"""The answers of /v1 and of the documented paths as models, for the OpenAPI document, and the functions that make them.

Docstrings and descriptions of the models are part of that document.
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from outlive.core.command import Profile
from outlive.core.layout import Degraded
from outlive.core.lifecycle import State
from outlive.core.process import ProcessRecord, Status, status_of
from outlive.protocols.jsonrpc.output import STREAM_NAMES
from outlive.protocols.jsonrpc.views import process_view as jsonrpc_view

# Descriptions that several models share.
_DEGRADED = "Why nothing can be started now; absent while everything can be written."
REDACTED = "How many secrets are stars in it; left out where there are none."
_REACHABLE = (
    "False while it runs on a node that is away: the state is what it was. Absent where it can be reached."
)
_Stream = Literal["stdout", "stderr"]
_Cause = Literal[
    "cancel", "timeout", "output_limit", "oom", "shutdown", "approval_denied", "approval_expired"
]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SandboxView(_Answer):
    """What it runs in, and what took effect of that."""

    profile: Profile
    features: list[str]


class LocationView(_Answer):
    """Where it runs, where that is not simply the server's own machine."""

    backend: str = Field(description="`docker`, or the name of a node.")
    image: str | None = None
    container: str | None = None


class ProcessView(_Answer):
    """Everything about a process. Times are UTC, sizes bytes, `timeout` and `grace` seconds."""

    process_id: str = Field(description="Its permanent id, never used again.")
    status: Status = Field(description="One word for how it is.")
    state: State = Field(description="Where it is in its life.")
    waits_for: Literal["approval", "group"] | None = Field(description="What it is queued for.")
    hint: str | None = Field(description="What somebody has to do so that it starts.")
    pid: int | None
    command: str
    shell: str | None
    cwd: str
    exit_code: int | None = Field(
        description="0 to 255, or minus the signal's number; null while nothing is known."
    )
    error: str | None = Field(description="Why it did not end by itself.")
    cause: _Cause | None = Field(description="Who or what ended it; null for a natural end.")
    completed: bool = Field(description="It has ended and its output is whole.")
    streams: Literal["open", "closed"]
    cursor: str = Field(description="The end of its output so far.")
    stdout_bytes: int
    stderr_bytes: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    stdio: Literal["pipes", "merge", "pty"]
    stdin: Literal["none", "pipe", "lent"]
    detached: bool
    descendants: int = Field(description="How many processes it has left running.")
    stalled: bool = Field(description="The disk is full; it waits.")
    gaps: bool = Field(description="Some of its output was released.")
    output_lost: bool = Field(description="Some of its output is lost: `status` is never `completed` then.")
    lost_bytes: int | None = Field(description="How much of it is lost, where that is known.")
    timeout: float | None
    grace: float
    tags: dict[str, str]
    group: str | None
    sandbox: SandboxView
    env_secrets: list[str] = Field(description="Names of variables whose values are kept nowhere.")
    location: LocationView | None = Field(None, description="Where it runs; absent on the server's machine.")
    unknown: bool = Field(
        default=False,
        description="It runs on a node that is away, or is still being found after a restart: the rest is what was known last.",
    )
    redacted: int = Field(default=0, description=REDACTED)
    reachable: bool = Field(default=True, description=_REACHABLE)


class Approval(_Answer):
    """What waits for a person's approval. `argv` are the words that would be executed, whatever `command` says."""

    process_id: str
    digest: str = Field(description="Stands for all that decides what runs; approving it takes this.")
    command: str
    argv: list[str]
    script: str | None = Field(description="The script that would run, or its first 64 KiB.")
    script_bytes: int = Field(description="How long the script is, whole.")
    cwd: str
    variables: list[str] = Field(description="The names of the variables that the caller set.")
    env: dict[str, str | None] = Field(
        description="These with their values, masked without `raw`; null: the variable is taken away."
    )
    profile: Profile
    location: LocationView | None = Field(description="Where it would run, if not on this machine.")
    reason: str = Field(description="Why it is asked about.")
    principal: str = Field(description="Who wants to start it.")
    since: datetime
    expires_at: datetime = Field(description="Then it is refused.")
    tags: dict[str, str]
    group: str | None
    redacted: int = Field(default=0, description=f"{REDACTED[:-1]}; masked values of `env` count.")


class Approvals(_Answer):
    """What waits for a person's approval, oldest first."""

    approvals: list[Approval]


class Waited(ProcessView):
    """A process after a wait."""

    timed_out: bool = Field(description="It still runs: the wait is over, the process is not.")


class ProcessPage(_Answer):
    """A page of processes, newest first."""

    processes: list[ProcessView]
    next: str | None = Field(description="The cursor of the next page; null where there is none.")
    degraded: Degraded | None = Field(default=None, description=_DEGRADED)


class Chunk(_Answer):
    """A piece of one stream that ends at byte `end`."""

    type: _Stream
    data: str
    end: int
    redacted: int = Field(default=0, description=REDACTED)


class GapView(_Answer):
    """Bytes `from` to `to` of one stream, which are no longer kept."""

    type: _Stream
    gap: bool = Field(description="True: there is no `data`.")
    from_: int = Field(alias="from")
    to: int
    end: int


class OutputPage(_Answer):
    """Output in the order of writing."""

    process_id: str
    chunks: list[Chunk | GapView]
    cursor: str = Field(description="Where the next page begins.")
    more: bool = Field(description="There is more output already.")
    completed: bool = Field(
        description="The process has ended: nothing will follow but what descendants write."
    )
    redacted: int = Field(default=0, description=REDACTED)


class Match(_Answer):
    """A line that contains the text: bytes `offset` to `end` of its stream, without its newline."""

    type: _Stream
    offset: int
    end: int
    line: str = Field(description="At most 8 KiB of it.")
    truncated: bool
    before: list[str]
    after: list[str]


class MatchPage(_Answer):
    """Lines that contain a text, in the order of writing."""

    process_id: str
    matches: list[Match]
    cursor: str = Field(description="Where to search on.")
    more: bool = Field(description="Not everything was searched yet.")
    completed: bool
    redacted: int = Field(default=0, description=REDACTED)


class Written(_Answer):
    """How much of the body went into the process's input."""

    written: int
    eof: bool


class Acknowledgement(_Answer):
    """What was done."""

    process_id: str
    removed: bool


class Alive(_Answer):
    """The server answers."""

    status: Literal["alive"]


class _Found(_Answer):
    """How many of the processes that lived when the server was started are found again."""

    known: int
    of: int


class Ready(_Answer):
    """The server can start commands."""

    status: Literal["ready"]
    keeper: Literal["reachable"]
    registry: Literal["writable"]
    finding: _Found | None = Field(
        default=None,
        description="After a restart, until everything that lived is found again: how far that is.",
    )


class Problem(BaseModel):
    """What went wrong (RFC 9457). `slug` is stable; `hint` says what to do next."""

    type: str = Field(description="A reference to the documentation of `slug`.")
    title: str
    status: int
    detail: str
    slug: str
    hint: str
    details: dict[str, Any] | None = None
    degraded: Degraded | None = Field(default=None, description=f"{_DEGRADED} Of `/readyz` only.")


class TrackedProcess(_Answer):
    """A process as /api/async/processes/list/ shows it. Times are local, without zone."""

    pid: int | None
    request_id: str
    command: str
    status: Status
    started_at: str
    exit_code: int | None
    terminated_at: str | None
    termination_signal: Literal["SIGTERM", "SIGKILL"] | None
    output_lost: bool = Field(default=False, description="Some of its output is lost; absent where none is.")
    left: int = Field(default=0, description="How many processes it has left running; absent where none are.")
    redacted: int = Field(default=0, description=REDACTED)
    reachable: bool = Field(default=True, description=_REACHABLE)


class TrackedProcesses(_Answer):
    """The newest processes, newest first."""

    processes: list[TrackedProcess]
    count: int
    degraded: Degraded | None = Field(default=None, description=_DEGRADED)


class Terminated(_Answer):
    """How a process was ended."""

    success: bool
    pid: int
    request_id: str
    signal: Literal["SIGTERM", "SIGKILL"]
    message: str


class Started(TrackedProcess):
    """A process that was started in the background."""

    process_id: str


class Finished(Started):
    """A process with its output: as much of each stream as `max_output_size` allows."""

    success: bool | None = Field(
        description="Whether it ended by itself with exit code 0; null while it runs."
    )
    stdout: str
    stderr: str
    duration: float
    timeout: float | None
    error: str | None


_NOT_SHOWN = ("pgid", "session_id")  # members that only JSON-RPC has


def process_view(record: ProcessRecord) -> dict[str, object]:
    """Return everything that a caller may know of a process; its members mean the same as in JSON-RPC's `get`."""
    # One list of members for both frontends: a new one of JSON-RPC is in REST at once.
    view = jsonrpc_view(record)
    for name in _NOT_SHOWN:
        del view[name]
    view["status"] = status_of(record)
    return view


def match_view(
    stream: int, offset: int, end: int, line: bytes, before: tuple[bytes, ...], after: tuple[bytes, ...]
) -> dict[str, object]:
    """Return a line that contains the text that was searched for."""
    return {
        "type": STREAM_NAMES[stream],
        "offset": offset,
        "end": end,
        "line": _text(line),
        "truncated": len(line) < end - offset,
        "before": [_text(one) for one in before],
        "after": [_text(one) for one in after],
    }


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
