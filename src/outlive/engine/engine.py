"""`Engine`, the one facade of all doors: its life (open, recover, close) and the start of commands.

The verbs on a process are in `controls`, what is kept of it in `records`, groups in `queue`, the questions in
`queries`; `Engine` is all of them.
It knows no frontend and no protocol: doors call it, are woken through `Process.subscribe` and read the log.
"""

import asyncio
import contextlib
import functools
import os
import time
from dataclasses import replace
from typing import Self
from weakref import WeakKeyDictionary

from outlive.backends.contract import Backend, StartOutcome
from outlive.core.command import Command
from outlive.core.errors import BackendUnavailable, InvalidRequest, OutliveError, StartFailed
from outlive.core.events import (
    ProcessRecovered,
    ProcessStarted,
)
from outlive.core.identity import RANDOM_BYTES, ProcessId, id_to_bytes, is_process_id, new_process_id
from outlive.core.layout import Layout
from outlive.core.lifecycle import State
from outlive.core.process import Owner
from outlive.engine.announcer import Announcer
from outlive.engine.approvals import ApprovalDeadlines, Approvals
from outlive.engine.builders import CommandIds, new_record, new_spec
from outlive.engine.disk_watch import DiskWatch
from outlive.engine.grants import Grants
from outlive.engine.groups import ConcurrencyLimits, StartSlots, check_headcount
from outlive.engine.output_redaction import Redaction, Secrets, hide_error
from outlive.engine.pending_starts import PendingStarts
from outlive.engine.policy_check import Policing
from outlive.engine.preparation import Preparation
from outlive.engine.process import Process
from outlive.engine.process_table import ProcessTable
from outlive.engine.reconciliation import Reconciliation
from outlive.engine.recovery import Recovery
from outlive.engine.resolve import clean_environment, find_shell
from outlive.engine.sandbox import Sandboxes
from outlive.engine.settings import EngineSettings
from outlive.engine.told import Change
from outlive.engine.unread import Unread
from outlive.engine.upkeep import RegistryFeed, Upkeep
from outlive.keeper.common.disk import Reserve, probe
from outlive.protocols.keeper import encode_spec
from outlive.store.queue_store import QueueStore, WaitingCommand
from outlive.store.registry import Registry

_ENDING = int(Change.COMPLETED | Change.CLOSED)


