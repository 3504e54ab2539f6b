"""The audit log, which records each caller's actions: `AuditLog` takes the engine's events, and a thread of
its own writes them.

What is done is in other files, too, so no caller waits for its entry: an event is queued with its time, and
is in the file 0.1 s later, together with others. What is refused stands here alone: `recorded` returns once
it does, and the doors answer then. The queue is bounded. When it is full, the caller waits a moment; entries
that cannot be made because the disk refuses for longer are counted, and their number is recorded in the audit
log and the server's log.

`witness` returns once its entry is in the file, for actions that must not happen without an entry.

`Entries` turns events into documents; `Tally` merges typing at a terminal, and refusals of one caller: both
can come a thousand times a second, and one entry with a number records as much. Files, their chain and their
removal belong to `store.audit.audit_trail`.
"""

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from outlive.core.errors import BackendUnavailable
from outlive.core.events import (
    ApprovalDecided,
    ApprovalRequested,
    AuditEvent,
    Event,
    ProcessCompleted,
    ProcessRecovered,
    ProcessRemoved,
    ProcessStarted,
    StartRejected,
)
from outlive.core.process import Owner, ProcessRecord
from outlive.core.values import replace
from outlive.store.audit.audit_trail import AuditTrail

_QUIET_NS = 10 * 1_000_000_000  # like events within ten seconds become one entry
_MOST_KEYS = 1024  # different kinds that are counted at once; a caller must not be able to fill the memory
_TYPED = frozenset({"write", "resize"})

_Key = tuple[str | None, ...]


class Tally:
    """Passes the first of many like events on at once.

    The others of the same ten seconds come as one, with their number.
    """

    def __init__(self) -> None:
        # By key: when the ten seconds began, the latest event, how many came after the first, and their
        # bytes.
        self._open: dict[_Key, tuple[int, AuditEvent, int, int]] = {}

    def pass_on(self, deed: AuditEvent, now_ns: int) -> Iterator[AuditEvent]:
        """Yield the events to be entered now that `deed` has happened."""
        key = _key_of(deed)
        if key is None:
            yield deed
            return
        begun, _, times, size = self._open.get(key, (0, deed, 0, 0))
        if now_ns - begun < _QUIET_NS:
            more = deed.details.get("bytes", 0)
            self._open[key] = (begun, deed, times + 1, size + int(more))
            return
        # The ten seconds are over. With too many keys open, all are closed to make room.
        yield from self._close([key] if len(self._open) < _MOST_KEYS else list(self._open))
        self._open[key] = (now_ns, deed, 0, 0)
        yield deed

    def of_process(self, process_id: str) -> Iterable[AuditEvent]:
        """Return the merged events of a process that has ended, so that they are entered before its end."""
        if not self._open:
            return ()
        return self._close([key for key in self._open if key[0] == process_id])

    def rest(self) -> Iterator[AuditEvent]:
        """Yield all merged events that were not entered yet."""
        yield from self._close(list(self._open))

    def _close(self, keys: list[_Key]) -> Iterator[AuditEvent]:
        for key in keys:
            _, deed, times, size = self._open.pop(key, (0, None, 0, 0))
            if deed is not None and times:
                counted = {"times": times} | ({"bytes": size} if "bytes" in deed.details else {})
                yield replace(deed, details={**deed.details, **counted})


def _key_of(deed: AuditEvent) -> _Key | None:
    """Return what like events have in common; None for an event that gets an entry of its own."""
    by = deed.by
    if deed.what in _TYPED and deed.decision == "allowed":
        return (deed.process_id, deed.what, by.principal, by.address, by.connection_id)
    if deed.what == "access":
        # Without the port, which differs for each connection.
        host = by.address.rpartition(":")[0] or by.address
        return (None, deed.what, deed.reason, host)
    return None


Entry = dict[str, object]

_MOST_SHOWN = 4096  # characters of a command
# Slugs that begin so are decisions against the caller ("denied"); the others are failures ("failed").
_DENIED = (
    "command_",
    "approval_",
    "foreign_",
    "key_",
    "token_",
    "scope_",
    "not_owner",
)


