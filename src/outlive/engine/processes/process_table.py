"""Where doorbells arrive: `ProcessTable`, which processes live and which must be loaded or looked after.

It runs on the event loop for every doorbell, some ten thousand a second: no task, no await, no I/O. What
needs files (`unknown`, `vanished`) is left to `recovery`, which is woken. What a change leads to, from the
lowest part up:

* `LiveTable` has the live processes by key, by connection and by principal, which questions name: on a shared
  server one caller's list, tools and stops look at that caller's processes, not at those of all callers.
* `RegistryFeed` keeps the registry up to date without haste: changed processes are written together, some
  twenty times a second. A short command is written once, at its end. What a crash of the server cuts off is
  in the process folders.
* `ChangeHandler` is called for doorbells, for ends that were found in files, and for what the engine decides
  itself. It is one place, so that an end is recorded, lets the next of its group start and is published, in
  this order, whichever part found it.
* `StartOutcomes` takes over what became of a start, whether it was asked for at once or after waiting for its
  turn.
"""

import asyncio
import time
from collections.abc import Collection, Iterable
from typing import Protocol

from outlive.backends.contract import Bell, StartOutcome
from outlive.core.errors import BackendUnavailable, LimitExceeded, OutliveError, StartFailed
from outlive.core.events import (
    KeeperBounds,
    KeeperConnected,
    KeeperDisconnected,
    NodeAway,
    NodeConnected,
    ProcessRecovered,
    ProcessStarted,
    StateChanged,
)
from outlive.core.identity import id_from_bytes, id_to_bytes
from outlive.core.lifecycle import Cause, State
from outlive.core.values import dataclass, field, replace
from outlive.engine.processes.event_publisher import EventPublisher, Unread
from outlive.engine.processes.output_redaction import Redaction, hide_error
from outlive.engine.processes.places import Places
from outlive.engine.processes.process import Process
from outlive.engine.processes.process_state import Change
from outlive.engine.processes.question_watch import QuestionWatch
from outlive.placement.fleet import FleetNode
from outlive.protocols.keeper import Flags
from outlive.store.registry import Registry
from outlive.store.rows import ProcessFilter, StoredProcess


@dataclass(eq=False, slots=True, kw_only=True)
class LiveTable:
    """Processes that can still change. Used on the event loop; no I/O.

    Attributes:
        by_key: The live processes by the 16-byte form of their id. `enter` and `leave` alone change it.

    It knows which connections are over for good (`end_connection`): what lives of them is marked, also what
    enters later.
    """

    by_key: dict[bytes, Process] = field(default_factory=dict, init=False)
    _of_connection: dict[str, dict[bytes, Process]] = field(default_factory=dict, init=False)
    _of_principal: dict[str, dict[bytes, Process]] = field(default_factory=dict, init=False)
    # At most 65 536 of them, as the file of ended MCP sessions has.
    _over: set[str] = field(default_factory=set, init=False)

    def enter(self, process: Process) -> None:
        """From now on a process is live, instead of another object of the same id if there is one."""
        if process.key in self.by_key:
            self.leave(process)
        self.by_key[process.key] = process
        self._of_principal.setdefault(process.principal, {})[process.key] = process
        if process.connection_id is not None:
            self._of_connection.setdefault(process.connection_id, {})[process.key] = process
            if process.connection_id in self._over:
                process.leave_session()

    def leave(self, process: Process) -> bool:
        """From now on a process is not live any more; return whether it was."""
        known = self.by_key.pop(process.key, None)
        if known is None:
            return False
        _remove(self._of_principal, known.principal, known.key)
        if known.connection_id is not None:
            _remove(self._of_connection, known.connection_id, known.key)
        return True

    def release(self, process: Process) -> None:
        """Let go of a process that cannot change any more."""
        if self.leave(process):
            process.close_logs()

    def of_connection(self, connection_id: str) -> list[Process]:
        """Return what a connection started, in no order; a copy."""
        return list(self._of_connection.get(connection_id, {}).values())

    def end_connection(self, connection_id: str) -> list[Process]:
        """From now on a connection is over for good.

        Return what lives of it, without what only waits to be filed.
        """
        self._over.add(connection_id)
        left = [process for process in self.of_connection(connection_id) if not process.status.is_finished]
        for process in left:
            process.leave_session()
        return left

    def of_principal(self, principal: str) -> Collection[Process]:
        """Return what a principal started, over any connection, in no order: no copy, so go through it
        without an await.
        """
        return self._of_principal.get(principal, {}).values()

    def check_count(self, principal: str, most: int | None) -> None:
        """Let a principal start one more process, or wait for its turn.

        Raises:
            LimitExceeded: `process_limit`: `most` of them run or wait already.
        """
        known = self._of_principal.get(principal, {})
        if most is None or len(known) < most:
            return  # as nearly always: which of them have ended is asked only when there are as many
        count = sum(not one.status.is_ended for one in known.values())
        if count >= most:
            raise LimitExceeded(
                "process_limit",
                f"{count} processes of this principal run or wait already, and no more than {most} may.",
                hint="Wait until some end, cancel some, or raise --max-processes.",
                details={"processes": count, "limit": most},
            )

    def candidates(self, wanted: ProcessFilter) -> Collection[Process]:
        """Return those of which some may match, all that do among them, in no order.

        As `of_principal` no copy.
        """
        if wanted.connection_id is not None:
            return self._of_connection.get(wanted.connection_id, {}).values()
        if wanted.principal is not None:
            return self.of_principal(wanted.principal)
        return self.by_key.values()


