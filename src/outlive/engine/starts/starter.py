"""`Starter`: starts commands that had to wait, or that need a place, until it is known what came of it.

What waits for any machine is stored in the words of its caller, as a node would get them, and is described
for its machine just before its start: for a node the place is written in; for this machine the words are
resolved anew, as a node does with what it is sent. Which command is started when is `start_queue`'s.
"""

import asyncio
import functools

from outlive.backends.contract import Backend, StartOutcome
from outlive.core.command import as_callers_write
from outlive.core.errors import BackendUnavailable, OutliveError
from outlive.core.location import LOCAL, Location
from outlive.core.process import ProcessRecord
from outlive.core.values import dataclass, field, replace
from outlive.engine.commands.elsewhere import execute_words
from outlive.engine.processes.places import Places
from outlive.engine.processes.process import Process
from outlive.engine.processes.process_table import StartOutcomes
from outlive.engine.settings import EngineSettings
from outlive.engine.starts.preparation import Preparation, new_spec
from outlive.engine.starts.standing_approvals import StandingApprovals
from outlive.operations.requests import convert_request
from outlive.protocols.jsonrpc.params import ExecuteParams
from outlive.protocols.keeper import decode_spec, encode_spec, with_meta
from outlive.store.folder import encode_meta
from outlive.store.queue_store import WaitingCommand

_RETRY_S = 1.0
# Which GPUs a program sees: CUDA's documentation, and HIP's, which honours the same name.
_GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"
# Refusals of a machine that say nothing of the command: it had not been started, and another machine may take
# it.
_GOES_ELSEWHERE = frozenset({"node_unavailable", "no_room"})


@dataclass(eq=False, slots=True)
class PendingStart:
    """A command of which it is not known yet that it runs, or never will.

    Attributes:
        process: Its process,
        command: and what is to be started.
        told: Where a caller waits for what comes of the start; None: it had to wait, and its file is on disk.
        decision: To be held while one decides, or learns, whether it runs.
        answer: What the backend has answered last,
        is_answered: and that it has.
    """

    process: Process
    command: WaitingCommand
    told: asyncio.Future[OutliveError | None] | None = None
    decision: asyncio.Lock = field(default_factory=asyncio.Lock)
    answer: StartOutcome | OutliveError | None = None
    is_answered: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_heard(self) -> bool:
        """Whether a caller still waits for what comes of it."""
        return self.told is not None and not self.told.done()

    def tell(self, error: OutliveError | None) -> None:
        """Answer the caller, if one waits."""
        if self.told is not None and not self.told.done():
            self.told.set_result(error)