class Entries:
    """Turns events, and entries without an event, into documents; for one thread.

    Never sees input, output or environment.
    """

    def __init__(self, *, redact: Callable[[str], str]) -> None:
        """Take `redact`, which removes secrets from texts."""
        self._redact = redact
        self._tally = Tally()
        self._second = (-1, "")  # the latest second and its text: thousands of entries share one

    def of(self, at_ns: int, happened: Event | Entry) -> Iterable[Entry]:
        """Return the entries of an event at this time (nanoseconds since 1970).

        None while it is only counted.
        """
        match happened:
            case ProcessStarted(record=record):
                return (
                    self._about(
                        at_ns,
                        "start",
                        record,
                        decision="allowed",
                        command=record.command,
                        grant=None if record.grant is None else record.grant.scope,
                    ),
                )
            case ProcessCompleted(record=record):
                counted = self._tally.of_process(record.process_id)
                return (
                    *[self._of_deed(at_ns, deed) for deed in counted],
                    self._about(at_ns, "exit", record, **_ending(record)),
                )
            case AuditEvent():
                return [self._of_deed(at_ns, deed) for deed in self._tally.pass_on(happened, at_ns)]
            case StartRejected():
                return (self._of_rejection(at_ns, happened),)
            case ApprovalRequested(record=record):
                return (self._about(at_ns, "start", record, decision="asked", command=record.command),)
            case ApprovalDecided():
                return (self._of_approval(at_ns, happened),)
            case ProcessRecovered(record=record):
                return (self._about(at_ns, "found", record, command=record.command),)
            case ProcessRemoved(process_id=process_id):
                return (self._entry(at_ns, "removed", None, process_id=process_id),)
            case dict():
                return (_known({"at": self._time_of(at_ns), **happened}),)
            case _:
                return ()

    def rest(self, at_ns: int) -> Iterator[Entry]:
        """Yield the entries of events that were only counted so far."""
        for deed in self._tally.rest():
            yield self._of_deed(at_ns, deed)

    def _of_rejection(self, at_ns: int, event: StartRejected) -> Entry:
        """Return the entry of a refused or failed start."""
        return self._entry(
            at_ns,
            "start",
            event.by or Owner(principal=event.principal),
            decision="denied" if event.code.startswith(_DENIED) else "failed",
            reason=event.code,
            process_id=event.process_id,
            command=self._shown(event.command) or None,
        )

    def _of_approval(self, at_ns: int, event: ApprovalDecided) -> Entry:
        """Return the entry of a person's decision about a waiting start, with the approver beside the
        owner.
        """
        record = event.record
        return self._about(
            at_ns,
            "approval",
            record,
            decision="allowed" if event.verdict == "approved" else "denied",
            reason=event.verdict,
            approver=event.by or None,
            note=self._shown(event.reason) or None,
            command=record.command,
        )

    def _of_deed(self, at_ns: int, deed: AuditEvent) -> Entry:
        """Return the entry of an audited call."""
        details = {
            name: self._shown(value) if isinstance(value, str) else value
            for name, value in deed.details.items()
        }
        return self._entry(
            at_ns,
            deed.what,
            deed.by,
            decision=deed.decision,
            reason=deed.reason or None,
            process_id=deed.process_id,
            command=self._shown(deed.command) or None,
            **details,
        )

    def _about(self, at_ns: int, what: str, record: ProcessRecord, **fields: str | int | None) -> Entry:
        """Return an entry about a process."""
        command = fields.get("command")
        if isinstance(command, str):
            fields["command"] = self._shown(command)
        return self._entry(at_ns, what, record.owner, process_id=record.process_id, pid=record.pid, **fields)

    def _entry(self, at_ns: int, what: str, by: Owner | None, **fields: str | int | None) -> Entry:
        """Return an entry as it is written, without the members that are not known."""
        at = self._time_of(at_ns)
        if by is None:
            return _known({"at": at, "what": what, **fields})
        entry: Entry = {
            "at": at,
            "what": what,
            "principal": by.principal,
            "door": by.door or None,
            "address": by.address or None,
            "connection": by.connection_id,
            "request": by.request_id,
            **fields,
        }
        return _known(entry)

    def _shown(self, text: str) -> str:
        # Redacted before it is cut: a secret at the cut would otherwise no longer be recognized.
        text = self._redact(text) if text else text
        return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"

    def _time_of(self, at_ns: int) -> str:
        """Return the time as ISO 8601 in UTC with microseconds."""
        second, rest_ns = divmod(at_ns, 1_000_000_000)
        if self._second[0] != second:
            self._second = (second, f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}")
        return f"{self._second[1]}.{rest_ns // 1000:06d}Z"


def audited_kinds() -> Collection[type[Event]]:
    """Return the kinds of events that are entered; the engine need not create the others."""
    return (
        ProcessStarted,
        StartRejected,
        ApprovalRequested,
        ApprovalDecided,
        ProcessRecovered,
        ProcessCompleted,
        ProcessRemoved,
        AuditEvent,
    )


