"""What is known about one process: `ProcessRecord`, an immutable snapshot for every frontend. Pure.

With it: `Observation`, what its tree looks like from outside at one moment; and `Status`, the five words for
its state that the process tools, the registry and REST share (promise W.state.rest).

Changing a process's tags: which stay, which are set, which are removed (RFC 7396); and which names it may
have. Pure.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from outlive.core.command import ApprovalState, Grant, Sandbox
from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest
from outlive.core.identity import ProcessId, is_name, short_id, short_name
from outlive.core.lifecycle import ENDED, Cause, State
from outlive.core.location import HERE, Location
from outlive.core.needs import Needs
from outlive.core.terminal import TerminalNote
from outlive.core.values import dataclass, field

_UNBOUND = Sandbox()

# "no": nothing was seen; "input": it is reading its input; "password": it is reading from a terminal without
# echo.
Waiting = Literal["no", "input", "password"]

# Of the processes of projects' services: the door that starts them, and the tag with the service's name.
SERVICES_DOOR, SERVICE_TAG = "services", "service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The principal, connection and request that own a process, or that ask.

    The frontend they use, and their address.

    `inside` matters only at the start: the process of ours in whose tree the caller lives. `door` (the
    frontend) and `address` ("127.0.0.1:50124", "unix pid 4711") are for the audit log only. An administrator
    (`is_admin`) may choose a weaker profile than the default. `traceparent`: the span in which the request
    was made, valid (`protocols.trace_context`), "" for none. `host` is what an MCP client calls itself.
    """

    principal: str
    connection_id: str | None = None
    request_id: str | None = None
    inside: str | None = None
    is_admin: bool = False
    door: str = ""
    address: str = ""
    traceparent: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOrigin:
    """Where a start came from: the frontend, the MCP client's own name, its request there, and the process in
    whose tree the caller lived.

    Unlike the members of `Owner` it decides nothing: it is kept to be shown, for as long as the record is.
    """

    door: str = ""
    host: str = ""
    call: str = ""
    parent: str = ""

    @classmethod
    def of(cls, owner: Owner) -> "StartOrigin":
        """Return where a start of this owner comes from.

        A hash that stands for a request over REST (its key) is no request's id.
        """
        call = "" if owner.door == "rest" else owner.request_id or ""
        return cls(door=owner.door, host=owner.host, call=call, parent=owner.inside or "")

    def encode(self) -> dict[str, str]:
        """Return what is known of it, as it is stored and shown."""
        members = {"door": self.door, "host": self.host, "call": self.call, "parent": self.parent}
        return {name: value for name, value in members.items() if value}

    @classmethod
    def decode(cls, kept: object) -> "StartOrigin":
        """Return what `encode` described; nothing where it was nothing."""
        if not isinstance(kept, dict):
            return UNKNOWN_ORIGIN
        return cls(**{name: str(kept.get(name) or "") for name in ("door", "host", "call", "parent")})


