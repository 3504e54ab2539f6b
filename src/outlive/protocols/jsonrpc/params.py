"""Parameters of every method as msgspec structs: unknown members are ignored, the rest is checked here, once.

Member names are the wire's (promises S0.3, S0.10, S0.19); `timeout`, `grace` and `wait_s` are seconds.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from outlive.core.command import UMASK_PATTERN, Command, parse_umask
from outlive.core.errors import InvalidRequest
from outlive.core.lifecycle import State
from outlive.core.location import Isolation
from outlive.protocols.jsonrpc.happenings import EventName
from outlive.protocols.jsonrpc.views import Encoding
from outlive.protocols.limits import LimitParams, to_limits

OutputMode = Literal["lines", "chunk", "binary", "none"]
MAX_LINE_BYTES = 16 * 1024 * 1024  # one line is one message in memory; longer ones are read back from the log
_MAX_PAGE_BYTES = 256 * 1024  # what the event loop may read from a log in one turn

_Seconds = Annotated[float, Meta(ge=0, le=10 * 365 * 86400)]
_Timeout = Annotated[float, Meta(gt=0, le=10 * 365 * 86400)]
_Cells = Annotated[int, Meta(ge=1, le=65535)]  # struct winsize holds 16 bits (ioctl_tty(2))
_LineBytes = Annotated[int, Meta(ge=1, le=MAX_LINE_BYTES)]
_Bytes = Annotated[int, Meta(ge=1, le=2**62)]
_Umask = Annotated[str, Meta(pattern=UMASK_PATTERN)]
_Nice = Annotated[int, Meta(ge=-20, le=19)]  # setpriority(2)
_Count = Annotated[int, Meta(ge=1, le=1_000_000)]


class ProcessParams(msgspec.Struct, kw_only=True, frozen=True):
    """Which process is meant; without an id the one that runs in this connection."""

    process_id: str | None = None


class GetParams(ProcessParams, kw_only=True, frozen=True):
    """`get`: one process, and with `stats` what its tree looks like now."""

    stats: bool = False


class ExecuteParams(msgspec.Struct, kw_only=True, frozen=True):
    """`execute`: a shell line or an argument vector, and how to run it; repeated with one `process_id` it runs once."""

    process_id: str | None = None
    command: str | None = None
    argv: tuple[str, ...] | None = None
    script: str | None = None
    cwd: str | None = None
    env: dict[str, str | None] = {}
    env_secrets: dict[str, str] = {}
    inherit_env: bool = True
    words: Encoding = "utf-8"
    title: str | None = None
    timeout: _Timeout | None = None
    grace: _Seconds | None = None
    pty: bool = False
    rows: _Cells = 24
    cols: _Cells = 80
    merge: bool = False
    stdin: Literal["none", "pipe", "lent"] = "none"
    detach: bool = False
    concurrent: bool = False
    output: OutputMode = "lines"
    raw: bool = False
    max_line_bytes: _LineBytes | None = None
    output_limit: _Bytes | None = None
    on_limit: Literal["truncate", "block", "kill"] = "truncate"
    after_exit: Literal["keep", "kill", "wait"] = "keep"
    tags: dict[str, str] = {}
    group: str | None = None
    group_limit: _Count | None = None
    profile: str | None = None
    limits: LimitParams | None = None
    backend: str | None = None
    image: str | None = None
    isolation: Isolation | None = None
    umask: _Umask | None = None
    nice: _Nice | None = None
    grant: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no shell and no kernel could run."""
        if (self.command is None) == (self.argv is None):
            raise ValueError("Pass either command (a shell line) or argv (a list of words)")
        if self.words == "base64":
            return  # checked when they are decoded
        if self.command is not None and not self.command.strip():
            raise ValueError("The command is empty")
        if self.argv is not None and not (self.argv and self.argv[0]):
            raise ValueError("argv needs a program as its first word")
        if "\0" in "".join((self.command or "", self.cwd or "", *(self.argv or ()), *_texts(self.env))):
            raise ValueError("NUL characters cannot be passed to a process")
        if self.env and any(not name or "=" in name for name in self.env):
            raise ValueError("A name in env is not empty and holds no =")

    def to_command(self) -> Command:
        """Return the command as the engine takes it.

        Raises:
            InvalidRequest: `words` is "base64", and one of them is not.
        """
        read = _from_base64 if self.words == "base64" else str
        return Command(
            line=None if self.command is None else read(self.command),
            argv=None if self.argv is None else tuple(map(read, self.argv)),
            script=None if self.script is None else read(self.script),
            cwd=None if self.cwd is None else read(self.cwd),
            title=self.title,
            env={read(name): None if value is None else read(value) for name, value in self.env.items()},
            inherits_env=self.inherit_env,
            stdio="pty" if self.pty else "merge" if self.merge else "pipes",
            stdin=self.stdin,
            rows=self.rows,
            cols=self.cols,
            timeout_s=self.timeout,
            grace_s=self.grace,
            output_limit=self.output_limit,
            on_limit=self.on_limit,
            after_exit=self.after_exit,
            detached=self.detach,
            tags=self.tags,
            group=self.group,
            group_limit=self.group_limit,
            profile=self.profile,
            limits=to_limits(self.limits),
            backend=self.backend,
            image=self.image,
            grant=self.grant,
            isolation=self.isolation,
            umask=parse_umask(self.umask),
            nice=self.nice,
            env_secrets={read(name): read(value) for name, value in self.env_secrets.items()},
        )


