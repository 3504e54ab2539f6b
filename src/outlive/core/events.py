"""What happened to processes, for logs, metrics, audit and bookkeeping: immutable events of the engine.

Pure values. The engine makes them (`Engine.subscribe_events`); subscribers never feed anything back.
Output is no event: it is read from the log by cursor.
"""

from dataclasses import dataclass

from outlive.core.process import ProcessRecord

__all__ = [
    "Event",
    "KeeperConnected",
    "KeeperDisconnected",
    "ProcessClosed",
    "ProcessCompleted",
    "ProcessRecovered",
    "ProcessRemoved",
    "ProcessStarted",
    "StartRejected",
    "StateChanged",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStarted:
    """A command runs: the keeper has acknowledged the start."""

    record: ProcessRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRejected:
    """A command was not started; `code` is the error's slug, `principal` who asked."""

    principal: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecovered:
    """A process that an earlier server started was found alive and belongs to this server now."""

    record: ProcessRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged:
    """A process moved to `record.state`: queued, paused, running again, stopping, ended. Short states may be skipped."""

    record: ProcessRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCompleted:
    """A process has ended and its output is whole. Exactly one for each process and server run."""

    record: ProcessRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessClosed:
    """Nothing can write to the streams of this (completed) process any more."""

    record: ProcessRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRemoved:
    """The record and the output of an ended process were removed, by retention or because somebody asked.

    `record` is what was known of it last; None where nobody knew it any more.
    """

    process_id: str
    record: ProcessRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperConnected:
    """The keeper answers; `pid` is the supervisor's, `sessions` are the POSIX sessions of all its parts."""

    pid: int
    sessions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperDisconnected:
    """The keeper stopped answering; the commands go on and the engine reconnects by itself."""


Event = (
    ProcessStarted
    | StartRejected
    | ProcessRecovered
    | StateChanged
    | ProcessCompleted
    | ProcessClosed
    | ProcessRemoved
    | KeeperConnected
    | KeeperDisconnected
)
