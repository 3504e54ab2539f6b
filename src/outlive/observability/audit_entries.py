"""The entries of the audit log: `Entries` turns events into documents, `Tally` merges events that come in
great numbers. No I/O.

Merged are typing at a terminal, and refusals of one caller: both can come a thousand times a second, and one
entry with a number records as much. Queueing and writing belong to `audit`; the file belongs to
`store.audit.audit_trail`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime

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