class Engine(Approvals):
    """Starts, controls, finds and remembers processes.

    `async with Engine(...)` opens the registry, connects to the keeper (starting it when nobody listens) and
    recovers what earlier servers started; leaving it stops nothing: the commands go on. Used from one event loop.
    """

    def __init__(self, settings: EngineSettings, *, backend: Backend) -> None:
        """Take the settings and where commands run; nothing is opened yet."""
        self._settings = settings
        self._backend = backend
        self._layout = Layout(settings.state_dir)
        root = self._layout.root
        self._registry = Registry(self._layout.registry, takes_writes=lambda: probe(root) is None)
        self.disk = DiskWatch(root, self._registry)
        self._ids = CommandIds(self._registry)
        self._announcer = Announcer()
        self._places = StartSlots()
        self._intake = ProcessTable(changed=self._changed, announcer=self._announcer)
        self._filing = RegistryFeed(self._registry, self._intake)
        self._room = room = QueueStore(self._layout, fit=Reserve(root).fit)
        self._undecided = PendingStarts(room)
        self._asked = ApprovalDeadlines(expire=self._expire)
        self._policing = Policing(settings.policy, environment=self.environment)
        self._groups = ConcurrencyLimits(room, self._undecided, admit=self._admit)
        self._folder_of = self._layout.process
        self.grants = Grants(self.live, settings)
        self._registry.on_committed = self._filing.committed
        self.secrets = secrets = Secrets()  # values by process id, to be hidden in what is shown
        self.redaction = Redaction(settings.redactor, secrets, hides_values=settings.hides_secrets)
        self.sandboxes = Sandboxes(
            settings.sandbox,
            state_dir=settings.state_dir,
            environment=settings.environment,
            ask=backend.offers,
        )
        self._recovery = Recovery(
            self._layout,
            self._registry,
            self._intake,
            recovered=self._adopted,
            settled=self._changed,
            secrets=secrets,
            redaction=self.redaction,
        )
        self._upkeep = Upkeep(self._layout, self._registry, self._intake, removed=self._removed)
        self.finding = Reconciliation(
            self._registry, self._intake, self._recovery, self._upkeep, found=self._everything_found
        )
        self._unread = Unread(self.release, grace_s=settings.reader_grace_s)
        self.started_count = 0  # of this server; an event for each would cost every start
        self._preparation: Preparation | None = None
        self._recovered: set[str] = set()
        self._group: asyncio.TaskGroup | None = None
        self._input_locks: WeakKeyDictionary[Process, asyncio.Lock] = WeakKeyDictionary()
        self._stack = contextlib.AsyncExitStack()

    @property
    def shell(self) -> str:
        """The program that runs command lines; known once the engine is open."""
        if self._preparation is None:
            raise AssertionError("the engine is used inside `async with` only")
        return self._preparation.shell

    async def __aenter__(self) -> Self:
        """Open everything. What lives becomes known from then on: `find`, `list` and the verbs wait for it, `live` does not (`known`).

        Raises:
            BackendUnavailable: The keeper could not be started.
            StoreCorrupt: The registry could not even be made anew.
        """
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Disconnect and commit what is pending; commands go on."""
        await self._stack.aclose()

    async def _open(self) -> None:
        settings = self._settings
        await self._stack.enter_async_context(self._registry)
        self._stack.push_async_callback(self._filing.close)
        self._stack.push_async_callback(self.redaction.close)
        await self.disk.open()
        await self._ids.open()
        shell = await asyncio.to_thread(find_shell, clean_environment(settings.environment))
        self._preparation = Preparation(
            settings,
            self.sandboxes,
            shell=shell,
            is_strict=self.is_strict,
            queries=self,
            check_backend=self._backend.check,
        )
        self._stack.push_async_callback(self._backend.close)
        await self.finding.open()
        await self._open_groups()
        await self._backend.open(self._intake)
        self._group = group = await self._stack.enter_async_context(asyncio.TaskGroup())
        self._undecided.begin(group)
        for task in (
            group.create_task(self._recovery.run(), name="engine recovery"),
            group.create_task(self._unread.run(), name="engine unread"),
            group.create_task(self.finding.run(settings), name="engine upkeep"),
            group.create_task(self.disk.run(), name="engine disk"),
        ):
            self._stack.callback(task.cancel)
        self._stack.callback(self._groups.close)
        self._stack.callback(self._asked.close)

    def _everything_found(self) -> None:
        """Do what needs to know everybody."""
        if self._group is not None:
            self._groups.begin(self._group)
        self._asked.begin()

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
        if self._preparation is None:
            raise AssertionError("the engine is used inside `async with` only")
        now_ns = time.time_ns()
        await self.finding.enough_for(command, process_id, most=self._settings.max_processes)
        if process_id is None:
            process_id = new_process_id(now_ns, os.urandom(RANDOM_BYTES))
        elif (known := self._intake.live.get(_key_of(process_id))) is not None:
            return _own(known, owner)
        self._room.spent.check(process_id)
        command = self.grants.give(command, owner)
        async with self._places.of(owner.principal):
            return await self._start(self._preparation, command, owner, process_id=process_id, now_ns=now_ns)

    async def _start(
        self, preparation: Preparation, command: Command, owner: Owner, *, process_id: ProcessId, now_ns: int
    ) -> Process:
        redaction = self.redaction
        hide = redaction.texts(secrets := command.env_secrets)
        try:
            check_headcount(self._intake.table.of_principal(owner.principal), self._settings.max_processes)
            resolved, confined = await preparation.prepare(command, owner, process_id)
            approval = await self._approval_for(command, resolved) if self._policing.is_active else None
        except OutliveError as error:
            hide_error(error, hide)
            self._announce_rejection(owner, error.code, command=hide(command.text))
            raise
        state = await self._first_state(command, owner)  # from here on to `enter` nothing is awaited
        record = new_record(
            command,
            resolved,
            owner,
            process_id=process_id,
            command_id=self._ids.new(now_ns // 1_000_000_000),
            created_ns=now_ns,
            settings=self._settings,
            folder=self._layout.process(process_id),
            sandbox=confined.sandbox,
            state=state if approval is None else State.QUEUED,
            approval=approval,
            hide=hide,
        )
        limit = self._settings.output_limit if command.output_limit is None else command.output_limit
        process = Process(record, self._layout.process(process_id), output_limit=limit, redaction=redaction)
        self.secrets.keep(process_id, secrets)
        spec = encode_spec(
            new_spec(
                command, resolved, record, output_limit=limit, confined=confined, settings=self._settings
            )
        )
        if record.state is State.QUEUED:
            await self._queue(process, WaitingCommand(process_id, spec, resolved.script, secrets))
            return process
        self._intake.enter(process)
        self._groups.enter(process)
        await self._backend.start(
            process_id,
            spec,
            resolved.script,
            settle=functools.partial(self._settle, process),
            secrets=secrets,
            backend=record.location.backend,
        )
        return process

    def _settle(self, process: Process, outcome: StartOutcome | OutliveError) -> None:
        if isinstance(outcome, StartOutcome):
            self._started(process, outcome)
        else:
            self._rejected(process, outcome)

    def _started(self, process: Process, started: StartOutcome) -> None:
        self.started_count += 1
        process.confirm_start(started.pid, started.started_ns)
        process.kick()
        if started.is_existing:
            self._intake.doubt(process)
        self._filing.note(process)
        self._announcer.tell(ProcessStarted, process)

    def _adopted(self, process: Process) -> None:
        self._groups.enter(process)
        self._unread.changed(process)
        if process.connection_id is not None and not self.finding.is_over:
            self._recovered.add(process.connection_id)
        self._announcer.tell(ProcessRecovered, process)

    def _rejected(self, process: Process, error: OutliveError) -> None:
        """Forget a start that failed; after a timeout it may still come to life and is then a stranger."""
        hide_error(error, self.redaction.texts(self.secrets.of(process.process_id)))
        self._intake.leave(process)
        self._groups.leave(process)
        record = process.record
        if not isinstance(error, BackendUnavailable):
            failed = replace(
                record, state=State.FAILED_TO_START, error=error.message, is_complete=True, is_closed=True
            )
            stored = replace(process.stored, record=failed, complete=record.cursor)
            process.settle_from(stored)  # for whoever has found it already, and wants to end it
            process.kick()
            if isinstance(error, StartFailed):
                self._registry.put(stored)
        self._announce_failure(record, error)

    def _changed(self, process: Process, changes: int) -> None:
        """Keep and tell what a doorbell (or the files) changed."""
        if changes & _ENDING and process.has_secrets:
            self.redaction.note_masks(process.record, process.folder)
        if process.is_ended:  # what lives is told by the keeper; its row needs no update
            self._filing.note(process)
            self._groups.leave(process)
        self._unread.changed(process)
        self._announcer.tell_changes(process, changes)


def _key_of(process_id: ProcessId) -> bytes:
    """Return the key of an id that somebody else has chosen."""
    if not is_process_id(process_id):
        raise InvalidRequest("invalid_params", f"Not a process id: {process_id[:40]!r}.")
    return id_to_bytes(process_id)


def _own(known: Process, owner: Owner) -> Process:
    """Return a process that was started under this id before, to its owner only."""
    if known.principal != owner.principal:
        raise InvalidRequest("invalid_params", "process_id: this one is taken.")
    return known
