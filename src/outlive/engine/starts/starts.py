"""`Starts`: from a command to a process that runs or waits.

The steps of one start, each in a module of its own: what the command resolves to and what bounds it (`preparation`),
whether a person is asked (`approvals`) or its group is full (`queue`), what is noted down of it (`builders`), the backend,
and what became of it (`start_outcomes`).
"""

import functools
import os
import time

from outlive.backends.contract import Backend
from outlive.core.command import Command
from outlive.core.errors import InvalidRequest, OutliveError
from outlive.core.identity import RANDOM_BYTES, ProcessId, id_to_bytes, is_process_id, new_process_id
from outlive.core.layout import Layout
from outlive.core.lifecycle import State
from outlive.core.process import Owner
from outlive.engine.changes.process_table import ProcessTable
from outlive.engine.changes.start_outcomes import StartOutcomes
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.output_redaction import Redaction, hide_error
from outlive.engine.processes.process import Process
from outlive.engine.queue.groups import StartSlots, check_headcount
from outlive.engine.recovery.reconciliation import Reconciliation
from outlive.engine.settings import EngineSettings
from outlive.engine.starts.approvals import ApprovalQueue
from outlive.engine.starts.builders import CommandIds, new_record, new_spec
from outlive.engine.starts.grants import Grants
from outlive.engine.starts.preparation import Preparation
from outlive.engine.starts.start_queue import StartQueue
from outlive.protocols.keeper import encode_spec
from outlive.store.queue_store import WaitingCommand


class Starts:
    """Starts commands. Used from one event loop, inside `async with engine`."""

    def __init__(
        self,
        settings: EngineSettings,
        backend: Backend,
        *,
        preparation: Preparation,
        reconciliation: Reconciliation,
        ids: CommandIds,
        queue: StartQueue,
        approvals: ApprovalQueue,
        table: ProcessTable,
        outcomes: StartOutcomes,
        grants: Grants,
        redaction: Redaction,
        events: EventPublisher,
    ) -> None:
        """Take the parts that have a say in a start."""
        self._settings = settings
        self._backend = backend
        self._preparation = preparation
        self._reconciliation = reconciliation
        self._ids = ids
        self._table = table
        self._queue = queue
        self._approvals = approvals
        self._outcomes = outcomes
        self._grants = grants
        self._redaction = redaction
        self._events = events
        self._layout = Layout(settings.state_dir)
        self._slots = StartSlots()

    @property
    def shell(self) -> str:
        """The program that runs command lines; known once the engine is open."""
        return self._preparation.shell

    @property
    def count(self) -> int:
        """How many processes this server has started."""
        return self._outcomes.started_count

    async def start(self, command: Command, *, owner: Owner, process_id: ProcessId | None = None) -> Process:
        """Start a command and return once it runs, or waits for an approval or for its group's turn.

        Args:
            command: What to run; defaults are filled in from the engine's settings.
            owner: Whose process it becomes.
            process_id: A permanent id chosen by the caller; a repeated start with it starts nothing twice.

        Raises:
            StartFailed: Program or folder missing, not executable, an argument too long; no such sandbox here.
            CommandRefused: The operator's lists, or its profile, do not allow it.
            InvalidRequest: The command makes no sense (empty, NUL inside).
            LimitExceeded: Too many processes, or the disk is full.
            BackendUnavailable: The keeper did not answer within 25 s; it may still start, for its owner to find.

        Cancellation: the command may run all the same; it is then found by its owner's connection.
        """
        now_ns = time.time_ns()
        await self._reconciliation.enough_for(command, process_id, most=self._settings.max_processes)
        if process_id is None:
            process_id = new_process_id(now_ns, os.urandom(RANDOM_BYTES))
        elif (known := self._table.live.get(_key_of(process_id))) is not None:
            return _own(known, owner)
        self._queue.check_unspent(process_id)
        command = self._grants.give(command, owner)
        async with self._slots.of(owner.principal):
            return await self._start(command, owner, process_id=process_id, now_ns=now_ns)

    async def _start(self, command: Command, owner: Owner, *, process_id: ProcessId, now_ns: int) -> Process:
        settings, redaction = self._settings, self._redaction
        hide = redaction.texts(secrets := command.env_secrets)
        try:
            check_headcount(self._table.processes.of_principal(owner.principal), settings.max_processes)
            resolved, confined = await self._preparation.prepare(command, owner, process_id)
            approval = await self._approvals.needed_for(command, resolved)
        except OutliveError as error:
            hide_error(error, hide)
            self._events.publish_refusal(owner, error.code, command=hide(command.text))
            raise
        # From here on to `skip` nothing is awaited: another start must not take the same place in the group.
        state = await self._queue.first_state(command, owner)
        folder = self._layout.process(process_id)
        record = new_record(
            command,
            resolved,
            owner,
            process_id=process_id,
            command_id=self._ids.new(now_ns // 1_000_000_000),
            created_ns=now_ns,
            settings=settings,
            folder=folder,
            sandbox=confined.sandbox,
            state=state if approval is None else State.QUEUED,
            approval=approval,
            hide=hide,
        )
        limit = settings.output_limit if command.output_limit is None else command.output_limit
        process = Process(record, folder, output_limit=limit, redaction=redaction)
        redaction.secrets.keep(process_id, secrets)
        spec = encode_spec(
            new_spec(command, resolved, record, output_limit=limit, confined=confined, settings=settings)
        )
        if record.state is State.QUEUED:
            await self._queue.put(process, WaitingCommand(process_id, spec, resolved.script, secrets))
            return process
        self._queue.skip(process)
        await self._backend.start(
            process_id,
            spec,
            resolved.script,
            settle=functools.partial(self._outcomes.settle, process),
            secrets=secrets,
            backend=record.location.backend,
        )
        return process


def _key_of(process_id: ProcessId) -> bytes:
    """Return the key of an id that the caller has chosen."""
    if not is_process_id(process_id):
        raise InvalidRequest("invalid_params", f"Not a process id: {process_id[:40]!r}.")
    return id_to_bytes(process_id)


def _own(known: Process, owner: Owner) -> Process:
    """Return a process that was started under this id before, to its owner only."""
    if known.principal != owner.principal:
        raise InvalidRequest("invalid_params", "process_id: this one is taken.")
    return known