UNKNOWN_ORIGIN = StartOrigin()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """A snapshot of one process.

    Exactly one of `exit_code` and `exit_signal` is set once a process has ended with a known result; none
    while it runs, when it failed to start, or when it is lost.

    `error` is None for a natural end, else one sentence. `is_complete`: it has ended, and its output is
    complete. `is_unknown`: it runs on a node that is away, or is still being found after a restart; the rest
    is what was known last. `is_closed`: nothing can write to its streams any more. `secret_names` are
    variables whose values are in no file. `project` is the folder whose processes share short ids, keys and
    workspaces (None: those of no project). `number` is its short id there, from 1: "p7" for 7. `key` is the
    name under which its caller finds it again instead of starting it twice. `name` is what its caller calls
    it: no two that live in a project have the same one. `output_lost`: some of its output is not in the log,
    and no gap stands for it; `lost_bytes` says how much, if that is known. `approval`: the approval that it
    needed; not known for a process that only the index remembers. `terminal`: it is the shell of one.
    `grant`: the token of its own, while it runs. `waiting`: what it was found to wait for; known only while
    it is watched (`engine.processes.question_watch`). `is_at_prompt`: that is the next command of a shell or
    another interpreter, and nothing is asked. `is_person_asked`: a person was notified of what is asked.
    `is_session_over`: the client has ended the MCP session that started it; known only while it lives.
    `needs`: what the machine must have that runs it; None where nothing was counted. `redacted`: how many
    secrets are redacted in `command` (in all of it, even where it is shown cut). Times are aware UTC, sizes
    bytes.
    """

    process_id: ProcessId
    command: str
    shell: str | None
    cwd: str
    state: State
    owner: Owner
    origin: StartOrigin = UNKNOWN_ORIGIN
    stdio: str = "pipes"
    stdin: str = "none"
    pid: int | None = None
    cause: Cause = Cause.NONE
    exit_code: int | None = None
    exit_signal: int | None = None
    error: str | None = None
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    is_complete: bool = False
    is_closed: bool = False
    is_stalled: bool = False
    is_unknown: bool = False
    has_gaps: bool = False
    output_lost: bool = False
    lost_bytes: int | None = None
    descendants: int = 0
    waiting: Waiting = "no"
    is_at_prompt: bool = False
    is_person_asked: bool = False
    is_session_over: bool = False
    is_detached: bool = False
    timeout_s: float | None = None
    grace_s: float = 10.0
    tags: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None
    command_id: str | None = None
    project: str | None = None
    number: int | None = None
    key: str | None = None
    name: str | None = None
    approval: ApprovalState | None = None
    grant: Grant | None = None
    sandbox: Sandbox = _UNBOUND
    secret_names: tuple[str, ...] = ()
    terminal: TerminalNote | None = None
    location: Location = HERE
    needs: Needs | None = None
    redacted: int = 0

    @property
    def short_id(self) -> str:
        """The name by which its project calls it: "p7"; the process id where it has no number."""
        return self.process_id if self.number is None else short_id(self.number)

    @property
    def label(self) -> str:
        """What a sentence calls it: its name or short id, and what lists show of its id: "web (7m2x4q)"."""
        own = self.name or (None if self.number is None else short_id(self.number))
        shown = short_name(self.process_id)
        return shown if own is None else f"{own} ({shown})"

    @property
    def is_ended(self) -> bool:
        """Whether the main process has ended (its output may still be drained)."""
        return self.state in ENDED

    @property
    def is_finished(self) -> bool:
        """Whether nothing about it can change any more: closed, and nothing is left of its tree."""
        return self.is_closed and not self.descendants

    @property
    def is_reachable(self) -> bool:
        """Whether it can be acted on now, as far as is known: not while its node is away, or not heard of
        yet.
        """
        return not (self.is_unknown and self.location.is_elsewhere)

    @property
    def waits_for(self) -> Literal["approval", "group", "place"] | None:
        """What a queued process waits for; None for every other.

        In a group that is its turn there, and then a place.
        """
        if self.state is not State.QUEUED:
            return None
        if self.approval is not None and self.approval.approved_by is None:
            return "approval"
        return "place" if self.needs is not None and self.group is None else "group"

    @property
    def held_up_by(self) -> str:
        """Why the turn of a process that waits for none but its turn has not come, as a clause."""
        if self.needs is None:
            return "its group is full"
        return "no machine has room for it" if self.group is None else "its group is full, or every machine"

    @property
    def hint(self) -> str | None:
        """What a person has to do so that it goes on; None if nothing."""
        if self.waits_for != "approval":
            return None
        return f"A person has to approve it: outlive approve {self.process_id}"

    @property
    def cursor(self) -> Cursor:
        """The end of the output as far as it is known."""
        return Cursor(self.stdout_bytes, self.stderr_bytes)

    @property
    def wire_exit_code(self) -> int | None:
        """The exit code as S0 shows it: 0..255, minus the signal number, or None (promise S0.9)."""
        return -self.exit_signal if self.exit_signal is not None else self.exit_code