def _ending(record: ProcessRecord) -> dict[str, str | int | None]:
    return {
        "exit": record.wire_exit_code,
        "state": record.state.value,
        "cause": record.cause.value or None,
        "bytes": record.stdout_bytes + record.stderr_bytes,
    }


def _known(entry: Entry) -> Entry:
    if None not in entry.values():  # nearly always
        return entry
    return {name: value for name, value in entry.items() if value is not None}


_logger = logging.getLogger(__name__)


def _is_refusal(happened: Event | Entry) -> bool:
    is_denied = isinstance(happened, AuditEvent) and happened.decision != "allowed"
    return is_denied or isinstance(happened, StartRejected)


_Happened = tuple[int, Event | Entry]  # nanoseconds since 1970, and the event


class _Witness(NamedTuple):
    """A caller that waits until everything queued before it is in the file, or until that has failed."""

    loop: asyncio.AbstractEventLoop
    written: "asyncio.Future[bool]"

    def notify(self, *, is_written: bool) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the caller is gone
            self.loop.call_soon_threadsafe(self._settle, is_written)

    def _settle(self, is_written: bool) -> None:  # noqa: FBT001 -- call_soon_threadsafe passes no keywords
        if not self.written.done():
            self.written.set_result(is_written)


_CAPACITY = 65_536  # some 40 MB of entries at most
# How long a caller waits for room in the queue. A full queue means a disk below 30 MB/s: better late than
# without an entry.
_ROOM_S = 2.0
# Entries are collected for so long: a thread that wakes for each one takes the interpreter lock from the
# event loop.
_COLLECT_S = 0.1
_RETRY_S = 1.0  # after the disk has refused
# For an entry that has to be in the file first, on a slow disk; no longer than a person would wait.
_WITNESS_S = 5.0
_REFUSAL_S = 1.0  # for the entry of a refusal; after that its caller is answered all the same
_CLOSE_S = 5.0  # for the last entries at the end of the server


