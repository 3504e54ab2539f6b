"""What happened to processes, for logs, metrics, audit and bookkeeping: immutable events of the engine.

Pure values. The engine makes them (`engine.processes.event_publisher`); subscribers never feed anything back.
Output is no event: it is read from the log by cursor.
"""

from collections.abc import Mapping
from typing import Literal

from outlive.core.process import Owner, ProcessRecord
from outlive.core.values import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStarted:
    """A command runs: the keeper has acknowledged the start."""

    record: ProcessRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRejected:
    """A command was not started; `code` is the error's slug, `principal` the one that asked.

    `by` and `command` give the audit log more detail, if known. `container` is the one in which it was to
    run, if it is certain that nothing runs there for it.
    """

    principal: str
    code: str
    by: Owner | None = None
    command: str = ""
    process_id: str | None = None
    container: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested:
    """A command waits until a person decides (`record.approval`)."""

    record: ProcessRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecided:
    """A command does not wait for an approval any more; `by` decided ("" if the time ran out), `reason` was
    given with it.
    """

    record: ProcessRecord
    verdict: Literal["approved", "denied", "expired", "withdrawn"]
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecovered:
    """A process that an earlier server started was found alive and belongs to this server now."""

    record: ProcessRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged:
    """A process moved to `record.state`: queued, paused, running again, stopping, ended.

    Short states may be skipped.
    """

    record: ProcessRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequested:
    """A watched process waits for input (`record.waiting`), also at its own prompt.

    Published again when it asks again.
    """

    record: ProcessRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCompleted:
    """A process has ended and its output is complete. Exactly one for each process and server run."""

    record: ProcessRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRelabeled:
    """A process, running or ended, has other tags, another group or another name; they are on disk."""

    record: ProcessRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded:
    """The MCP session that had started a living process was ended by its client; the process goes on."""

    record: ProcessRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessClosed:
    """Nothing can write to the streams of this (completed) process any more."""

    record: ProcessRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRemoved:
    """The record and the output of an ended process were removed, by retention or on request.

    `record` is what was known of it last; None if nothing was known any more.
    """

    process_id: str
    record: ProcessRecord | None


# Filters of system calls, the limit of file locks, and namespaces (None: one that cannot be read).
KeeperBounds = tuple[int, int, tuple[str | None, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperConnected:
    """The keeper answers; `pid` is the supervisor's, `sessions` are the POSIX sessions of all parts of the
    keeper, `bounds` is what bounds it (`kernel.callers.Confinement`), None where that is not known.
    """

    pid: int
    sessions: tuple[int, ...] = ()
    bounds: KeeperBounds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperDisconnected:
    """The keeper stopped answering; the commands go on, and the engine reconnects by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConnected:
    """The node `name` answers: what is known of its processes is true again."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAway:
    """The node `name` does not answer, for `reason`.

    Its processes go on, but their state is unknown here meanwhile.
    """

    name: str
    reason: str


Decision = Literal["allowed", "denied", "asked", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """A caller did something other than start a command, or was refused: for the audit log alone.

    `what` is one word of `docs/audit.md`; `reason` is the slug of the refusal or failure; `details` are small
    plain values, never input, output, environment values or keys.
    """

    what: str
    by: Owner
    decision: Decision = "allowed"
    reason: str = ""
    process_id: str | None = None
    command: str = ""
    details: Mapping[str, str | int | bool] = field(default_factory=dict)


Event = (
    ProcessStarted
    | StartRejected
    | ApprovalRequested
    | ApprovalDecided
    | ProcessRecovered
    | StateChanged
    | InputRequested
    | ProcessCompleted
    | ProcessClosed
    | ProcessRelabeled
    | SessionEnded
    | ProcessRemoved
    | KeeperConnected
    | KeeperDisconnected
    | NodeConnected
    | NodeAway
    | AuditEvent
)