def _remove(index: dict[str, dict[bytes, Process]], name: str, key: bytes) -> None:
    """Take a process out of an index, and its name with the last one: names come and go for ever."""
    others = index[name]
    del others[key]
    if not others:
        del index[name]


_PAUSE_S = 0.05  # the row of a short command is in the transaction of its counter
_REGISTRY_FEED_SLICE = 100  # snapshots in one turn of the loop: about 2 ms


@dataclass(eq=False, slots=True)
class RegistryFeed:
    """Collects changed processes; lets go of finished ones when their last state is committed.

    `has_finished` is set then; retention clears it.
    """

    registry: Registry
    live: LiveTable
    has_finished: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _changed: dict[bytes, Process] = field(default_factory=dict, init=False)
    _timer: asyncio.TimerHandle | None = field(default=None, init=False)

    def note(self, process: Process) -> None:
        """Write this process's state soon."""
        self._changed[process.key] = process
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE_S, self._write_some)

    def forget(self, process: Process) -> None:
        """Write nothing more of a finished process, and let go of it: it is being removed."""
        self._changed.pop(process.key, None)
        self.live.release(process)

    async def close(self) -> None:
        """Hand over what is left; the registry commits it when it closes."""
        if self._timer is not None:
            self._timer.cancel()
        while self._changed:
            self._write_some()
            await asyncio.sleep(0)
        if self._timer is not None:
            self._timer.cancel()

    def committed(self, rows: list[StoredProcess]) -> None:
        """Let go of the processes whose last state is safe now."""
        for row in rows:
            if row.record.is_finished:
                self.has_finished.set()
                process = self.live.by_key.get(id_to_bytes(row.record.process_id))
                if process is not None and process.status.is_finished and process.key not in self._changed:
                    self.live.release(process)

    def _write_some(self) -> None:
        keys = list(self._changed)[:_REGISTRY_FEED_SLICE]
        if keys:
            self.registry.put(*[self._changed.pop(key).stored for key in keys])
        again = asyncio.get_running_loop().call_later
        self._timer = again(0 if self._changed else _PAUSE_S, self._write_some) if keys else None


_ENDING = int(Change.COMPLETED | Change.CLOSED)