class AuditLog:
    """Enters events into an `AuditTrail`. `open` starts its thread, `close` writes the waiting entries.

    `note` is called on the event loop, `enter` from any thread; both only queue, and the thread makes the
    entries.
    """

    def __init__(self, trail: AuditTrail, *, redact: Callable[[str], str], capacity: int = _CAPACITY) -> None:
        """Write to `trail`; `redact` removes secrets from texts."""
        self._trail = trail
        self._entries = Entries(redact=redact)
        self._capacity = capacity
        self._queue: queue.SimpleQueue[_Happened | _Witness | None] = queue.SimpleQueue()
        self._is_refused = False  # whether the disk has refused the last attempt
        self._lost = 0  # entries that could not be queued, and are not recorded yet
        self._thread: threading.Thread | None = None
        self._naming = threading.Lock()
        self._name: Callable[[int], None] | None = None
        self._hurry = threading.Event()  # set while a witness waits for an entry
        self._witnesses: list[
            _Witness
        ] = []  # taken from the queue, not notified yet; used by the thread only
        # Refusals that were queued (counted on the event loop), taken from the queue, and written.
        self._refused = self._taken = self._recorded = 0
        self._number = 0  # the log's number, once an entry of this server is in its files
        self._has_begun = threading.Event()

    def open(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._run, name="audit-writer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write the waiting entries, for at most 5 seconds."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(_CLOSE_S)
        self._thread = None

    async def witness(self, deed: AuditEvent) -> None:
        """Return when an entry is in the log's file, so that the action may happen now. On the event loop.

        Raises:
            BackendUnavailable: `audit_unavailable`: the disk refuses it, or does not answer in time.

        Cancellation: safe; the entry is made.
        """
        try:
            is_written = self.note(deed) and await self._written(_WITNESS_S)
        except TimeoutError:
            text = f"The audit log has not taken the entry within {_WITNESS_S:.0f} s."
            raise BackendUnavailable("audit_unavailable", text) from None
        if not is_written:
            raise BackendUnavailable("audit_unavailable", "The audit log cannot be written.")

    async def recorded(self) -> None:
        """Return when every refusal that was noted is in the log's file, so that it may be answered now.

        Also while the disk refuses entries, and after 1 s if it does not answer. On the event loop.
        """
        if self._recorded < self._refused and not self._is_refused:
            with contextlib.suppress(TimeoutError):
                await self._written(_REFUSAL_S)

    async def _written(self, patience_s: float) -> bool:
        """Wait until the file has what was queued; False: the disk has refused it."""
        loop = asyncio.get_running_loop()
        witness = _Witness(loop, loop.create_future())
        self._queue.put(witness)
        self._hurry.set()
        async with asyncio.timeout(patience_s):
            return await witness.written

    def enter(self, what: str, **fields: str | int | None) -> None:
        """Enter something that is no event of the engine: the server's start, its end."""
        self.note({"what": what, **fields})
        self._hurry.set()  # before what other programs of ours enter, once they see the server

    def tell_name(self, hear: Callable[[int], None]) -> None:
        """Call `hear` with the log's number once the log has an entry: at once, or later from the writing
        thread.
        """
        with self._naming:
            self._name = hear
            if self._number:
                hear(self._number)

    def wait_begun(self) -> None:
        """Return when the log has an entry, or after 2 seconds. Blocks."""
        self._has_begun.wait(_ROOM_S)

    def note(self, happened: Event | Entry) -> bool:
        """Queue an event of the engine with its time; False: there was no room, and it is counted as lost."""
        now_ns = time.time_ns()
        if self._queue.qsize() >= self._capacity and not self._has_room():
            self._lost += 1
            return False
        if _is_refusal(happened):  # never of `enter`, in another thread
            self._refused += 1
        self._queue.put((now_ns, happened))
        return True

    def _has_room(self) -> bool:
        """Wait a moment for room in the queue; not at all while the disk refuses."""
        deadline = time.monotonic() + _ROOM_S
        while self._queue.qsize() >= self._capacity:
            if self._is_refused or time.monotonic() > deadline:
                return False
            time.sleep(_COLLECT_S)
        return True

    def _run(self) -> None:
        """Write until `close`; the thread's only function."""
        is_open = True
        waiting: list[Entry] = []
        while is_open or waiting:
            is_open = self._collect(waiting) and is_open
            is_written = not waiting or self._write(waiting)
            if is_written:
                self._recorded = self._taken
            while self._witnesses:
                self._witnesses.pop().notify(is_written=is_written)
            if not is_written:
                if not is_open:
                    return  # the server is ending, and the disk still refuses: the entries are lost
                self._hurry.wait(_RETRY_S)
        # fsync only at the end: each commit of the file system's journal would stall the keeper's starts and
        # logs, too.
        with contextlib.suppress(OSError):
            self._trail.sync()

    def _collect(self, waiting: list[Entry]) -> bool:
        """Take the queued events, and wait for the first one if there is none; False: `close` was called."""
        if not waiting:
            if not self._take(self._queue.get(), waiting):
                return False
            self._hurry.wait(_COLLECT_S)
        self._hurry.clear()
        with contextlib.suppress(queue.Empty):
            while len(waiting) < _CAPACITY:
                if not self._take(self._queue.get_nowait(), waiting):
                    return False
        return True

    def _take(self, happened: _Happened | _Witness | None, waiting: list[Entry]) -> bool:
        if happened is None:
            waiting += self._entries.rest(time.time_ns())
            return False
        if isinstance(happened, _Witness):
            self._witnesses.append(happened)
            return True
        self._taken += _is_refusal(happened[1])
        waiting += self._entries.of(*happened)
        return True

    def _write(self, waiting: list[Entry]) -> bool:
        """Append entries, and one about those that were lost; False: the disk refuses, and they stay in
        `waiting`.
        """
        lost = self._lost  # read once: the loop may count more meanwhile
        loss: Entry = {"what": "audit", "reason": "entries_lost", "lost": lost}
        about_loss = self._entries.of(time.time_ns(), loss) if lost else ()
        try:
            self._trail.append([*waiting, *about_loss])
        except (OSError, ValueError) as error:
            if not self._is_refused:  # one line for each time that the disk begins to refuse
                reason = _words(error)
                _logger.warning("the audit log cannot be written: entries wait", extra={"reason": reason})
            self._is_refused = True
            return False
        if self._is_refused:
            _logger.warning("the audit log is written again", extra={"lost": lost})
        self._begun()
        self._is_refused = False
        self._lost -= lost
        waiting.clear()
        return True

    def _begun(self) -> None:
        """Report the log's number after the first entry."""
        if self._number:
            return
        with self._naming:
            self._number = self._trail.log_number()
            if self._name is not None and self._number:
                self._name(self._number)
        self._has_begun.set()


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__
