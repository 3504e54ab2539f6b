"""Where doorbells arrive: `ProcessTable`, which processes live and which must be loaded or looked after.

Runs on the event loop for every doorbell, some ten thousand a second: no task, no await, no I/O. What needs files
(`strangers`, `missing`) is left to `recovery`, which is woken.

`ChangeHandler`: what the engine does when something about a process has changed.

Called for doorbells, for ends that were found in files, and for what the engine decides itself. One place, so that an end
is recorded, lets the next of its group start and is published, in this order, whichever part has found it.

`StartOutcomes`: what became of a start, whether it was asked for at once or after waiting for its turn.
"""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace

from outlive.backends.contract import Bell, StartOutcome
from outlive.core.errors import BackendUnavailable, OutliveError, StartFailed
from outlive.core.events import ProcessRecovered, ProcessStarted, StateChanged
from outlive.core.identity import id_from_bytes
from outlive.core.lifecycle import Cause, State
from outlive.engine.processes.event_publisher import EventPublisher, Unread
from outlive.engine.processes.groups import ConcurrencyLimits
from outlive.engine.processes.output_redaction import Redaction, hide_error
from outlive.engine.processes.process import Process
from outlive.engine.processes.process_state import Change
from outlive.engine.processes.registry_feed import LiveTable, RegistryFeed
from outlive.protocols.keeper import Flags
from outlive.store.registry import Registry
from outlive.store.rows import StoredProcess

_ENDING = int(Change.COMPLETED | Change.CLOSED)


class ChangeHandler:
    """Passes a change on to the parts that have to do with it. On the engine's loop only."""

    def __init__(
        self,
        feed: RegistryFeed,
        limits: ConcurrencyLimits,
        *,
        unread: Unread,
        redaction: Redaction,
        events: EventPublisher,
    ) -> None:
        """Take those parts."""
        self._feed = feed
        self._limits = limits
        self._unread = unread
        self._redaction = redaction
        self._events = events

    def changed(self, process: Process, changes: int) -> None:
        """Record and publish what a doorbell (or the files) changed; `changes` are `Change` bits."""
        if changes & _ENDING and process.has_secrets:
            self._redaction.note_masks(process.record, process.folder)
        if process.is_ended:  # the keeper says what lives; the row of a live process needs no update
            self._feed.note(process)
            self._limits.leave(process)
        self._unread.changed(process)
        self._events.publish_changes(process, changes)

    def adopted(self, process: Process) -> None:
        """Count and publish a process of an earlier server that was found again."""
        self._limits.enter(process)
        self._unread.changed(process)
        self._events.publish_process(ProcessRecovered, process)

    def queued(self, process: Process) -> None:
        """Record and publish that a new process waits, for an approval or for its group's turn."""
        self._feed.note(process)
        self._events.publish_process(StateChanged, process)


_SYNC = int(Flags.SYNC)


