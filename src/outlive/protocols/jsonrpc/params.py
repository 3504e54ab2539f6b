"""Parameters of the methods that start and look, as msgspec structs: unknown members are ignored.

What other frontends take, too, is inherited from `outlive.operations`; here stands what only JSON-RPC has.
Parameters of methods that act on one process are declared beside those methods
(`frontends.jsonrpc.controls`). Member names are the wire's (promises S0.3, S0.10, S0.19); `timeout`, `grace`
and `wait_s` are seconds.
"""

import base64
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from outlive.core.command import Command
from outlive.core.errors import InvalidRequest
from outlive.core.lifecycle import State
from outlive.core.process import WaitUntil
from outlive.core.values import replace
from outlive.operations.controls import Approving, Denial
from outlive.operations.requests import ListFilter, Niceness, ProjectFolder
from outlive.operations.search import SearchRequest
from outlive.operations.start import StartOptions, check_streams, check_words
from outlive.protocols.jsonrpc.answers import EventName
from outlive.protocols.jsonrpc.output import MAX_LINE_BYTES
from outlive.protocols.jsonrpc.views import Encoding

OutputMode = Literal["lines", "chunk", "binary", "none"]
_MAX_PAGE_BYTES = 256 * 1024  # that the event loop may read from a log in one turn

_MOST_USAGES = 100  # more rows than a screen shows; 10 ms of /proc

_LineBytes = Annotated[int, Meta(ge=1, le=MAX_LINE_BYTES)]


# Which process is meant; null is the one that runs in this session.
ProcessIdMember = Annotated[
    str | None,
    Meta(
        description="Its id, name, short id (p7), command id, the end of its id, its pid, or @last; the one "
        "that runs in this session, if left out."
    ),
]
ProjectMember = Annotated[
    ProjectFolder | None, Meta(description="The folder in which names, short ids and @last count.")
]


class ProcessParams(msgspec.Struct, kw_only=True, frozen=True):
    """Which process is meant; without an id the one that runs in this session."""

    process_id: ProcessIdMember = None
    project: ProjectMember = None


class GetParams(ProcessParams, kw_only=True, frozen=True):
    """`get`: one process, and with `stats` what its tree looks like now."""

    stats: bool = False


class ExecuteParams(StartOptions, kw_only=True, frozen=True):
    """`execute`: a shell line or an argument vector, and how to run it.

    Repeated with one `process_id` it runs once.
    """

    process_id: Annotated[str | None, Meta(description="Its name, a ULID in lower case.")] = None
    command: Annotated[str | None, Meta(description="A shell line, of any length.")] = None
    argv: Annotated[
        tuple[str, ...] | None, Meta(description="A program and its words; no shell is between.")
    ] = None
    script: Annotated[
        str | None, Meta(description="The content of a file whose path becomes the last word of argv.")
    ] = None
    inherit_env: Annotated[bool, Meta(description="Whether env is added to the server's environment.")] = True
    words: Annotated[
        Encoding, Meta(description="base64: command, argv, script, cwd and variables are base64.")
    ] = "utf-8"
    title: Annotated[str | None, Meta(description="What lists show instead of the words.")] = None
    detach: Annotated[bool, Meta(description="It belongs to the principal, not to this session.")] = False
    concurrent: Annotated[bool, Meta(description="Another one of this session may run.")] = False
    output: Annotated[OutputMode, Meta(description="How its output is sent.")] = "lines"
    output_session: Annotated[
        str | None,
        Meta(
            description=(
                "Another open session of the same principal, which gets its output instead of this one."
            )
        ),
    ] = None
    raw: Annotated[bool, Meta(description="Hide no secrets in it; needs the scope admin.")] = False
    max_line_bytes: Annotated[
        _LineBytes | None, Meta(description="Longer lines are cut when they are sent.")
    ] = None
    nice: Annotated[Niceness | None, Meta(description="What it begins with; the server's own else.")] = None
    traceparent: Annotated[
        str | None,
        Meta(
            description=(
                "The span in which it is started (W3C Trace Context); one that is invalid counts as none."
            )
        ),
    ] = None

    def __post_init__(self) -> None:
        """Refuse commands that no shell and no kernel could run."""
        if (self.command is None) == (self.argv is None):
            raise ValueError("Pass either command (a shell line) or argv (a list of words)")
        if self.words == "base64":  # the engine checks the words once they are decoded
            check_streams(pty=self.pty, merge=self.merge)
            return
        super().__post_init__()
        check_words(self.command, self.argv, self.script)

    def to_command(self) -> Command:
        """Return the command in the form that the engine takes.

        Raises:
            InvalidRequest: `words` is "base64", and a word is not.
        """
        command = self.make_command(
            line=self.command,
            argv=self.argv,
            script=self.script,
            title=self.title,
            inherits_env=self.inherit_env,
            detached=self.detach,
            nice=self.nice,
        )
        if self.words == "base64":
            decoded: dict[str, Any] = {name: _from_base64(getattr(command, name)) for name in _ENCODED}
            command = replace(command, **decoded)
        return command