class ControlParams(ProcessParams, kw_only=True, frozen=True):
    """`control`: what to do, under either of the two names that clients use."""

    type: Literal["PAUSE", "RESUME", "CANCEL"] | None = None
    action: Literal["PAUSE", "RESUME", "CANCEL"] | None = None
    grace: _Seconds | None = None

    def __post_init__(self) -> None:
        """Ask for exactly one verb."""
        if self.type is None and self.action is None:
            raise ValueError('Pass "type": "PAUSE", "RESUME" or "CANCEL"')
        if self.type is not None and self.action is not None and self.type != self.action:
            raise ValueError("type and action name different verbs")

    @property
    def verb(self) -> Literal["PAUSE", "RESUME", "CANCEL"]:
        """The verb that was asked for."""
        verb = self.type or self.action
        if verb is None:
            raise AssertionError("__post_init__ has refused this")
        return verb


class ApprovalsParams(msgspec.Struct, kw_only=True, frozen=True):
    """`approvals`; `raw` hides no secrets in the words."""

    raw: bool = False


class ProcessIdParams(msgspec.Struct, kw_only=True, frozen=True):
    """Exactly this process."""

    process_id: str


class ApproveParams(ProcessIdParams, kw_only=True, frozen=True):
    """`approve`: exactly this process, if it is what `approvals` has shown with this digest."""

    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class DenyParams(ProcessIdParams, kw_only=True, frozen=True):
    """`deny`: exactly this process, and why, in one sentence."""

    reason: Annotated[str, Meta(max_length=500)] = ""


class AttachParams(msgspec.Struct, kw_only=True, frozen=True):
    """`attach`: follow a process from a cursor on."""

    process_id: str
    cursor: str = "0"
    output: OutputMode = "lines"
    raw: bool = False
    max_line_bytes: _LineBytes | None = None


class NodesParams(msgspec.Struct, kw_only=True, frozen=True):
    """`nodes`: nothing to say."""


class ListParams(msgspec.Struct, kw_only=True, frozen=True):
    """`list`: which processes, newest first; `before` is the last process_id of the page before."""

    active: bool | None = None
    group: str | None = None
    tags: dict[str, str] | None = None
    before: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


