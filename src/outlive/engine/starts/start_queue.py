"""`StartQueue`: commands that wait for their group's turn, a machine or an approval, until they run or are
withdrawn.

How many of a group run is counted in `groups`, which machine has room in `places`; what waits for an approval
is in `approvals`; whether a command that was asked for runs is decided by `groups.PendingStarts`.
"""

import logging

from outlive.backends.contract import Backend
from outlive.core.command import Command
from outlive.core.errors import InvalidRequest, InvalidState, LimitExceeded, OutliveError
from outlive.core.identity import ProcessId
from outlive.core.layout import Layout
from outlive.core.lifecycle import Cause, State
from outlive.core.process import Owner
from outlive.core.values import replace
from outlive.engine.processes.groups import ConcurrencyLimits, PendingStarts
from outlive.engine.processes.output_redaction import Redaction
from outlive.engine.processes.process import Process
from outlive.engine.processes.process_table import ChangeHandler, ProcessTable, StartOutcomes
from outlive.engine.starts.admitted_starts import AdmittedStarts
from outlive.engine.starts.approvals import ApprovalQueue
from outlive.engine.starts.placed_starts import PlacedStarts
from outlive.operations.reports import GroupView
from outlive.protocols.keeper import decode_spec
from outlive.store.folder import base_record
from outlive.store.queue_store import WaitingCommand

_logger = logging.getLogger(__name__)

_SECRETS_LOST = (
    "Its secrets were in the server's memory only, and the server ended before its turn: it never "
    "ran (secrets_lost)."
)


class StartQueue:
    """The commands that wait. On the engine's loop only.

    Attributes:
        admission: Starts what waits no more.
    """

    def __init__(
        self,
        layout: Layout,
        backend: Backend,
        *,
        limits: ConcurrencyLimits,
        pending: PendingStarts,
        approvals: ApprovalQueue,
        table: ProcessTable,
        changes: ChangeHandler,
        outcomes: StartOutcomes,
        redaction: Redaction,
        placed: PlacedStarts,
    ) -> None:
        """Take the parts; nothing is read before `open`."""
        self._layout = layout
        self._backend = backend
        self._limits = limits
        self._pending = pending
        self._approvals = approvals
        self._table = table
        self._changes = changes
        self._outcomes = outcomes
        self._redaction = redaction
        self.admission = AdmittedStarts(
            backend,
            limits=limits,
            pending=pending,
            table=table,
            changes=changes,
            outcomes=outcomes,
            placed=placed,
            approvals=approvals,
        )

    async def set_limit(self, principal: str, group: str, limit: int | None) -> None:
        """Set how many of a group run at once, for good; None takes the limit away.

        A higher limit admits what waits; a lower one ends no process.

        Raises:
            InvalidRequest: The limit is below 1.
            LimitExceeded: `disk_full`: it cannot be kept.
        """
        if limit is not None and limit < 1:
            raise InvalidRequest("invalid_params", "A group's limit is 1 or more; none takes it away.")
        await self._limits.set_limit((principal, group), limit)

    async def move(self, process: Process, places: int) -> None:
        """Put a command that waits for its turn so many places back in its line, or forward where that is
        negative; for good.

        Raises:
            InvalidState: `not_in_line`.
            LimitExceeded: `disk_full`: the order cannot be kept.
        """
        if not await self._limits.move(process, places):
            text = "The process does not wait for its group's turn."
            if process.state is State.QUEUED and process.needs is not None:
                text = "What waits for a machine gets one in the order in which it came."
            raise InvalidState("not_in_line", text, details={"state": process.state.value})

    def groups(self, principal: str) -> list[GroupView]:
        """Return the groups of a principal, and what is next in each."""
        return [
            GroupView(group=name, limit=one.limit, running=one.running, waiting=list(one.waiting))
            for name, one in self._limits.lines.views(principal).items()
        ]

    async def open(self) -> None:
        """Put in line again what waited when an earlier server ended, and count what runs."""
        for process in self._table.live.values():
            self._limits.enter(process)
        for command in await self._limits.open():
            spec = decode_spec(command.spec)
            try:
                record = replace(base_record(spec, command.process_id), state=State.QUEUED)
            except ValueError:  # a person has changed its file; it is left as it is
                _logger.exception("a command that waits is not understood: %s", command.process_id)
                continue
            process = Process(
                record,
                self._layout.process(command.process_id),
                output_limit=spec.output_limit,
                redaction=self._redaction,
            )
            self._table.processes.enter(process)
            if record.waits_for == "approval":
                self._approvals.rejoin(process, command)
            else:
                self._limits.rejoin(process, command)
            if spec.secrets:  # they were in the memory of the server that has ended
                await self._withdraw(process, cause=Cause.NONE, note=_SECRETS_LOST)

    def begin(self) -> None:
        """Start what the limits allow, now and from now on."""
        self._limits.begin(self.admission)

    async def first_state(self, command: Command, owner: Owner) -> State:
        """Set the limit of a command's group if it says one.

        Return whether the command starts or waits for its turn.
        """
        group = command.group or ""
        if command.group_limit is not None:
            await self.set_limit(owner.principal, group, command.group_limit)
        is_full = self._limits.lines.is_full((owner.principal, group))
        return State.QUEUED if is_full else State.STARTING

    def check_unspent(self, process_id: ProcessId) -> None:
        """Let an id pass under which no command has waited for an approval before, and no process was
        removed.

        Raises:
            InvalidState: `process_ended`: its process was removed.
            InvalidRequest: It is spent.
        """
        self._pending.store.removed.check(process_id)
        self._pending.store.spent.check(process_id)

    def count(self, process: Process) -> None:
        """Count a new process that starts without waiting in its group."""
        self._limits.enter(process)

    async def put(self, process: Process, command: WaitingCommand) -> None:
        """Let a new process wait, for an approval or for its turn; it is on disk when this returns.

        Raises:
            LimitExceeded: `disk_full`: it cannot be kept, and does not wait.
        """
        if process.record.waits_for == "approval":
            if not await self._approvals.put(process, command):
                raise LimitExceeded("disk_full", "The command cannot be kept until it is approved.")
            return
        self._table.processes.enter(process)
        try:
            await self._limits.wait_in_line(process, command)
        except OutliveError:
            self._table.processes.leave(process)
            raise
        self._changes.queued(process)

    async def withdraw(self, process: Process, *, cause: Cause, note: str) -> bool:
        """End a process that waits, so that it never runs; False when it does not wait, or the keeper was
        first.

        Nor does one run whose turn has just come, unless the keeper was first: then it is to be stopped.
        """
        if process not in self._pending:
            return False
        return await self._pending.carry_out(self._withdraw(process, cause=cause, note=note))

    async def _withdraw(self, process: Process, *, cause: Cause, note: str) -> bool:
        """End a process that has not been started; False when it was, or it is not known yet."""
        async with self._pending.decision_on(process):
            if process.is_ended:  # another cancel was first, or it could not be started
                return True
            has_waited = self._approvals.withdraw(process) or self._limits.step_out(process)
            if not await self._pending.withdraw(process, has_waited=has_waited, cause=cause, note=note):
                return False
            self._outcomes.never_started(process, cause=cause, error=note)
            return True
