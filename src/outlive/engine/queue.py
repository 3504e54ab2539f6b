"""What `Engine` does about groups: who finds his group full waits, is admitted or gives up; and verbs on many at once."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace

from outlive.backends.contract import StartOutcome
from outlive.core.command import Command
from outlive.core.errors import BackendUnavailable, InvalidRequest, OutliveError
from outlive.core.events import StateChanged
from outlive.core.lifecycle import Cause, State
from outlive.core.process import Owner
from outlive.engine.groups import ConcurrencyLimits
from outlive.engine.output_redaction import Redaction
from outlive.engine.pending_starts import PendingStarts
from outlive.engine.process import Process
from outlive.engine.process_table import ProcessTable
from outlive.engine.process_waits import until
from outlive.engine.reconciliation import Reconciliation
from outlive.engine.records import Records
from outlive.engine.upkeep import RegistryFeed
from outlive.protocols.keeper import decode_spec
from outlive.store.folder import base_record
from outlive.store.queue_store import WaitingCommand
from outlive.store.registry import Registry
from outlive.store.rows import ProcessFilter, StoredProcess

_RETRY_S = 1.0
_CANCELLED = "Cancelled before it was started."
_SECRETS_LOST = "Its secrets were in the server's memory only, and the server ended before its turn: it never ran (secrets_lost)."


class Queueing(Records):
    """One part of `Engine`: groups."""

    _registry: Registry
    _filing: RegistryFeed
    _intake: ProcessTable
    finding: Reconciliation
    _groups: ConcurrencyLimits
    _undecided: PendingStarts
    redaction: Redaction
    _changed: Callable[[Process, int], None]
    _started: Callable[[Process, StartOutcome], None]
    _folder_of: Callable[[str], str]

    def group_limit(self, principal: str, group: str) -> int | None:
        """Return how many of a group run at once; None when nothing limits them."""
        return self._groups.limit_of((principal, group))

    async def limit_group(self, principal: str, group: str, limit: int | None) -> None:
        """Set how many of a group run at once, for good; None takes the limit away.

        A higher limit admits who waits; a lower one ends nobody.

        Raises:
            InvalidRequest: The limit is below 1.
            LimitExceeded: `disk_full`: it cannot be kept.
        """
        if limit is not None and limit < 1:
            raise InvalidRequest("invalid_params", "A group's limit is 1 or more; none takes it away.")
        await self._groups.set_limit((principal, group), limit)

    async def cancel(
        self, process: Process, *, grace_s: float | None = None, cause: Cause = Cause.CANCEL, note: str = ""
    ) -> None:
        """End the whole tree (see `Controls.cancel`); what waits for its turn never runs.

        Nor does one whose turn has just come, unless the keeper was first: then it is stopped.
        """
        if process in self._undecided:
            withdrawing = self._withdraw(process, cause=cause, note=note or _CANCELLED)
            if await self._undecided.carry_out(withdrawing):
                return
        await super().cancel(process, grace_s=grace_s, cause=cause, note=note)

    async def _withdraw(self, process: Process, *, cause: Cause, note: str) -> bool:
        """End a process that has not been started; False when it was, or nobody knows yet."""
        async with self._undecided.decision_on(process):
            if process.is_ended:  # another cancel was first, or it could not be started
                return True
            has_waited = self._step_out(process)
            if not await self._undecided.withdraw(process, has_waited=has_waited, cause=cause, note=note):
                return False
            self._never_start(process, cause=cause, error=note)
            return True

    async def control_many(
        self, wanted: ProcessFilter, verb: Callable[[Process], Awaitable[None]]
    ) -> dict[str, OutliveError | None]:
        """Carry out a verb on every live process that matches, side by side.

        Returns by process id None, or why it could not be done there (it ended meanwhile, for instance).
        """
        await self.finding.listed()
        matching = [
            one
            for one in self._intake.table.candidates(wanted)
            if wanted.matches(one.record) and not one.is_ended
        ]
        outcomes: dict[str, OutliveError | None] = {}

        async def one(process: Process) -> None:
            try:
                await verb(process)
                outcomes[process.process_id] = None
            except OutliveError as error:
                outcomes[process.process_id] = error

        async with asyncio.TaskGroup() as tasks:
            for process in matching:
                tasks.create_task(one(process))
        return outcomes

    async def cancel_all(
        self,
        *,
        cause: Cause = Cause.SHUTDOWN,
        note: str = "",
        grace_s: float | None = None,
        deadline_s: float = 30.0,
    ) -> int:
        """End all live processes, detached ones too; return how many are left after the deadline.

        `grace_s` None leaves each its own.
        """
        await self.finding.listed()

        async def end(process: Process) -> None:
            with contextlib.suppress(OutliveError):  # it may end, or the keeper vanish, at the same moment
                await self.cancel(process, cause=cause, note=note, grace_s=grace_s)
                await until(process, lambda one: one.is_closed)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_s), asyncio.TaskGroup() as group:
                for process in list(self._intake.live.values()):
                    group.create_task(end(process))
        return sum(not process.is_complete for process in self._intake.live.values())

    async def _first_state(self, command: Command, owner: Owner) -> State:
        """Set the group's limit if the command says one, and tell whether it must wait for its turn."""
        if command.group is None:
            return State.STARTING
        if command.group_limit is not None:
            await self.limit_group(owner.principal, command.group, command.group_limit)
        is_full = self._groups.is_full((owner.principal, command.group))
        return State.QUEUED if is_full else State.STARTING

    async def _queue(self, process: Process, command: WaitingCommand) -> None:
        """Let a new process wait for its turn."""
        self._intake.enter(process)
        try:
            await self._groups.wait_in_line(process, command)
        except OutliveError:
            self._intake.leave(process)
            raise
        self._filing.note(process)
        self._announcer.tell(StateChanged, process)

    async def _open_groups(self) -> None:
        """Put everybody in line again who waited when an earlier server ended, and count what runs."""
        for process in self._intake.live.values():
            self._groups.enter(process)
        for command in await self._groups.open():
            spec = decode_spec(command.spec)
            record = replace(base_record(spec, command.process_id), state=State.QUEUED)
            process = Process(
                record,
                self._folder_of(command.process_id),
                output_limit=spec.output_limit,
                redaction=self.redaction,
            )
            self._intake.enter(process)
            self._rejoin(process, command)
            if spec.secrets:  # they were in the memory of the server that has ended
                await self._withdraw(process, cause=Cause.NONE, note=_SECRETS_LOST)

    def _rejoin(self, process: Process, command: WaitingCommand) -> None:
        """Let a process wait that waited when an earlier server ended."""
        self._groups.rejoin(process, command)

    def _step_out(self, process: Process) -> bool:
        """Let a process wait no more; tell whether it did."""
        return self._groups.step_out(process)

    async def _admit(self, process: Process, command: WaitingCommand) -> None:
        """Start a process whose turn it is, however long the keeper is away or the disk full; asking twice starts nothing twice."""
        decision = self._undecided.decision_on(process)

        def settle(outcome: StartOutcome | OutliveError) -> None:
            if isinstance(outcome, StartOutcome):
                self._started(process, outcome)
            elif not _passes(outcome) and not decision.locked():
                refuse(outcome)

        def refuse(error: OutliveError) -> None:
            if not process.is_ended:  # not when it was withdrawn, which is why it is refused
                self._never_start(process, cause=Cause.NONE, error=error.message)

        while not process.is_ended:
            try:
                await self._backend.start(
                    command.process_id,
                    command.spec,
                    command.script,
                    settle=settle,
                    secrets=command.secrets,
                    backend=process.location.backend,
                )
            except OutliveError as error:
                if error.code == "start_unanswered":
                    return  # it is asked for until it is answered, and settled then
                if _passes(error):
                    await asyncio.sleep(_RETRY_S)
                    continue
                async with decision:  # who withdraws it just now comes first
                    refuse(error)
            return

    def _never_start(self, process: Process, *, cause: Cause, error: str) -> None:
        """End a process that will not run any more."""
        record = replace(
            process.record,
            state=State.FAILED_TO_START,
            cause=cause,
            error=error,
            is_complete=True,
            is_closed=True,
        )
        stored = StoredProcess(record=record, complete=record.cursor, output_limit=process.output_limit)
        changes = process.settle_from(stored)
        process.kick()
        self._changed(process, changes)


def _passes(error: OutliveError) -> bool:
    """Tell whether a refusal says nothing about the command: who has waited for a turn waits until it is over."""
    return isinstance(error, BackendUnavailable) or error.code in {"disk_full", "read_only"}