# What a wait for a process is about: it is complete; its streams are closed, too; it waits for input, or is
# complete; or it asks for input (what waits at its own prompt, as a shell, does not), or is complete.
WaitUntil = Literal["complete", "closed", "input", "question"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingApproval:
    """What a person decides about: the words that would be executed, whatever the command calls itself.

    `digest` stands for all that decides what runs (`WaitingCommand.digest`). `script` is whole where its size
    is `script_bytes`, else its first 64 KiB. `env` holds what the caller has set, by name: a masked value, or
    None for a variable that is taken away. `redacted`: how many secrets and values are stars in the words,
    the script, the reason and `env`.
    """

    record: ProcessRecord
    digest: str
    argv: tuple[str, ...]
    script: str
    script_bytes: int
    env: Mapping[str, str | None]
    redacted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InputWait:
    """A thread that waits for input: which one (the kernel's number), and how often it has slept until now.

    Two looks that return equal values have seen the same sleep. `is_certain` is False where a program that
    asks and one that merely listens look the same to the kernel. `is_at_prompt`: it waits for the next
    command, as a shell does.
    """

    kind: Literal["input", "password"]
    thread: int = 0
    wakes: int = 0
    is_certain: bool = True
    is_at_prompt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Sums over a command and all its living descendants.

    Best effort: processes of another user are not seen.

    `cpu_s` is processor time, with that of children that were waited for. `memory_bytes` is what is in memory
    (pages that several processes share are counted for each). `pids`: parents first. `ports`: TCP ports on
    which the tree listens, ascending. `is_at_prompt`: as in `InputWait`. `is_busy`: something of it computes,
    or waits for a disk; all else sleeps.
    """

    pids: tuple[int, ...] = ()
    threads: int = 0
    cpu_s: float = 0.0
    memory_bytes: int = 0
    ports: tuple[int, ...] = ()
    waiting: Waiting = "no"
    is_at_prompt: bool = False
    is_busy: bool = False


NOTHING = Observation()


Status = Literal["running", "completed", "failed", "timeout", "terminated"]

_KILL = 9
_WAS_ENDED = frozenset({Cause.CANCEL, Cause.TIMEOUT, Cause.SHUTDOWN, Cause.OUTPUT_LIMIT})


def status_of(record: ProcessRecord) -> Status:
    """Return the word for a record: a paused process still runs.

    One that is lost, or has lost output, has failed.
    """
    if not record.is_ended:
        return "running"
    return end_status(record.cause, is_clean=record.exit_code == 0 and not record.output_lost)


def end_status(cause: Cause, *, is_clean: bool) -> Status:
    """Return the word for an end: why it was ended, and whether with exit code 0 and all of its output."""
    if cause is Cause.TIMEOUT:
        return "timeout"
    if cause in {Cause.CANCEL, Cause.SHUTDOWN}:
        return "terminated"
    return "completed" if is_clean else "failed"


def termination_signal(record: ProcessRecord) -> Literal["SIGTERM", "SIGKILL"] | None:
    """Return the signal by which outlive ended a process; None while it runs, and if it ended by itself.

    A process that handled TERM and then exited was ended by SIGTERM.
    """
    if not record.is_ended or record.cause not in _WAS_ENDED:
        return None
    return "SIGKILL" if record.exit_signal == _KILL else "SIGTERM"


MAX_TAGS = 64
MAX_TAG_NAME = 128  # characters
MAX_TAG_VALUE = 1024  # characters


def check_tags(tags: Mapping[str, str]) -> None:
    """Do nothing for tags that a process may have; the same check for every frontend.

    Raises:
        InvalidRequest: As `merge_tags`.
    """
    if tags:
        merge_tags({}, tags)


def merge_tags(tags: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return `tags` with `changes`: a value sets a tag, None removes it, tags that are not named stay.

    Raises:
        InvalidRequest: A name is empty, a text too long, or there would be more than 64.
    """
    for name, value in changes.items():
        if not 1 <= len(name) <= MAX_TAG_NAME:
            raise InvalidRequest("invalid_params", f"tags: a name has 1 to {MAX_TAG_NAME} characters.")
        if value is not None and len(value) > MAX_TAG_VALUE:
            raise InvalidRequest("invalid_params", f"tags: a value has at most {MAX_TAG_VALUE} characters.")
    merged = {name: value for name, value in {**tags, **changes}.items() if value is not None}
    if len(merged) > MAX_TAGS:
        raise InvalidRequest("invalid_params", f"tags: a process may have {MAX_TAGS} of them.")
    return merged


def check_name(name: str) -> None:
    """Do nothing for a name that a process may have; the same check for every frontend.

    Raises:
        InvalidRequest: `name_invalid`.
    """
    if not is_name(name):
        raise InvalidRequest("name_invalid", f"A process cannot be called {name[:70]!r}.")
