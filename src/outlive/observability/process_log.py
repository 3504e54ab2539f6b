"""The server's log lines for the engine's events: one summary line for each process, approvals, the keeper's
connections.

Formatting and writing belong to `logs`; the record of each caller's actions belongs to `audit`. Never logs
output, environment or keys.
"""

import asyncio
import itertools
import logging
from collections.abc import Iterable
from typing import cast

from outlive.core.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    KeeperConnected,
    KeeperDisconnected,
    ProcessCompleted,
    ProcessRecovered,
    ProcessStarted,
)
from outlive.core.process import ProcessRecord
from outlive.observability.logs import log_each

_logger = logging.getLogger(__name__)

# Lines are written together after this pause: a writing thread that wakes for each event would hold up the
# event loop.
_PAUSE_S = 0.05


class ProcessLog:
    """Writes the lines of many events together, some 20 times a second: no client waits for them.

    On one event loop.
    """

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._timer: asyncio.TimerHandle | None = None

    def note(self, event: Event) -> None:
        """Write the event's line soon."""
        self._events.append(event)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE_S, self.flush)

    def flush(self) -> None:
        """Write the waiting lines now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        events, self._events = self._events, []
        # Completions usually come in runs: one record serves the lines of a whole run (`log_each`).
        for kind, group in itertools.groupby(events, key=type):
            if kind is ProcessCompleted:
                _log_completed(cast("Iterable[ProcessCompleted]", group))
            else:
                for event in group:
                    log_event(event)


def logged_kinds() -> list[type[Event]]:
    """Return the kinds of events that have a line at the current level.

    The engine need not create the others.
    """
    kinds: list[type[Event]] = [
        ApprovalRequested,
        ApprovalDecided,
        ProcessCompleted,
        ProcessRecovered,
        KeeperConnected,
        KeeperDisconnected,
    ]
    return [*kinds, ProcessStarted] if _logger.isEnabledFor(logging.DEBUG) else kinds


def log_event(event: Event) -> None:
    """Write the line that belongs to an event, if any; the engine calls it on the loop."""
    match event:
        case ProcessCompleted():
            _log_completed((event,))
        case ApprovalRequested(record=record):
            _logger.info(
                "approval needed",
                extra={"process_id": record.process_id, "principal": record.owner.principal},
            )
        case ApprovalDecided(record=record):
            extra = {"process_id": record.process_id, "verdict": event.verdict, "by": event.by or None}
            _logger.info("approval decided", extra=extra)
        case ProcessRecovered(record=record):
            _logger.info("process found alive", extra={"process_id": record.process_id, "pid": record.pid})
        case ProcessStarted(record=record):
            _logger.debug("process started", extra={"process_id": record.process_id, "pid": record.pid})
        case KeeperConnected(pid=pid):
            _logger.info("keeper connected", extra={"pid": pid})
        case KeeperDisconnected():
            _logger.warning("keeper disconnected: processes go on, connecting again")
        case _:
            pass


def _log_completed(events: Iterable[ProcessCompleted]) -> None:
    log_each(_logger, logging.INFO, "process completed", (_summary(event.record) for event in events))


def _summary(record: ProcessRecord) -> dict[str, object]:
    """Return the fields of the line about a process's end.

    The command is not among them: it may hold secrets.
    """
    begun = record.started_at or record.created_at
    duration_s = (record.ended_at - begun).total_seconds() if record.ended_at is not None else None
    return {
        "process_id": record.process_id,
        "principal": record.owner.principal,
        "exit": record.wire_exit_code,
        "state": record.state,
        "cause": record.cause,
        "duration_s": duration_s,
        "bytes": record.stdout_bytes + record.stderr_bytes,
        "backend": record.location.backend,
    }