@dataclass(eq=False, slots=True, kw_only=True)
class Starter:
    """Asks for starts. On the engine's loop only."""

    settings: EngineSettings
    backend: Backend
    places: Places
    preparation: Preparation
    standing: StandingApprovals
    outcomes: StartOutcomes

    async def start(self, pending: PendingStart) -> OutliveError | None:
        """Ask for a start until it is known what came of it, however long the keeper is away or the disk
        full; asking twice starts nothing twice.

        Return why it was refused, None when it was not. That is recorded, unless it `goes_elsewhere`.
        """
        process, pending.answer = pending.process, None
        pending.is_answered.clear()
        # Described for its machine once: it does not change while that is asked again.
        placed: WaitingCommand | None = None
        while not process.status.is_ended:
            try:
                if placed is None:
                    placed = await self._placed(process, pending.command)
                    if process.status.is_ended:
                        break
                await self.standing.check_unchanged(process.record, placed.spec)
                await self.backend.start(
                    placed.process_id,
                    placed.spec,
                    placed.script,
                    settle=functools.partial(self._settle, pending),
                    secrets=placed.secrets,
                    backend=process.base.location.backend,
                )
            except OutliveError as error:
                answer = await _answer_behind(pending, error)
                if isinstance(answer, StartOutcome):
                    break
                if goes_elsewhere(process, answer):
                    return answer
                # A caller that waits is told of what passes: where nothing was started, that is all; where it
                # may have been, the start goes on.
                if _passes(answer) and (isinstance(answer, BackendUnavailable) or not pending.is_heard):
                    pending.tell(answer)
                    pending.is_answered.clear()
                    await asyncio.sleep(_RETRY_S)
                    continue
                async with pending.decision:  # a withdrawal that has begun comes first
                    self._refuse(pending, answer)
                return answer
            break
        return None

    def _settle(self, pending: PendingStart, answer: StartOutcome | OutliveError) -> None:
        """Take over an answer (see `Backend.start`)."""
        process = pending.process
        pending.answer = answer
        pending.is_answered.set()
        if isinstance(answer, StartOutcome):
            self.outcomes.settle(process, answer)
        elif not (_passes(answer) or goes_elsewhere(process, answer) or pending.decision.locked()):
            self._refuse(pending, answer)

    def _refuse(self, pending: PendingStart, error: OutliveError) -> None:
        """Record a refusal; not of a command that was withdrawn, which is why it is refused."""
        if not pending.process.status.is_ended:
            self.outcomes.refuse(pending.process, error, is_heard=pending.is_heard)

    async def _placed(self, process: Process, command: WaitingCommand) -> WaitingCommand:
        """Return what is started, and have the process show where it runs.

        Raises:
            OutliveError: It cannot run on this machine, which is its place.
        """
        command = await self._located(process, command)
        if process.status.is_ended:  # withdrawn meanwhile
            return command
        if process.base.location.kind != "local" or not (gpus := self.places.take_gpus(process)):
            return command
        process.place(process.base.location, process.record.cwd, gpus)
        spec = decode_spec(command.spec)
        env = {**spec.env, _GPU_VARIABLE: ",".join(gpus)}
        meta = {**spec.meta, **encode_meta(process.record)}
        return replace(command, spec=encode_spec(spec._replace(env=env, meta=meta)))

    async def _located(self, process: Process, command: WaitingCommand) -> WaitingCommand:
        record, node = process.record, self.places.node_of(process)
        if node is None or not record.location.is_open:
            return command
        if node == LOCAL:
            return await self._here(record, process, command)
        location = Location(kind="node", backend=node, image=record.location.image)
        process.place(location, record.cwd)
        return replace(command, spec=with_meta(command.spec, encode_meta(replace(record, location=location))))

    async def _here(self, record: ProcessRecord, process: Process, command: WaitingCommand) -> WaitingCommand:
        spec = decode_spec(command.spec)
        words = execute_words(spec, command.script, command.secrets)
        members = {name: value for name, value in as_callers_write(words).items() if value is not None}
        asked = convert_request(members, ExecuteParams).to_command()
        # Which profile it gets was decided when it was asked for, and stands among the words.
        owner = replace(record.owner, is_admin=True, inside=None)
        resolved = await self.preparation.prepare(replace(asked, backend=LOCAL), owner, record.process_id)
        process.place(resolved.location, resolved.cwd)
        placed = replace(
            record,
            location=resolved.location,
            cwd=resolved.cwd,
            shell=resolved.shell,
            sandbox=resolved.sandbox,
        )
        limit = spec.output_limit
        new = new_spec(asked, resolved, placed, output_limit=limit, settings=self.settings)
        # What the first answer to the start put down, the token of a grant for instance, stays.
        # The old place is "any", and that of this machine has no member of its own.
        before = {name: value for name, value in spec.meta.items() if name != "location"}
        meta = {**before, **new.meta}
        return replace(
            command,
            spec=encode_spec(new._replace(meta=meta)),
            script=resolved.script,
            secrets={**resolved.caller_env, **command.secrets},
        )


def goes_elsewhere(process: Process, error: OutliveError) -> bool:
    """Return whether a refused start waits for a place once more: on another machine, or where its caller
    wants it.
    """
    needs = process.base.needs
    if needs is None:
        return False
    return error.code == "no_room" or (not needs.node and error.code in _GOES_ELSEWHERE)


def _passes(error: OutliveError) -> bool:
    """Return whether a refusal says nothing about the command: what has waited for a turn waits until it is
    over.
    """
    return isinstance(error, BackendUnavailable) or error.code in {"disk_full", "read_only"}


async def _answer_behind(pending: PendingStart, error: OutliveError) -> StartOutcome | OutliveError:
    """Return what an error says of a start: where its node has not answered, what that answers in the end."""
    if error.code != "start_unanswered":
        return error
    pending.tell(error)
    await pending.is_answered.wait()  # the node is asked until it answers
    return error if pending.answer is None else pending.answer