class GroupCounter(Protocol):
    """Counts what runs of each group (`starts.start_queue`)."""

    def enter(self, process: Process) -> None:
        """Count a process that was found running."""

    def ended(self, process: Process) -> None:
        """Count a process no more, and start the next of its group; safe to repeat."""


@dataclass(eq=False, slots=True, kw_only=True)
class ChangeHandler:
    """Passes a change on to the parts that have to do with it. On the engine's loop only.

    Attributes:
        groups: Counts what runs. `Engine` sets it: what an end starts is refused here again.
    """

    feed: RegistryFeed
    places: Places
    unread: Unread
    redaction: Redaction
    questions: QuestionWatch
    events: EventPublisher
    groups: GroupCounter = field(init=False)

    def changed(self, process: Process, changes: int) -> None:
        """Record and publish what a doorbell (or the files) changed; `changes` are `Change` bits."""
        if changes & _ENDING and process.base.secret_names:
            self.redaction.note_masks(process.record, process.folder)
        if process.status.is_ended:  # the keeper says what lives; the row of a live process needs no update
            self.feed.note(process)
            self.groups.ended(process)
        self.unread.changed(process)
        self.events.publish_changes(process, changes)

    def adopted(self, process: Process) -> None:
        """Count, watch and publish a process of an earlier server that was found again."""
        self.groups.enter(process)
        self.unread.changed(process)
        self.questions.watch(process)
        self.events.publish_process(ProcessRecovered, process)

    def node_changed(self, node: FleetNode | None, *, is_away: bool) -> None:
        """Let a node take what waits for a place, or nothing more while it is away."""
        if node is not None:
            self.places.nodes.changed(replace(node, is_open=node.is_open and not is_away))

    def queued(self, process: Process) -> None:
        """Record and publish that a new process waits, for an approval or for its group's turn."""
        self.feed.note(process)
        self.events.publish_process(StateChanged, process)


_SYNC = int(Flags.SYNC)


class ProcessTable:
    """The `BackendListener` of the engine.

    Attributes:
        processes: Processes that can still change.
        live: The live processes by the 16-byte form of their id.
        unknown: Newest doorbell of processes that are not loaded yet.
        vanished: Processes that the keeper did not mention any more after a reconnect: they have finished.
        unconfirmed: Processes that may have finished before we were connected, so that the keeper does not
            report it.
        work: Set when `unknown`, `vanished` or `unconfirmed` got an entry.
        synced: Set once everything live has been reported for the first time.
    """

    def __init__(self, processes: LiveTable, *, changes: ChangeHandler, events: EventPublisher) -> None:
        self._changes = changes
        self._events = events
        self.processes = processes
        self.live = processes.by_key
        self.unknown: dict[bytes, Bell] = {}
        self.vanished: list[Process] = []
        self.unconfirmed: list[Process] = []
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
            if process.status.is_acknowledged and not process.base.location.is_elsewhere
        }
        self._mentioned = set()

    def link_ready(
        self, keeper_pid: int, sessions: tuple[int, ...] = (), bounds: KeeperBounds | None = None
    ) -> None:
        """Publish that the keeper answers."""
        self._events.publish(KeeperConnected(pid=keeper_pid, sessions=sessions, bounds=bounds))

    def link_closed(self) -> None:
        """Publish that the keeper is gone for the moment."""
        self._events.publish(KeeperDisconnected())

    def node_changed(self, name: str, reason: str | None, node: FleetNode | None = None) -> None:
        """Publish that a node is away, or (without a reason) there again, and let it take commands or
        none.
        """
        self._changes.node_changed(node, is_away=reason is not None)
        event = NodeConnected(name=name) if reason is None else NodeAway(name=name, reason=reason)
        self._events.publish(event)

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
                self.unknown[key] = bell
                self.work.set()
            else:
                changes = process.status.absorb(out, err, pid, code, phase, cause, flags, descendants, now_ns)
                process.subscribers.wake()  # first: clients wait for it
                if changes:
                    self._changes.changed(process, changes)
            if self._mentioned is not None:
                self._mentioned.add(key)

    def recheck(self, process: Process) -> None:
        """Have recovery look whether a process whose start had been carried out already has finished, too.

        Its start was sent again after a reconnect, so it was not among those that the keeper was to mention.
        """
        self.unconfirmed.append(process)
        self.work.set()

    def expect(self, process: Process) -> None:
        """Enter a process that the keeper has still to report: if it does not, the process has finished."""
        self.processes.enter(process)
        if (
            self._mentioned is not None
            and process.status.is_acknowledged
            and not process.base.location.is_elsewhere
        ):
            self._expected.add(process.key)

    def is_told(self, key: bytes) -> bool:
        """Whether a process is live, or the keeper has reported it and it is about to be loaded."""
        return key in self.live or key in self.unknown

    def adopt(self, process: Process) -> None:
        """Enter a process that was loaded for a doorbell, and absorb that."""
        self.processes.enter(process)
        bell = self.unknown.pop(process.key, None)
        if bell is not None:
            self.ring([bell])

    def _sync(self) -> None:
        mentioned, self._mentioned = self._mentioned or set(), None
        for key in self._expected - mentioned:
            process = self.live.get(key)
            if process is not None and not process.status.is_finished:
                self.vanished.append(process)
                self.work.set()
        self._expected = set()
        self.synced.set()

    def unknown_ids(self) -> list[str]:
        """Return the ids of the processes that must be loaded."""
        return [id_from_bytes(key) for key in self.unknown]


