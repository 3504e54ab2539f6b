"""The answers that only REST has, and the functions that make them.

What other frontends answer, too, is in `operations.answers`.

Docstrings and descriptions of the structs are part of the OpenAPI document.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from outlive.core.layout import Degraded
from outlive.core.process import ProcessRecord, Status, status_of
from outlive.operations.answers import (
    AnswerMembers,
    OutputPage,
    ProcessAnswer,
    Reachable,
    Redacted,
    StreamName,
)
from outlive.protocols.jsonrpc.output import STREAM_NAMES
from outlive.protocols.jsonrpc.views import process_view as jsonrpc_view

_WHY_DEGRADED = "Why nothing can be started now; absent while everything can be written."
_Degraded = Annotated[Degraded | None, Meta(description=_WHY_DEGRADED)]


class ProcessView(ProcessAnswer, kw_only=True, frozen=True):
    """Everything about a process. Times are UTC, sizes bytes, `timeout` and `grace` seconds."""

    status: Annotated[Status, Meta(description="One word for how it is.")]


class Waited(ProcessView, kw_only=True, frozen=True):
    """A process after a wait."""

    timed_out: Annotated[bool, Meta(description="It still runs: the wait is over, the process is not.")]


class ProcessPage(AnswerMembers, kw_only=True, frozen=True):
    """A page of processes, newest first."""

    processes: list[ProcessView]
    next: Annotated[str | None, Meta(description="The cursor of the next page; null where there is none.")]
    degraded: _Degraded = None


class WindowSizeView(AnswerMembers, kw_only=True, frozen=True):
    """The size of a terminal's window from byte `at` of its output on."""

    at: int
    rows: int
    cols: int


class TimedPage(OutputPage, kw_only=True, frozen=True):
    """Output in the order of writing."""

    at: Annotated[
        int | None, Meta(description="With `times`: how many bytes of both streams lie before the page.")
    ] = None
    sizes: Annotated[
        list[WindowSizeView], Meta(description="With `times`, of a terminal: its sizes, oldest first.")
    ] = msgspec.field(default_factory=list)


class Match(AnswerMembers, kw_only=True, frozen=True):
    """A line that contains the text: bytes `offset` to `end` of its stream, without its newline."""

    type: StreamName
    offset: int
    end: int
    at: Annotated[int, Meta(description="How many bytes of both streams were written before it.")]
    line: Annotated[str, Meta(description="At most 8 KiB of it.")]
    truncated: bool
    before: list[str]
    after: list[str]


class MatchPage(AnswerMembers, kw_only=True, frozen=True):
    """Lines that contain a text, in the order of writing."""

    process_id: str
    matches: list[Match]
    cursor: Annotated[str, Meta(description="Where to search on.")]
    more: Annotated[bool, Meta(description="Not everything was searched yet.")]
    completed: bool
    redacted: Redacted = 0


class Uploaded(AnswerMembers, kw_only=True, frozen=True):
    """A file that was written, and the command that has written it."""

    path: str
    bytes: int
    process_id: str


class Written(AnswerMembers, kw_only=True, frozen=True):
    """How much of the body went into the process's input."""

    written: int
    eof: bool


class Alive(AnswerMembers, kw_only=True, frozen=True):
    """The server answers."""

    status: Literal["alive"]


class _Found(AnswerMembers, kw_only=True, frozen=True):
    """How many of the processes that lived when the server was started are found again."""

    known: int
    of: int


class Ready(AnswerMembers, kw_only=True, frozen=True):
    """The server can start commands."""

    status: Literal["ready"]
    keeper: Literal["reachable"]
    registry: Literal["writable"]
    finding: Annotated[
        _Found | None,
        Meta(description="After a restart, until everything that lived is found again: how far that is."),
    ] = None


class Problem(msgspec.Struct, kw_only=True, frozen=True):
    """What went wrong (RFC 9457). `slug` is stable; `hint` says what to do next."""

    type: Annotated[str, Meta(description="A reference to the documentation of `slug`.")]
    title: str
    status: int
    detail: str
    slug: str
    hint: str
    # Said aloud: some generators of clients take an object without this for one without members.
    details: Annotated[dict[str, Any], Meta(extra_json_schema={"additionalProperties": True})] | None = None
    degraded: Annotated[Degraded | None, Meta(description=f"{_WHY_DEGRADED} Of `/readyz` only.")] = None


class TrackedProcess(AnswerMembers, kw_only=True, frozen=True):
    """A process as /api/async/processes/list/ shows it. Times are local, without zone."""

    pid: int | None
    request_id: str
    command: str
    status: Status
    started_at: str
    exit_code: int | None
    terminated_at: str | None
    termination_signal: Literal["SIGTERM", "SIGKILL"] | None
    output_lost: Annotated[bool, Meta(description="Some of its output is lost; absent where none is.")] = (
        False
    )
    left: Annotated[
        int, Meta(description="How many processes it has left running; absent where none are.")
    ] = 0
    redacted: Redacted = 0
    reachable: Reachable = True


class TrackedProcesses(AnswerMembers, kw_only=True, frozen=True):
    """The newest processes, newest first."""

    processes: list[TrackedProcess]
    count: int
    degraded: _Degraded = None


class Terminated(AnswerMembers, kw_only=True, frozen=True):
    """How a process was ended."""

    success: bool
    pid: int
    request_id: str
    signal: Literal["SIGTERM", "SIGKILL"]
    message: str


class Started(TrackedProcess, kw_only=True, frozen=True):
    """A process that was started in the background."""

    process_id: str


class Finished(Started, kw_only=True, frozen=True):
    """A process with its output: as much of each stream as `max_output_size` allows."""

    success: Annotated[
        bool | None, Meta(description="Whether it ended by itself with exit code 0; null while it runs.")
    ]
    stdout: str
    stderr: str
    duration: float
    timeout: float | None
    error: str | None


class SyncAnswer(Finished, kw_only=True, frozen=True):
    """A process that has ended, as front ends of the documented back end read it, too."""

    output: Annotated[str, Meta(description="The same as stdout.")]
    error: Annotated[str | None, Meta(description="Why it did not end by itself, else stderr.")]
    return_code: Annotated[int | None, Meta(description="The same as exit_code.")]


_NOT_SHOWN = ("pgid", "session_id")  # members that only JSON-RPC has


def process_view(record: ProcessRecord) -> dict[str, object]:
    """Return everything that a caller may know of a process.

    Its members mean the same as in JSON-RPC's `get`.
    """
    # One list of members for both frontends: a new one of JSON-RPC is in REST at once.
    view: dict[str, object] = {**jsonrpc_view(record)}
    for name in _NOT_SHOWN:
        del view[name]
    view["status"] = status_of(record)
    return view


def match_view(
    stream: int,
    offset: int,
    end: int,
    line: bytes,
    before: tuple[bytes, ...],
    after: tuple[bytes, ...],
    *,
    at: int,
) -> dict[str, object]:
    """Return a line that contains the text that was searched for; `at` is where it begins among both
    streams.
    """
    return {
        "type": STREAM_NAMES[stream],
        "offset": offset,
        "end": end,
        "at": at,
        "line": _text(line),
        "truncated": len(line) < end - offset,
        "before": [_text(one) for one in before],
        "after": [_text(one) for one in after],
    }


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
