"""What the client returns: pieces of output, how a process ended, what is known of it.

Values only; `messages` reads them.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypedDict

from outlive.core.cursor import Cursor
from outlive.core.errors import OutliveError
from outlive.core.identity import ProcessId
from outlive.core.values import dataclass

Stream = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class Output:
    """Some bytes of one stream, as the process wrote them; `cursor` is the position behind them.

    `redacted`: how many secrets were replaced by stars in them and not counted with earlier bytes.
    """

    stream: Stream
    data: bytes
    cursor: Cursor
    redacted: int = 0


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes `start` to `end` of one stream that the log no longer holds; `cursor` is the position behind
    them.
    """

    stream: Stream
    start: int
    end: int
    cursor: Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """How a process ended.

    At most one of `exit_code` (0 to 255) and `exit_signal` is set; neither when it cannot be known. `error`
    is None for a natural end, else one sentence. `output_lost`: some of its output is not in the log.
    """

    exit_code: int | None
    exit_signal: int | None
    error: str | None
    cursor: Cursor
    output_lost: bool = False

    @property
    def returncode(self) -> int | None:
        """The end in the one number that `subprocess` uses: the exit code, or minus the signal."""
        return self.exit_code if self.exit_signal is None else -self.exit_signal


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A command that was run to its end, with all of its output that the log kept.

    `returncode` as `subprocess` has it; None where it cannot be known.
    """

    process_id: str
    returncode: int | None
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """What it printed on stdout, as UTF-8."""
        return self.stdout.decode(errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Recorded output, oldest first; the next page is at `cursor`.

    No items means caught up, not finished: for that see `is_complete`. `has_more`: there is more now.
    """

    items: tuple[Output | Gap, ...]
    cursor: Cursor
    has_more: bool
    is_complete: bool

    @property
    def redacted(self) -> int:
        """How many secrets were replaced by stars in it."""
        return sum(item.redacted for item in self.items if isinstance(item, Output))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStats:
    """A process's tree at one moment, as the kernel shows it; sums over all its living processes.

    `cpu_s` is processor time since the start, `memory_bytes` the resident memory. `pids`: parents first.
    `ports`: TCP ports that it listens on. `waiting` is "input", "password", or None when it waits for
    neither; `is_at_prompt`: for its next command.
    """

    pids: tuple[int, ...]
    threads: int
    cpu_s: float
    memory_bytes: int
    ports: tuple[int, ...]
    waiting: str | None
    is_at_prompt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """What is known of a process at one moment. Times are aware UTC, durations seconds, sizes bytes.

    `state` is one of queued, starting, running, paused, stopping, exited, signaled, failed_to_start, lost;
    `cause` one of cancel, timeout, output_limit, oom, shutdown, approval_denied, approval_expired, or None
    for a natural end. `waits_for` says what a queued one waits for ("approval", "group" or "place"), `hint`
    what a person has to do for that. `waiting` is "input" or "password" where it waits for that,
    `is_at_prompt` that this is its next command, as with a shell, and `is_person_asked` that a person was
    notified. `is_session_over`: it lives, and the MCP session that started it was ended. `is_complete`: it
    has ended and its output is whole. `is_closed`: no process can write to its streams any more.
    `descendants` counts the living processes of its tree besides itself. `session_id` names the connection
    that started it. `profile` is its sandbox and `features` the parts of it that took effect; `secret_names`
    are its `env_secrets`. `location` says where it runs ("backend", "image", "container"), None on the
    server's own machine. `needs` are what its machine must have, None where nothing was counted.
    `is_unknown`: it runs on a node that is away, or is still being found after a restart, and everything else
    is what was known last; `is_reachable` is false while its node is away. `output_lost`: some of its output
    is not in the log, `lost_bytes` of it where that is known. `redacted`: how many secrets were replaced by
    stars in `command`. `short_id` is its name in its `project` ("p7"), `key` its caller's key for it there,
    `name` what its caller has called it. `started_by` says where its start came from ("door", and "host",
    "call" and "parent" where they are known). `stats` is set where it was asked for.
    """

    process_id: ProcessId
    state: str
    command: str
    shell: str | None
    cwd: str
    pid: int | None
    exit_code: int | None
    exit_signal: int | None
    error: str | None
    cause: str | None
    is_complete: bool
    is_closed: bool
    is_stalled: bool
    is_detached: bool
    has_gaps: bool
    descendants: int
    cursor: Cursor
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    stdio: str
    stdin: str
    timeout_s: float | None
    grace_s: float
    tags: Mapping[str, str]
    group: str | None
    session_id: str | None
    profile: str
    features: tuple[str, ...]
    secret_names: tuple[str, ...]
    waits_for: str | None = None
    waiting: str | None = None
    is_at_prompt: bool = False
    is_person_asked: bool = False
    is_session_over: bool = False
    hint: str | None = None
    location: Mapping[str, str] | None = None
    needs: Mapping[str, Any] | None = None
    is_unknown: bool = False
    is_reachable: bool = True
    output_lost: bool = False
    lost_bytes: int | None = None
    redacted: int = 0
    short_id: str | None = None
    project: str | None = None
    key: str | None = None
    name: str | None = None
    started_by: Mapping[str, str] | None = None
    stats: ProcessStats | None = None

    @property
    def returncode(self) -> int | None:
        """The end in the one number that `subprocess` uses: the exit code, or minus the signal; None until
        then.
        """
        return self.exit_code if self.exit_signal is None else -self.exit_signal


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingApproval:
    """A command that waits for a person's approval. Times are aware UTC.

    `digest` is a hash of everything that decides what runs; `Client.approve` takes it. `argv` are the words
    that would be executed (`command` may be a title). `script` is the script that would run, the first 64 KiB
    of `script_bytes` bytes. `env` is what the caller set, values redacted unless `raw` was asked for (None:
    the variable is removed), `variables` its names. `always` is what approving it for always would approve:
    the real folder of its `project`, and `commands`, the words of each; None where it can be approved
    `only_once`, which says why. `redacted`: how many secrets and values were replaced by stars.
    """

    process_id: ProcessId
    digest: str
    command: str
    argv: tuple[str, ...]
    script: str | None
    script_bytes: int
    cwd: str
    variables: tuple[str, ...]
    env: Mapping[str, str | None]
    profile: str
    location: Mapping[str, str] | None
    reason: str
    principal: str
    since: datetime
    expires_at: datetime | None
    tags: Mapping[str, str]
    group: str | None
    always: Mapping[str, Any] | None = None
    only_once: str = ""
    redacted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLine:
    """A line of a process's output that matches: bytes `offset` to `end` of a stream, without its newline.

    `line` is at most 8 KiB of it, from byte `line_from` on; the first match is bytes `hit` to `hit_end`, with
    `at` bytes of both streams written before it. `before` and `after` are lines around it. `redacted`: how
    many secrets are stars in all of these.
    """

    process_id: ProcessId
    name: str | None
    short_id: str | None
    project: str | None
    command: str
    stream: Stream
    offset: int
    end: int
    hit: int
    hit_end: int
    at: int
    line: str
    line_from: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    redacted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLines:
    """What a search has found; `next` is where it goes on, None once everything was searched.

    `processes` were searched to their end for it, `read_bytes` of output read; that of `unreadable` ones
    could not be. `searched_bytes` is how much output it has searched, what an index excludes included, and
    `left_bytes` how much is left, about.
    """

    matches: tuple[FoundLine, ...]
    next: str | None
    processes: int
    read_bytes: int
    unreadable: int
    searched_bytes: int
    left_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceInfo:
    """One service of a project at one moment. Times are aware UTC.

    `state` is one of waiting, starting, running (and not ready yet), ready, backing_off, stopping, stopped,
    failed, done; `since` then. `process_id` is its newest process, `restarts` counts the starts by its
    policy. `until`: when it is started again (backing_off), or killed (stopping). `exit_code` or
    `exit_signal` is of its last end, `error` why that was not its own, or why it could not be started.
    `is_blocked`: it waits for one of `after` that will not be ready.
    """

    name: str
    state: str
    command: str
    process_id: str | None
    restarts: int
    since: datetime
    until: datetime | None
    exit_code: int | None
    exit_signal: int | None
    error: str | None
    after: tuple[str, ...]
    is_blocked: bool

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens to it by itself."""
        return self.is_blocked or self.state in {"stopped", "failed", "done"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StackInfo:
    """The services of one project, in the order of its file; `revision` is another number after each
    change.
    """

    folder: str
    project: str
    revision: int
    services: tuple[ServiceInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEvent:
    """One event; `at` is aware UTC.

    `event` is queued, approval_requested, approval_decided (`reason`: approved, denied, expired, withdrawn),
    started, recovered, paused, resumed, stopping, ended, closed, relabeled, session_ended, removed; rejected
    (a start that was refused: `reason` is the error's slug); keeper_connected, keeper_disconnected;
    node_connected, node_away (`node` is its name, `reason` why); or missed: `missed` events were dropped
    before this one, 0 where their number is not known. `info` is the process at that moment.
    """

    event: str
    at: datetime
    process_id: ProcessId | None = None
    info: ProcessInfo | None = None
    reason: str | None = None
    missed: int = 0
    node: str | None = None

    @classmethod
    def missing(cls) -> "ProcessEvent":
        """Return the event `missed` for an unknown number of events."""
        return cls(event="missed", at=datetime.now(UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Something that was not copied: its name in the copied folder, and why."""

    name: str
    error: OutliveError


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What a copy has done.

    `source` and `target` are what was meant, in words; `files`, `folders` and `links` were copied, `kept`
    were there already, with the same size and time; `sent_bytes` are those of files that were sent.
    """

    source: str
    target: str
    files: int
    folders: int
    links: int
    kept: int
    sent_bytes: int
    left_out: tuple[LeftOut, ...]


class DiskPart(TypedDict):
    """What processes of one state take."""

    processes: int
    bytes: int


class ProjectDisk(TypedDict):
    """What a project's processes take; `project` None is what belongs to none."""

    project: str | None
    processes: int
    running: int
    bytes: int
    reclaimable_bytes: int
    states: dict[str, DiskPart]


class DiskRule(TypedDict):
    """One part of the retention rule: `limit` None is none, `next_at` ISO 8601."""

    rule: str
    limit: int | None
    used: int
    processes: int
    bytes: int
    next_at: str | None


class DiskReport(TypedDict):
    """What takes the state folder's disk, with the members of GET /v1/disk (docs/rest.md)."""

    processes: int
    running: int
    bytes: int
    reclaimable_bytes: int
    states: dict[str, DiskPart]
    projects: list[ProjectDisk]
    own_bytes: int
    free_bytes: int
    total_bytes: int
    retention: list[DiskRule]