@dataclass(eq=False, slots=True, kw_only=True)
class StartOutcomes:
    """Takes over the backend's answers to starts.

    Attributes:
        started_count: How many processes this server has started; an event for each would cost every start.
    """

    table: ProcessTable
    registry: Registry
    feed: RegistryFeed
    changes: ChangeHandler
    redaction: Redaction
    events: EventPublisher
    started_count: int = field(default=0, init=False)

    def settle(self, process: Process, outcome: StartOutcome | OutliveError) -> None:
        """Take over the answer to a start."""
        if not isinstance(outcome, StartOutcome):
            self._failed(process, outcome)
            return
        self.started_count += 1
        process.status.confirm_start(outcome.pid, outcome.started_ns)
        process.subscribers.wake()
        if outcome.is_existing:
            self.table.recheck(process)
        if process.status.is_finished:
            # Its end came before this answer, and it may have been let go of: from now on its row is all that
            # is found of it.
            self.registry.put(process.stored)
        else:
            self.feed.note(process)
        self.changes.questions.watch(process)
        self.events.publish_process(ProcessStarted, process)

    def refuse(self, process: Process, error: OutliveError, *, is_heard: bool) -> None:
        """Record that a start was refused: to its caller, which may ask again under the same id, or
        (without `is_heard`) for all that know it as one that waits.
        """
        if is_heard:
            self.settle(process, error)
        else:
            hide_error(error, self.redaction.texts_of(process.process_id))
            self.never_started(process, cause=Cause.NONE, error=error.message)

    def never_started(self, process: Process, *, cause: Cause, error: str) -> None:
        """End a process that has waited and will not run any more."""
        stored = _failed_record(process, error, cause=cause)
        changes = process.end_as(stored)
        process.subscribers.wake()
        self.changes.changed(process, changes)

    def _failed(self, process: Process, error: OutliveError) -> None:
        """Forget a start that failed; after a timeout it may still come to life and is then unknown."""
        hide_error(error, self.redaction.texts_of(process.process_id))
        self.table.processes.leave(process)
        self.changes.groups.ended(process)
        record = process.record
        if not isinstance(error, BackendUnavailable):
            stored = _failed_record(process, error.message, cause=record.cause)
            process.end_as(stored)  # for callers that have found it already, and want to end it
            process.subscribers.wake()
            if isinstance(error, StartFailed):
                self.registry.put(stored)
        self.events.publish_failure(record, error)


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