class ProcessTable:
    """The `BackendListener` of the engine.

    Attributes:
        processes: Processes that can still change.
        live: They by the 16-byte form of their id.
        strangers: Newest doorbell of processes that are not loaded yet.
        missing: Processes that the keeper did not mention any more after a reconnect: they have finished.
        doubtful: Processes that may have finished before we were connected, so that the keeper does not report it.
        work: Set when `strangers`, `missing` or `doubtful` got an entry.
        synced: Set once everything live has been reported for the first time.
    """

    def __init__(self, processes: LiveTable, *, changes: ChangeHandler, events: EventPublisher) -> None:
        """Take what is live, what follows from a change, and what publishes the state of the links."""
        self._changes = changes
        self._events = events
        self.processes = processes
        self.live = processes.by_key
        self.strangers: dict[bytes, Bell] = {}
        self.missing: list[Process] = []
        self.doubtful: list[Process] = []
        self.work = asyncio.Event()
        self.synced = asyncio.Event()
        self._expected: set[bytes] = set()
        self._mentioned: set[bytes] | None = None

    def link_opened(self) -> None:
        """Begin to note what is mentioned: a live process that is not has finished meanwhile."""
        # A start that was not acknowledged yet may be unknown over there: it is sent again, not missed.
        # What runs on a node is not the keeper's to mention.
        self._expected = {
            key
            for key, process in self.live.items()
            if process.status.is_acknowledged and not process.location.is_elsewhere
        }
        self._mentioned = set()

    def link_ready(self, keeper_pid: int, sessions: tuple[int, ...] = ()) -> None:
        """Pass on that the keeper answers."""
        self._events.keeper_connected(keeper_pid, sessions)

    def link_closed(self) -> None:
        """Pass on that the keeper is gone for the moment."""
        self._events.keeper_disconnected()

    def node_changed(self, name: str, reason: str | None) -> None:
        """Pass on that a node is away, or there again."""
        self._events.node_changed(name, reason)

    def ring(self, bells: Iterable[Bell]) -> None:
        """Take over doorbells."""
        live = self.live
        now_ns = time.time_ns()
        for bell in bells:
            key, out, err, pid, code, phase, cause, flags, descendants = bell
            process = live.get(key)
            if process is None:
                if flags & _SYNC:
                    self._sync()
                    continue
                self.strangers[key] = bell
                self.work.set()
            else:
                changes = process.status.absorb(out, err, pid, code, phase, cause, flags, descendants, now_ns)
                process.subscribers.wake()  # first: clients wait for it
                if changes:
                    self._changes.changed(process, changes)
            if self._mentioned is not None:
                self._mentioned.add(key)

    def doubt(self, process: Process) -> None:
        """Have recovery look whether a process whose start had been carried out already has finished, too.

        Its start was sent again after a reconnect, so it was not among those that the keeper was to mention.
        """
        self.doubtful.append(process)
        self.work.set()

    def expect(self, process: Process) -> None:
        """Enter a process that the keeper has still to report: if it does not, the process has finished."""
        self.processes.enter(process)
        if (
            self._mentioned is not None
            and process.status.is_acknowledged
            and not process.location.is_elsewhere
        ):
            self._expected.add(process.key)

    def is_told(self, key: bytes) -> bool:
        """Whether a process is live, or the keeper has reported it and it is about to be loaded."""
        return key in self.live or key in self.strangers

    def adopt(self, process: Process) -> None:
        """Enter a process that was loaded for a stranger's doorbell, and absorb that."""
        self.processes.enter(process)
        bell = self.strangers.pop(process.key, None)
        if bell is not None:
            self.ring([bell])

    def _sync(self) -> None:
        mentioned, self._mentioned = self._mentioned or set(), None
        for key in self._expected - mentioned:
            process = self.live.get(key)
            if process is not None and not process.is_finished:
                self.missing.append(process)
                self.work.set()
        self._expected = set()
        self.synced.set()

    def stranger_ids(self) -> list[str]:
        """Return the ids of the processes that must be loaded."""
        return [id_from_bytes(key) for key in self.strangers]


class StartOutcomes:
    """Takes over the backend's answers to starts.

    Attributes:
        started_count: How many processes this server has started; an event for each would cost every start.
    """

    def __init__(
        self,
        table: ProcessTable,
        registry: Registry,
        *,
        feed: RegistryFeed,
        limits: ConcurrencyLimits,
        changes: ChangeHandler,
        redaction: Redaction,
        events: EventPublisher,
    ) -> None:
        """Take what must learn of an outcome."""
        self.started_count = 0
        self._table = table
        self._registry = registry
        self._feed = feed
        self._limits = limits
        self._changes = changes
        self._redaction = redaction
        self._events = events

    def settle(self, process: Process, outcome: StartOutcome | OutliveError) -> None:
        """Take over the answer to a start."""
        if not isinstance(outcome, StartOutcome):
            self._failed(process, outcome)
            return
        self.started_count += 1
        process.status.confirm_start(outcome.pid, outcome.started_ns)
        process.subscribers.wake()
        if outcome.is_existing:
            self._table.doubt(process)
        self._feed.note(process)
        self._events.publish_process(ProcessStarted, process)

    def never_started(self, process: Process, *, cause: Cause, error: str) -> None:
        """End a process that has waited and will not run any more."""
        stored = _failed_record(process, error, cause=cause)
        changes = process.settle_from(stored)
        process.subscribers.wake()
        self._changes.changed(process, changes)

    def _failed(self, process: Process, error: OutliveError) -> None:
        """Forget a start that failed; after a timeout it may still come to life and is then unknown."""
        hide_error(error, self._redaction.texts_of(process.process_id))
        self._table.processes.leave(process)
        self._limits.leave(process)
        record = process.record
        if not isinstance(error, BackendUnavailable):
            stored = _failed_record(process, error.message, cause=record.cause)
            process.settle_from(stored)  # for callers that have found it already, and want to end it
            process.subscribers.wake()
            if isinstance(error, StartFailed):
                self._registry.put(stored)
        self._events.publish_failure(record, error)


def _failed_record(process: Process, error: str, *, cause: Cause) -> StoredProcess:
    """Return what is kept of a process that has never run."""
    record = replace(
        process.record,
        state=State.FAILED_TO_START,
        cause=cause,
        error=error,
        is_complete=True,
        is_closed=True,
    )
    return StoredProcess(record=record, complete=record.cursor, output_limit=process.output_limit)