# -- approvals


class ApprovalsParams(msgspec.Struct, kw_only=True, frozen=True):
    """`approvals`; `raw` hides no secrets in the words."""

    raw: bool = False


class ApproveParams(Approving, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """`approve`: exactly this process, if it is what `approvals` has shown with this digest."""

    process_id: str


class DenyParams(Denial, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """`deny`: exactly this process, and why, in one sentence."""

    process_id: str


# -- output and lists


class AttachParams(msgspec.Struct, kw_only=True, frozen=True):
    """`attach`: follow a process from a cursor on."""

    process_id: str
    project: ProjectMember = None
    cursor: str = "0"
    output: OutputMode = "lines"
    raw: bool = False
    max_line_bytes: _LineBytes | None = None


class ListParams(ListFilter, kw_only=True, frozen=True):
    """`list`: which processes, newest first; `before` is the last process_id of the page before."""

    active: bool | None = None
    group: str | None = None
    tags: dict[str, str] | None = None
    before: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


class SearchParams(SearchRequest, kw_only=True, frozen=True):
    """`search`: what is looked for, and in the output of which processes; `tags` as in `list`."""

    tags: dict[str, str] | None = None


class UsageParams(msgspec.Struct, kw_only=True, frozen=True):
    """`usage`: which processes, by their ids."""

    process_ids: Annotated[tuple[str, ...], Meta(max_length=_MOST_USAGES)]


class ReadParams(ProcessParams, kw_only=True, frozen=True):
    """`read`: one page of output, both streams in the order of writing."""

    cursor: str = "0"
    limit: Annotated[int, Meta(ge=1, le=_MAX_PAGE_BYTES)] = 65536
    encoding: Encoding = "utf-8"
    times: bool = False
    raw: bool = False


# -- events and waiting


class EventsParams(msgspec.Struct, kw_only=True, frozen=True):
    """`events`: which events to tell; null is no condition. `follow` false ends it.

    With `distinct`, `closed` is left out where `ended` has shown the process closed already.
    """

    follow: bool = True
    events: tuple[EventName, ...] | None = None
    process_ids: tuple[str, ...] | None = None
    project: ProjectMember = None
    group: str | None = None
    tags: dict[str, str] | None = None
    states: tuple[State, ...] | None = None
    distinct: bool = False


class WaitParams(ProcessParams, kw_only=True, frozen=True):
    """`wait`: until the process is complete, its streams closed, or it waits for input.

    At most `wait_s` seconds.
    """

    until: WaitUntil = "complete"
    wait_s: Annotated[float, Meta(ge=0, le=3600)] = 45.0


# What `words` is about: texts that may hold bytes which are no UTF-8.
_ENCODED = ("line", "argv", "script", "cwd", "env", "env_secrets")


def _from_base64(words: object) -> object:
    """Return words, or variables, with the bytes of each as text.

    Those that are no UTF-8 as PEP 383 has it.
    """
    if isinstance(words, Mapping):
        return {_from_base64(name): _from_base64(value) for name, value in words.items()}
    if isinstance(words, tuple):
        return tuple(map(_from_base64, words))
    if not isinstance(words, str):
        return words
    try:
        return base64.b64decode(words, validate=True).decode("utf-8", "surrogateescape")
    except ValueError as error:
        raise InvalidRequest("invalid_params", f"words: not base64 ({error}).") from None
