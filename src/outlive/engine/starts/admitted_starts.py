"""`AdmittedStarts`: starts commands whose turn has come, until it is known what came of it: here, or on the
machine that has room.

What waits for its turn is in `groups`, which machine has room is known to `places`, and where a start is
described anew for its machine is `placed_starts`.
"""

import asyncio

from outlive.backends.contract import Backend, StartOutcome
from outlive.core.errors import BackendUnavailable, OutliveError
from outlive.core.lifecycle import Cause
from outlive.core.location import ANY, Location
from outlive.engine.processes.groups import ConcurrencyLimits, PendingStarts
from outlive.engine.processes.places import no_room
from outlive.engine.processes.process import Process
from outlive.engine.processes.process_table import ChangeHandler, ProcessTable, StartOutcomes
from outlive.engine.starts.approvals import ApprovalQueue
from outlive.engine.starts.placed_starts import PlacedStarts, goes_elsewhere
from outlive.store.queue_store import WaitingCommand

_RETRY_S = 1.0
_STOPPING = "The server is being stopped."
_OPEN = Location(kind="node", backend=ANY)


class AdmittedStarts:
    """Asks for starts that had to wait, or that need a place (see `groups.StartAdmission`).

    On the engine's loop only.

    Attributes:
        places: Which commands have a place on a machine.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        limits: ConcurrencyLimits,
        pending: PendingStarts,
        table: ProcessTable,
        changes: ChangeHandler,
        outcomes: StartOutcomes,
        placed: PlacedStarts,
        approvals: ApprovalQueue,
    ) -> None:
        self._backend = backend
        self._limits = limits
        self.places = limits.places
        self._pending = pending
        self._table = table
        self._changes = changes
        self._outcomes = outcomes
        self._placed = placed
        self._approvals = approvals

    async def start_placed(self, process: Process, command: WaitingCommand) -> None:
        """Start a command that has just got a place, or is about to.

        Where it has none after all, it waits for another one.

        Raises:
            BackendUnavailable: `start_unanswered`: its node has not answered; the start goes on.
            OutliveError: What came of the start.

        Cancellation: the start goes on.
        """
        self._table.processes.enter(process)
        self._limits.enter(process)
        self._pending.add(process, command)
        told: asyncio.Future[OutliveError | None] = asyncio.get_running_loop().create_future()
        if not self._pending.spawn(self._begin_placed(process, command, told)):
            raise BackendUnavailable("keeper_unavailable", _STOPPING)
        if (failed := await told) is not None:
            raise failed

    async def _begin_placed(
        self, process: Process, command: WaitingCommand, told: asyncio.Future[OutliveError | None]
    ) -> bool:
        failed: OutliveError | None = BackendUnavailable("keeper_unavailable", _STOPPING)
        try:
            try:
                if not await self.places.is_given(process) and not process.is_ended:
                    raise _Moved(no_room(), was_given=False)  # noqa: TRY301 - as where its machine refuses it
                failed = await self._ask(process, command, told)
                self._pending.forget(process)
            except _Moved as moved:
                async with self._pending.decision_on(process):  # a withdrawal that has begun comes first
                    failed = await self._queue_placed(process, command, moved, told)
        finally:
            if not told.done():
                told.set_result(failed)
        return True

    async def _queue_placed(
        self,
        process: Process,
        command: WaitingCommand,
        moved: "_Moved",
        told: asyncio.Future[OutliveError | None],
    ) -> OutliveError | None:
        """Let a command wait for another place that was to start at once.

        Return why it cannot, or does not.
        """
        if process.is_ended:
            self._pending.forget(process)
            return moved.error
        needs = process.needs
        if needs is not None and not needs.is_patient:
            self._pending.forget(process)
            _refuse(process, moved.error, told, outcomes=self._outcomes)
            return moved.error
        self._open_again(process, was_given=moved.was_given)
        try:
            await self._limits.wait_in_line(process, command, is_first=True)
        except OutliveError as error:
            _refuse(process, error, told, outcomes=self._outcomes)
            return error
        self._changes.queued(process)
        return None

    def _open_again(self, process: Process, *, was_given: bool = True) -> None:
        """Have a process wait, and give the place back that the machine did not give.

        One that was asked for is still wanted.

        It counts in its group until it is back in line, so that no other one takes its turn.
        """
        if was_given:
            self.places.refused(process)
        process.status.queue_again()
        # Where its caller has named the place, it is described for that, and waits for that.
        is_named = process.needs is not None and bool(process.needs.node)
        process.place(process.location if is_named else _OPEN, process.record.cwd)

    async def admit(self, process: Process, command: WaitingCommand) -> bool:
        """Start a process whose turn it is, however long the keeper is away or the disk full; False: it waits
        for another place.

        Asking twice starts nothing twice.
        """
        try:
            await self._ask(process, command)
        except _Moved as moved:
            async with self._pending.decision_on(process):  # a withdrawal that has begun comes first
                if process.is_ended:
                    return True
                if process.needs is not None and not process.needs.is_patient:
                    self._outcomes.never_started(process, cause=Cause.NONE, error=moved.error.message)
                    return True
                self._open_again(process)
                self._limits.rejoin(process, command, is_first=True)
            self._limits.advance(process)
            return False
        return True

    async def _ask(
        self,
        process: Process,
        command: WaitingCommand,
        told: asyncio.Future[OutliveError | None] | None = None,
    ) -> OutliveError | None:
        """Ask for a start until it is known what came of it; return why it was refused, None when it was not.

        A caller that waits for `told` is told meanwhile that a node does not answer.

        Raises:
            _Moved: Its machine does not take it, and another one may.
        """
        asked = _AskedStart(
            process, told, decision=self._pending.decision_on(process), outcomes=self._outcomes
        )
        # Described for its machine once: it does not change while that is asked again.
        placed: WaitingCommand | None = None
        while not process.is_ended:
            try:
                if placed is None:
                    placed = await self._placed.at(self.places.node_of(process), process, command)
                    if process.is_ended:
                        break
                await self._approvals.check_unchanged(process, placed)
                await self._backend.start(
                    placed.process_id,
                    placed.spec,
                    placed.script,
                    settle=asked.settle,
                    secrets=placed.secrets,
                    backend=process.location.backend,
                )
            except OutliveError as error:
                answer = await asked.answer_behind(error)
                if isinstance(answer, StartOutcome):
                    break
                if goes_elsewhere(process, answer):
                    raise _Moved(answer) from None
                if _passes(answer) and asked.goes_on(answer):
                    asked.is_answered.clear()
                    await asyncio.sleep(_RETRY_S)
                    continue
                async with asked.decision:  # a withdrawal that has begun comes first
                    asked.refuse(answer)
                return answer
            break
        return None


class _Moved(Exception):
    """A command has no place after all and waits for one once more: its machine did not take it, or it was
    not given one.

    `error` is what a caller hears that does not wait.
    """

    def __init__(self, error: OutliveError, *, was_given: bool = True) -> None:
        super().__init__(error.message)
        self.error = error
        self.was_given = was_given


def _passes(error: OutliveError) -> bool:
    """Return whether a refusal says nothing about the command: what has waited for a turn waits until it is
    over.
    """
    return isinstance(error, BackendUnavailable) or error.code in {"disk_full", "read_only"}


def _refuse(
    process: Process,
    error: OutliveError,
    told: asyncio.Future[OutliveError | None] | None,
    *,
    outcomes: StartOutcomes,
) -> None:
    """Record that a start was refused: to its caller, which may ask again under the same id, or for all that
    know it as one that waits.
    """
    if told is None or told.done():
        outcomes.never_started(process, cause=Cause.NONE, error=error.message)
    else:
        outcomes.settle(process, error)


class _AskedStart:
    """A start that a backend was asked for, once or again, and what it has answered."""

    def __init__(
        self,
        process: Process,
        told: asyncio.Future[OutliveError | None] | None,
        *,
        decision: asyncio.Lock,
        outcomes: StartOutcomes,
    ) -> None:
        self.decision = decision
        self.is_answered = asyncio.Event()
        self._process = process
        self._told = told
        self._outcomes = outcomes
        self._answer: StartOutcome | OutliveError | None = None

    def settle(self, outcome: StartOutcome | OutliveError) -> None:
        """Take over what came of it (see `Backend.start`)."""
        self._answer = outcome
        self.is_answered.set()
        if isinstance(outcome, StartOutcome):
            self._outcomes.settle(self._process, outcome)
        elif (
            not _passes(outcome) and not goes_elsewhere(self._process, outcome) and not self.decision.locked()
        ):
            self.refuse(outcome)

    def refuse(self, error: OutliveError) -> None:
        """Record that it was refused; not when it was withdrawn, which is why it is refused."""
        if not self._process.is_ended:
            _refuse(self._process, error, self._told, outcomes=self._outcomes)

    def goes_on(self, error: OutliveError) -> bool:
        """Return whether the start is asked for again after what passes by itself.

        A caller that waits is told of it: where nothing was started, that is all; where it may have been, the
        start goes on.
        """
        if self._told is None or self._told.done():
            return True
        if not isinstance(error, BackendUnavailable):
            return False
        self._tell(error)
        return True

    async def answer_behind(self, error: OutliveError) -> StartOutcome | OutliveError:
        """Return what an error says of the start: where its node has not answered, what that answers in the
        end.
        """
        if error.code != "start_unanswered":
            return error
        self._tell(error)
        await self.is_answered.wait()  # the node is asked until it answers
        return error if self._answer is None else self._answer

    def _tell(self, error: OutliveError) -> None:
        if self._told is not None and not self._told.done():
            self._told.set_result(error)