class ReadParams(ProcessParams, kw_only=True, frozen=True):
    """`read`: one page of output, both streams in the order of writing."""

    cursor: str = "0"
    limit: Annotated[int, Meta(ge=1, le=_MAX_PAGE_BYTES)] = 65536
    encoding: Encoding = "utf-8"
    raw: bool = False


class WriteParams(ProcessParams, kw_only=True, frozen=True):
    """`write`: bytes for the process's input, as text or base64."""

    data: str
    encoding: Encoding = "utf-8"


class ResizeParams(ProcessParams, kw_only=True, frozen=True):
    """`resize`: the terminal's window size."""

    rows: _Cells
    cols: _Cells


class SignalParams(ProcessParams, kw_only=True, frozen=True):
    """`signal`: a number or a name ("INT", "SIGINT"), for the main process, its group or the tree."""

    signal: int | str
    whole_tree: bool = False
    whole_group: bool = False

    def __post_init__(self) -> None:
        """Refuse two addressees."""
        if self.whole_tree and self.whole_group:
            raise ValueError("Pass whole_tree or whole_group, not both")


class ReleaseParams(ProcessParams, kw_only=True, frozen=True):
    """`release`: output before `cursor` was delivered and may go; `unbound`: nobody will read and release any more."""

    cursor: str = "0"
    unbound: bool = False


class CloseOutputParams(ProcessParams, kw_only=True, frozen=True):
    """`close_output`: the pipe that nobody reads any more."""

    type: Literal["stdout", "stderr"]


class RelabelParams(ProcessParams, kw_only=True, frozen=True):
    """`relabel`: tags to set (null removes one), and the group (null takes it out of its group; absent leaves it)."""

    tags: dict[str, str | None] = {}
    group: Annotated[str, Meta(min_length=1, max_length=128)] | UnsetType | None = UNSET


class RemoveParams(ProcessParams, kw_only=True, frozen=True):
    """`remove`: forget a finished process; with `force` it is ended first."""

    force: bool = False


class EventsParams(msgspec.Struct, kw_only=True, frozen=True):
    """`events`: which events to tell; null is no condition. `follow` false ends it."""

    follow: bool = True
    events: tuple[EventName, ...] | None = None
    process_ids: tuple[str, ...] | None = None
    group: str | None = None
    tags: dict[str, str] | None = None
    states: tuple[State, ...] | None = None


class WaitParams(ProcessParams, kw_only=True, frozen=True):
    """`wait`: until the process is complete, or its streams closed; at most `wait_s` seconds."""

    until: Literal["complete", "closed"] = "complete"
    wait_s: Annotated[float, Meta(ge=0, le=3600)] = 45.0


_Params = TypeVar("_Params", bound=msgspec.Struct)


def decode_params(raw: bytes, shape: type[_Params]) -> _Params:
    """Return checked parameters.

    Raises:
        InvalidRequest: A member is missing, has the wrong type or an impossible value; the message says which.
    """
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.DecodeError as error:  # a ValidationError is one too; syntax was checked with the frame
        raise InvalidRequest("invalid_params", _sentence(str(error))) from None


def _texts(env: Mapping[str, str | None]) -> Iterable[str]:
    return (*env, *[value for value in env.values() if value is not None]) if env else ()


def _from_base64(word: str) -> str:
    """Return the bytes of a word as text, those that are no UTF-8 as PEP 383 has it."""
    try:
        return base64.b64decode(word, validate=True).decode("utf-8", "surrogateescape")
    except ValueError as error:
        raise InvalidRequest("invalid_params", f"words: not base64 ({error}).") from None


def _sentence(message: str) -> str:
    """Turn "Expected `str`, got `int` - at `$.command`" into "command: expected str, got int."."""
    text, _, place = message.partition(" - at ")
    text = text.replace("`", "")
    name = place.strip("`").removeprefix("$").removeprefix(".")
    if name:
        text = f"{name}: {text[:1].lower()}{text[1:]}"
    return f"{text}."
