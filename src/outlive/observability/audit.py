"""Who did what: `AuditLog` hears the engine's events and has them written by a thread of its own.

Nobody waits for the disk: an entry is queued with its time and is in the file some milliseconds later, many at once. The
queue is bounded; when it is full whoever has something to enter waits a moment, and what cannot be entered because the
disk refuses for long is counted and told, in the audit log as in the server's. Never sees input, output or environment.
"""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime

from outlive.core.events import (
    ApprovalDecided,
    ApprovalRequested,
    Deed,
    Event,
    ProcessCompleted,
    ProcessRecovered,
    ProcessRemoved,
    ProcessStarted,
    StartRejected,
)
from outlive.core.process import Owner, ProcessRecord
from outlive.observability.tally import Tally
from outlive.store.audit_trail import AuditTrail

__all__ = ["AuditLog", "audited_kinds"]

_logger = logging.getLogger(__name__)

_Entry = dict[str, object]

_CAPACITY = 65_536  # some 40 MB of entries at most
_PATIENCE_S = (
    2.0  # a queue that long means a disk that does not take 30 MB/s: better late than without an entry
)
# Entries are collected for so long: a thread that wakes for each takes the interpreter from the event loop.
_COLLECT_S = 0.01
_RETRY_S = 1.0
_CLOSE_PATIENCE_S = 5.0
_MOST_SHOWN = 4096  # characters of a command
_TEXTS = ("command", "note", "path")  # what a caller has written
_DENIED = (
    "command_",
    "approval_",
    "foreign_",
    "key_",
    "token_",
    "scope_",
    "not_owner",
)  # slugs that begin so


