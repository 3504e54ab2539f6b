"""`StartQueue`: commands that wait for an approval, their group's turn or a machine, until they run or are
withdrawn.

Which command waits for what, and which is next, is decided in `operations.waiting_starts`. This carries it
out: it keeps commands that wait on disk (`store.queue_store`), so that a crash of the server costs none its
place, lets the time of approvals pass, asks for places and starts commands (`starter`). It counts what runs,
whichever principal and whichever server started it. While no server lives nothing is started: the keeper
knows no groups.

Whether a command runs is decided by one rename, the keeper's or ours (decision 60). What finds out or decides
it runs in tasks of the engine: a caller that goes away must not leave a command that neither waits nor runs.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Literal

from outlive.core.command import Command
from outlive.core.errors import BackendUnavailable, InvalidRequest, InvalidState, LimitExceeded, OutliveError
from outlive.core.events import ApprovalDecided, ApprovalRequested
from outlive.core.layout import Layout
from outlive.core.lifecycle import Cause, State
from outlive.core.location import ANY, Location
from outlive.core.process import Owner
from outlive.core.values import dataclass, field, replace
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.output_redaction import Redaction
from outlive.engine.processes.places import Places, no_room
from outlive.engine.processes.process import Process, read_clocks
from outlive.engine.processes.process_table import ChangeHandler, ProcessTable, StartOutcomes
from outlive.engine.starts.starter import PendingStart, Starter, goes_elsewhere
from outlive.operations.waiting_starts import Effect, Effects, GroupKey, WaitingStarts
from outlive.protocols.keeper import decode_spec, encode_spec
from outlive.store.folder import ChangedLabels, base_record, encode_meta
from outlive.store.queue_store import QueueStore, WaitingCommand
from outlive.store.retention import RetentionClock
from outlive.store.rows import to_ns

_logger = logging.getLogger(__name__)

_LOOK_S = 60.0  # a few microseconds for each that waits
_OPEN = Location(kind="node", backend=ANY)
_STOPPING = "The server is being stopped."
_SECRETS_LOST = (
    "Its secrets were in the server's memory only, and the server ended before its turn: it never "
    "ran (secrets_lost)."
)


@dataclass(eq=False, slots=True, kw_only=True)
class StartQueue:
    """The commands that wait. On the engine's loop only; files are written in threads.

    Attributes:
        machine: What waits for what.
        places: Which commands have a place on a machine.
    """

    layout: Layout
    store: QueueStore
    places: Places
    starter: Starter
    table: ProcessTable
    changes: ChangeHandler
    outcomes: StartOutcomes
    redaction: Redaction
    events: EventPublisher
    machine: WaitingStarts = field(default_factory=WaitingStarts)
    _pending: dict[str, PendingStart] = field(default_factory=dict, init=False)
    _group: asyncio.TaskGroup | None = field(default=None, init=False)
    _tasks: set[asyncio.Task[bool]] = field(default_factory=set, init=False)
    _clock: RetentionClock | None = field(default=None, init=False)  # None: no time passes yet

    async def open(self) -> None:
        """Put in line again what waited when an earlier server ended, and count what runs."""
        for process in self.table.live.values():
            self.enter(process)
        waiting, limits = await asyncio.to_thread(self.store.open)
        for group, limit in limits.items():
            self.machine.set_limit(group, limit)
        for command in waiting:
            spec = decode_spec(command.spec)
            try:
                record = replace(base_record(spec, command.process_id), state=State.QUEUED)
            except ValueError:  # a person has changed its file; it is left as it is
                _logger.exception("a command that waits is not understood: %s", command.process_id)
                continue
            process = Process(
                record,
                self.layout.process(command.process_id),
                output_limit=spec.output_limit,
                redaction=self.redaction,
            )
            self.table.processes.enter(process)
            pending = PendingStart(process, command)
            if record.waits_for == "approval":
                self._ask(pending)
            else:
                self._put_in_line(pending)
            if spec.secrets:  # they were in the memory of the server that has ended
                await self._withdraw(pending, cause=Cause.NONE, note=_SECRETS_LOST)

    def accept(self, tasks: asyncio.TaskGroup) -> None:
        """From now on decisions are carried out, in tasks of the engine's group."""
        self._group = tasks

    async def begin(self, clock: Awaitable[RetentionClock]) -> None:
        """Start what may start and, once the clock is known, let time pass for what waits for an approval."""
        self.places.begin(lambda process_id: self._carry_out(self.machine.place_given(process_id)))
        self._carry_out(self.machine.begin())
        self._clock = await clock
        for pending in self.asked:
            self._look_at(pending)

    def close(self) -> None:
        """Start none any more and cancel what is being done: the next server goes on with it."""
        self.machine.close()
        self._group = self._clock = None
        for task in self._tasks:
            task.cancel()

    # -- what runs

    def enter(self, process: Process) -> None:
        """Count a process that starts or was found running."""
        if process.status.state is not State.QUEUED:
            self.places.adopt(process)
            group = None if process.status.is_ended else _group_of(process)
            self._carry_out(self.machine.enter(process.process_id, group))

    def ended(self, process: Process) -> None:
        """Count a process no more that has ended or never ran, and give turn and place to the next;
        idempotent.
        """
        self._carry_out(self.machine.ended(process.process_id))
        if process.base.needs is not None:
            self.places.release(process.process_id)

    def relabel(self, process: Process, labels: ChangedLabels) -> None:
        """Give a process other labels, and count it in its new group."""
        process.relabel(labels)
        if not process.status.is_ended:
            self._carry_out(self.machine.regroup(process.process_id, _group_of(process)))

    # -- groups

    async def set_limit(self, principal: str, group: str, limit: int | None) -> None:
        """Set how many of a group run at once, for good; None takes the limit away.

        A higher limit admits what waits; a lower one ends no process.

        Raises:
            InvalidRequest: The limit is below 1.
            LimitExceeded: `disk_full`: it cannot be kept.

        Cancellation: it is changed.
        """
        if limit is not None and limit < 1:
            raise InvalidRequest("invalid_params", "A group's limit is 1 or more; none takes it away.")
        key = (principal, group)
        if self.machine.limits.get(key) == limit:
            return
        self._carry_out(self.machine.set_limit(key, limit))
        try:
            await asyncio.to_thread(self.store.keep_limits, dict(self.machine.limits))
        except OSError as error:
            raise LimitExceeded("disk_full", f"The limit cannot be kept: {error.strerror}.") from error

    async def move(self, process: Process, places: int) -> None:
        """Put a command that waits for its turn so many places back in its line, or forward where that is
        negative; for good. What has lost its turn by it waits for no place any more.

        Raises:
            InvalidState: `not_in_line`.
            LimitExceeded: `disk_full`: the order cannot be kept, and nothing is moved.

        Cancellation: it is moved.
        """
        process_id = process.process_id
        old = self.machine.move(process_id, places)
        if old is None:
            text = "The process does not wait for its group's turn."
            if process.status.state is State.QUEUED and process.base.needs is not None:
                text = "What waits for a machine gets one in the order in which it came."
            raise InvalidState("not_in_line", text, details={"state": process.status.state.value})
        order = self.machine.order()
        try:
            await asyncio.to_thread(self.store.keep_order, order)
        except OSError as error:
            self.machine.move(process_id, -len(order))  # its turn may have come meanwhile
            self.machine.move(process_id, old)
            raise LimitExceeded("disk_full", f"The order cannot be kept: {error.strerror}.") from error
        finally:
            self._carry_out(self.machine.look(process_id))

    # -- what begins to wait

    async def first_state(self, command: Command, owner: Owner) -> State:
        """Set the limit of a command's group if it says one.

        Return whether the command starts or waits for its turn.
        """
        group = command.group or ""
        if command.group_limit is not None:
            await self.set_limit(owner.principal, group, command.group_limit)
        is_full = self.machine.is_full((owner.principal, group))
        return State.QUEUED if is_full else State.STARTING

    async def put(self, process: Process, command: WaitingCommand) -> None:
        """Let a new process wait, for an approval or for its turn; it is on disk when this returns.

        Raises:
            LimitExceeded: `disk_full`: it cannot be kept, and does not wait.
        """
        pending = PendingStart(process, command)
        if process.record.waits_for == "approval":
            if not await self._finish(self._put_asked(pending)):
                raise LimitExceeded("disk_full", "The command cannot be kept until it is approved.")
            return
        self.table.processes.enter(process)
        try:
            await self._wait_in_line(pending)
        except OutliveError:
            self.table.processes.leave(process)
            raise
        self.changes.queued(process)

    async def start_placed(self, process: Process, command: WaitingCommand) -> None:
        """Start a command that has just got a place, or is about to.

        Where it has none after all, it waits for another one.

        Raises:
            BackendUnavailable: `start_unanswered`: its node has not answered; the start goes on.
            OutliveError: What came of the start.

        Cancellation: the start goes on.
        """
        self.table.processes.enter(process)
        self.enter(process)
        told: asyncio.Future[OutliveError | None] = asyncio.get_running_loop().create_future()
        pending = self._pending[process.process_id] = PendingStart(process, command, told)
        self._spawn(self._start(pending))
        if (failed := await told) is not None:
            raise failed

    async def _put_asked(self, pending: PendingStart) -> bool:
        """Keep a command until a person decides about it; False when the disk does not take it."""
        async with pending.decision:
            try:
                await asyncio.to_thread(self.store.put_asked, pending.command)
            except OSError:
                return False
            self.table.processes.enter(pending.process)
            self._ask(pending)
        self.changes.queued(pending.process)
        self.events.publish(ApprovalRequested(record=pending.process.record))
        return True

    def _ask(self, pending: PendingStart) -> None:
        self._pending[pending.process.process_id] = pending
        self.machine.ask(pending.process.process_id)
        self._look_at(pending)

    def _put_in_line(self, pending: PendingStart, *, is_first: bool = False) -> None:
        """Put a command at the end of its group's line, or at its beginning, and start it if it may."""
        process = pending.process
        self._pending[process.process_id] = pending
        needs_place = process.base.needs is not None
        self._carry_out(
            self.machine.put(
                process.process_id, _group_of(process), needs_place=needs_place, is_first=is_first
            )
        )

    async def _wait_in_line(self, pending: PendingStart, *, is_first: bool = False) -> None:
        """Put a command in its line; it is on disk when this returns.

        Raises:
            LimitExceeded: `disk_full`: it cannot be kept, and does not wait.
        """
        # Before anything is awaited: the order of the calls is the order of the line.
        self._put_in_line(pending, is_first=is_first)
        process_id = pending.process.process_id
        try:
            await asyncio.to_thread(self.store.put, pending.command)
        except OSError as error:
            if process_id in self.machine:  # else its turn has come meanwhile, or it was cancelled
                self._carry_out(self.machine.take_out(process_id))
                del self._pending[process_id]
                text = f"The command cannot be kept: {error.strerror}."
                raise LimitExceeded("disk_full", text) from error
        if process_id not in self._pending:  # started, or withdrawn, while it was written
            await self._remove(pending)

    # -- what waits no more

    async def withdraw(self, process: Process, *, cause: Cause, note: str) -> bool:
        """End a process that waits, so that it never runs; False when it does not wait, or the keeper was
        first.

        Nor does one run whose turn has just come, unless the keeper was first: then it is to be stopped.
        """
        pending = self._pending.get(process.process_id)
        return pending is not None and await self._finish(self._withdraw(pending, cause=cause, note=note))

    async def _withdraw(
        self,
        pending: PendingStart,
        *,
        cause: Cause,
        note: str,
        verdict: Literal["denied", "expired", "withdrawn"] = "withdrawn",
        by: str = "",
        reason: str = "",
    ) -> bool:
        """End a process that has not been started, for good; False when it was, or it is not known yet.

        That is not known where its turn has come and the disk is full.
        """
        process, process_id = pending.process, pending.process.process_id
        async with pending.decision:
            was_asked = process_id in self.machine.asked
            if process.status.is_ended or (verdict != "withdrawn" and not was_asked):
                return verdict == "withdrawn"  # another one was first, or it could not be started
            # Then this server has not asked for its start.
            has_waited = was_asked or process_id in self.machine
            self._carry_out(self.machine.take_out(process_id))
            if self._pending.get(process_id) is not pending:
                return False
            withdraw, at_ns, command = self.store.withdraw, time.time_ns(), pending.command
            try:
                is_over = await asyncio.to_thread(withdraw, command, cause=cause, note=note, at_ns=at_ns)
            except OSError:  # a full disk must not save a process from its end: that needs no room
                is_over = has_waited
                if has_waited:
                    await self._remove(pending)
            if is_over or has_waited:
                self._forget(pending)
            if not is_over:
                return False
            self.outcomes.never_started(process, cause=cause, error=note)
        if was_asked:
            self.events.publish(ApprovalDecided(record=process.record, verdict=verdict, by=by, reason=reason))
        return True

    async def _remove(self, pending: PendingStart) -> None:
        try:
            await asyncio.to_thread(self.store.remove, pending.command.process_id)
        except OSError:
            _logger.exception("a file of a waiting command cannot be removed")

    def _forget(self, pending: PendingStart) -> None:
        self._pending.pop(pending.process.process_id, None)

    # -- approvals

    @property
    def asked(self) -> list[PendingStart]:
        """What waits for an approval, oldest first."""
        return [self._pending[name] for name in sorted(self.machine.asked)]

    async def decide(self, process: Process, *, is_approved: bool, by: str, reason: str = "") -> None:
        """Carry out what a person has decided about a process that waits for an approval.

        Returns when an approval is on disk: a crash behind it does not ask again, and starts it exactly once.

        Raises:
            InvalidState: `approval_settled`: it does not wait (any more).
            LimitExceeded: `disk_full`: it cannot be kept, and goes on waiting.
        """
        process_id = process.process_id
        if (pending := self._pending.get(process_id)) is not None:
            note = f"Denied by {by}{f': {reason}' if reason else '.'}"
            cause = Cause.APPROVAL_DENIED
            if await self._finish(
                self._approve(pending, by=by)
                if is_approved
                else self._withdraw(pending, cause=cause, note=note, verdict="denied", by=by, reason=reason)
            ):
                return
        if process_id in self.machine.asked:
            raise LimitExceeded("disk_full", "The approval cannot be kept; the command goes on waiting.")
        text = f"The process {process_id} does not wait for an approval: it is {process.status.state}."
        raise InvalidState("approval_settled", text, details={"state": process.status.state.value})

    async def _approve(self, pending: PendingStart, *, by: str) -> bool:
        """Put down that a process is approved, then let it take its turn; False when it does not wait for an
        approval any more, or the disk is full.
        """
        process = pending.process
        async with pending.decision:
            approval = process.record.approval
            if approval is None or process.process_id not in self.machine.asked:
                return False
            approved = replace(approval, approved_by=by)
            spec = decode_spec(pending.command.spec)
            meta = encode_meta(replace(process.record, approval=approved))
            command = replace(pending.command, spec=encode_spec(spec._replace(meta={**spec.meta, **meta})))
            try:
                await asyncio.to_thread(self.store.put, command)
            except OSError:
                return False
            pending.command = command
            process.approve(approved)
            self.events.publish(ApprovalDecided(record=process.record, verdict="approved", by=by))
            self._put_in_line(pending)
        return True

    def _look_at(self, pending: PendingStart) -> None:
        """End a process whose time for an approval is up, or look again when it may be."""
        process = pending.process
        approval = process.record.approval
        if self._clock is None or approval is None or process.process_id not in self.machine.asked:
            return
        self._clock = clock = self._clock.step(read_clocks())
        age_s = (clock.now_ns - clock.at(approval.asked, wall_ns=to_ns(process.record.created_at))) / 1e9
        rest_s = approval.timeout_s - age_s
        if rest_s <= 0:
            note, cause = "Nobody approved it in time.", Cause.APPROVAL_EXPIRED
            self._spawn(self._withdraw(pending, cause=cause, note=note, verdict="expired"))
            return
        expires_at = datetime.now(UTC) + timedelta(seconds=rest_s)
        if abs((expires_at - approval.expires_at).total_seconds()) > 1:  # the wall clock was set
            process.approve(replace(approval, expires_at=expires_at))
        # The loop's clock stands still while the machine is suspended, and says nothing of the wall clock.
        asyncio.get_running_loop().call_later(min(rest_s, _LOOK_S), self._look_at, pending)

    # -- what is done

    def _carry_out(self, effects: Effects) -> None:
        for effect, process_id in effects:
            if effect is Effect.GIVE_PLACE_BACK:
                self.places.release(process_id)
                continue
            pending = self._pending[process_id]
            if effect is Effect.START:
                pending.process.status.admit()
                self.places.adopt(pending.process)
                self._spawn(self._start(pending))
            # A place that was given back before may have gone to it: then it has been started.
            elif process_id in self.machine and self.places.acquire(pending.process):
                self._carry_out(self.machine.place_given(process_id))

    async def _start(self, pending: PendingStart) -> bool:
        """Have a command started; where its machine does not take it, it waits for another one."""
        process, told = pending.process, pending.told
        error: OutliveError | None = BackendUnavailable("keeper_unavailable", _STOPPING)
        try:
            if told is None or await self.places.is_given(process) or process.status.is_ended:
                error = await self.starter.start(pending)
            else:
                error = no_room()
            if error is not None and goes_elsewhere(process, error):
                async with pending.decision:  # a withdrawal that has begun comes first
                    error = await self._wait_again(pending, error)
                if error is None:
                    return True
        finally:
            if told is not None and not told.done():
                told.set_result(error)
        self._forget(pending)
        if told is None:
            await self._remove(pending)
        return True

    async def _wait_again(self, pending: PendingStart, refusal: OutliveError) -> OutliveError | None:
        """Let a command wait for another place, first in its line; return why it does not wait."""
        process, needs = pending.process, pending.process.base.needs
        if process.status.is_ended:
            return refusal
        if needs is None or not needs.is_patient:
            self.outcomes.refuse(process, refusal, is_heard=pending.is_heard)
            return refusal
        self.places.refused(process)
        process.status.queue_again()
        # Where its caller has named the place, it is described for that, and waits for that.
        process.place(process.base.location if needs.node else _OPEN, process.record.cwd)
        if pending.told is None:
            self._put_in_line(pending, is_first=True)
            return None
        is_heard, pending.told = pending.is_heard, None
        try:
            await self._wait_in_line(pending, is_first=True)
        except OutliveError as error:
            self.outcomes.refuse(process, error, is_heard=is_heard)
            return error
        self.changes.queued(process)
        return None

    def _spawn(self, deed: Coroutine[None, None, bool]) -> None:
        _ = self._task(deed)

    def _task(self, deed: Coroutine[None, None, bool]) -> asyncio.Task[bool]:
        """Carry out a deed, which must not raise, in a task of the engine's.

        Raises:
            BackendUnavailable: The engine is being closed.
        """
        if self._group is None:
            deed.close()
            raise BackendUnavailable("keeper_unavailable", _STOPPING)
        task = self._group.create_task(deed)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _finish(self, deed: Coroutine[None, None, bool]) -> bool:
        """Return what a deed returns; it goes on when the caller is cancelled."""
        return await asyncio.shield(self._task(deed))


def _group_of(process: Process) -> GroupKey | None:
    return None if process.base.group is None else (process.principal, process.base.group)