class AuditLog:
    """Enters what happens into an `AuditTrail`. `open` starts its thread, `close` writes what waits.

    `note` is called on the event loop, the others from anywhere.
    """

    def __init__(self, trail: AuditTrail, *, redact: Callable[[str], str], capacity: int = _CAPACITY) -> None:
        """Write to `trail`; `redact` takes secrets out of texts."""
        self._trail = trail
        self._redact = redact
        self._queue: queue.Queue[_Entry | None] = queue.Queue(capacity)
        self._is_refused = False  # the disk took nothing at the last try
        self._lost = 0
        self._tally = Tally()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._run, name="audit-writer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what waits, for at most some seconds."""
        if self._thread is None:
            return
        for deed in self._tally.rest():
            self._note_deed(deed)
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=_CLOSE_PATIENCE_S)
            self._thread.join(_CLOSE_PATIENCE_S)
        self._thread = None

    def note(self, event: Event) -> None:
        """Enter an event of the engine."""
        match event:
            case ProcessStarted(record=record):
                self._put("start", record.owner, decision="allowed", **_about(record), command=record.command)
            case StartRejected(code=code):
                self._note_rejection(event, code)
            case ApprovalRequested(record=record):
                self._put("start", record.owner, decision="asked", **_about(record), command=record.command)
            case ApprovalDecided():
                self._note_approval(event)
            case ProcessRecovered(record=record):
                self._put("found", record.owner, **_about(record), command=record.command)
            case ProcessCompleted(record=record):
                for counted in self._tally.of_process(record.process_id):
                    self._note_deed(counted)
                self._put("exit", record.owner, **_about(record), **_ending(record))
            case ProcessRemoved(process_id=process_id):
                self._put("removed", None, process_id=process_id)
            case Deed():
                for deed in self._tally.pass_on(event, time.time_ns()):
                    self._note_deed(deed)
            case _:
                pass

    def enter(self, what: str, **fields: str | int | None) -> None:
        """Enter something that is no event: the server's start, its end."""
        self._put(what, None, **fields)

    def _note_rejection(self, event: StartRejected, code: str) -> None:
        by = event.by or Owner(principal=event.principal)
        self._put(
            "start",
            by,
            decision="denied" if code.startswith(_DENIED) else "failed",
            reason=code,
            process_id=event.process_id,
            command=event.command or None,
        )

    def _note_approval(self, event: ApprovalDecided) -> None:
        record = event.record
        self._put(
            "approval",
            record.owner,
            decision="allowed" if event.verdict == "approved" else "denied",
            reason=event.verdict,
            approver=event.by or None,
            note=event.reason or None,
            process_id=record.process_id,
            command=record.command,
        )

    def _note_deed(self, deed: Deed) -> None:
        self._put(
            deed.what,
            deed.by,
            decision=deed.decision,
            reason=deed.reason or None,
            process_id=deed.process_id,
            command=deed.command or None,
            **dict(deed.details),
        )

    def _put(self, what: str, by: Owner | None, **fields: str | int | None) -> None:
        """Queue an entry; the fields that are None are left out."""
        entry: _Entry = {"at": time.time_ns(), "what": what}
        if by is not None:
            entry |= {"principal": by.principal, "door": by.door or None, "address": by.address or None}
            entry |= {"connection": by.connection_id, "request": by.request_id}
        entry |= fields
        try:
            if self._is_refused:  # nobody waits for a disk that has said no
                self._queue.put_nowait(entry)
            else:
                self._queue.put(entry, timeout=_PATIENCE_S)
        except queue.Full:
            self._lost += 1

    def _run(self) -> None:
        is_open = True
        waiting: list[_Entry] = []
        while is_open or waiting:
            is_open = self._collect(waiting) and is_open
            if waiting and not self._write(waiting):
                if not is_open:
                    return  # the disk says no, and the server is going
                time.sleep(_RETRY_S)
        # Not before the end: each commit of the file system's journal stops the keeper's starts and logs with it.
        with contextlib.suppress(OSError):
            self._trail.sync()

    def _collect(self, waiting: list[_Entry]) -> bool:
        """Take what is queued, waiting for the first where there is nothing; False: the end was asked for."""
        if not waiting:
            first = self._queue.get()
            if first is None:
                return False
            waiting.append(self._shown(first))
            time.sleep(_COLLECT_S)
        with contextlib.suppress(queue.Empty):
            while len(waiting) < _CAPACITY:
                entry = self._queue.get_nowait()
                if entry is None:
                    return False
                waiting.append(self._shown(entry))
        return True

    def _write(self, waiting: list[_Entry]) -> bool:
        lost = self._lost
        told = [{"at": _time_of(time.time_ns()), "what": "audit", "reason": "entries_lost", "lost": lost}]
        try:
            self._trail.append([*waiting, *(told if lost else [])])
        except (OSError, ValueError) as error:
            if not self._is_refused:
                reason = _words(error)
                _logger.warning("the audit log cannot be written: entries wait", extra={"reason": reason})
            self._is_refused = True
            return False
        if self._is_refused:
            _logger.warning("the audit log is written again", extra={"lost": lost})
        self._is_refused = False
        self._lost -= lost
        waiting.clear()
        return True

    def _shown(self, entry: _Entry) -> _Entry:
        """Return an entry as it is written: its time as people write it, no secrets, nothing that is not known."""
        at = entry["at"]
        shown = {name: value for name, value in entry.items() if value is not None}
        shown["at"] = _time_of(at) if isinstance(at, int) else at
        for name in _TEXTS:
            text = shown.get(name)
            if isinstance(text, str):
                text = self._redact(text)
                shown[name] = text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"
        return shown


def audited_kinds() -> Collection[type[Event]]:
    """Return the kinds of events that are entered; the others need not be made."""
    return (
        ProcessStarted,
        StartRejected,
        ApprovalRequested,
        ApprovalDecided,
        ProcessRecovered,
        ProcessCompleted,
        ProcessRemoved,
        Deed,
    )


def _about(record: ProcessRecord) -> dict[str, str | int | None]:
    return {"process_id": record.process_id, "pid": record.pid}


def _ending(record: ProcessRecord) -> dict[str, str | int | None]:
    return {
        "exit": record.wire_exit_code,
        "state": record.state.value,
        "cause": record.cause.value or None,
        "bytes": record.stdout_bytes + record.stderr_bytes,
    }


def _time_of(at_ns: int) -> str:
    moment = datetime.fromtimestamp(at_ns // 1_000_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ns % 1_000_000_000 // 1000:06d}Z"


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__
