"""`Starts`: from a command to a process that runs or waits.

`Starts.start` says which id the process has and waits for a slot; `Starts._start` names the steps one under
the other. What they ask: `Preparation` (may it be started, what does it resolve to, what bounds it),
`approvals` (is a person asked), `start_queue` (is its group full, has a machine room for it), the backend;
`StartOutcomes` takes over the backend's answer. Its names are `names`'.

`Grants` are tokens of running commands, one mechanism for what a start asks for and for what the operator
gives to all. The secret goes to the process with its other secrets: in memory, as a variable, in no words and
no file. What is kept is the hash, with the process: the token counts while that runs, also for a server that
is started anew, and in that process only. Nothing has to be revoked.
"""

import asyncio
import contextlib
import functools
import hmac
import os
import secrets
import time

from outlive.backends.contract import Backend
from outlive.core.command import Command, Grant
from outlive.core.errors import AccessDenied, InvalidRequest, OutliveError, StartFailed
from outlive.core.identity import RANDOM_BYTES, ProcessId, id_to_bytes, is_process_id, new_process_id
from outlive.core.layout import Layout
from outlive.core.lifecycle import State
from outlive.core.location import LOCAL
from outlive.core.process import Owner, check_name
from outlive.core.values import dataclass, field, replace
from outlive.engine.health import DiskWatch
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.output_redaction import TOKEN_NAME, Redaction, hide_error
from outlive.engine.processes.process import Process, boot_time
from outlive.engine.processes.process_table import LiveTable, ProcessTable, StartOutcomes
from outlive.engine.recovery.reconciliation import Reconciliation
from outlive.engine.semaphores import Semaphores
from outlive.engine.settings import EngineSettings
from outlive.engine.starts.approvals import StartApprovals
from outlive.engine.starts.names import StartNames
from outlive.engine.starts.preparation import Preparation, new_record, new_spec
from outlive.engine.starts.start_queue import StartQueue
from outlive.policy.access import GRANTED_SCOPES, PREFIX, Scope, Token, WantedGrant, digest_of, parse_grant
from outlive.protocols.keeper import encode_spec
from outlive.store.queue_store import WaitingCommand

_SECRET_BYTES = 32  # 256 bits


class Grants:
    """Gives tokens to commands, and finds them again. On the engine's loop only."""

    def __init__(self, live: LiveTable, settings: EngineSettings) -> None:
        """Take the live processes, and what every command gets that asks for nothing (`callbacks`)."""
        self._live = live
        self._to_all = settings.callbacks
        self._default_backend = settings.options.backend

    def give(self, command: Command, owner: Owner) -> Command:
        """Return a command with the token that it gets, if it gets one.

        Raises:
            InvalidRequest: `grant` makes no sense, or the command runs elsewhere.
            AccessDenied: `scope_missing`: more is asked for than the caller may do itself.
        """
        most = Scope.ADMIN if owner.is_admin else Scope.RUN
        wanted = None if command.grant is None else parse_grant(command.grant)
        is_here = (command.backend or self._default_backend) == LOCAL
        if wanted is None:
            if self._to_all is None or not is_here or TOKEN_NAME in command.env:
                return command
            wanted = WantedGrant(scope=min(self._to_all, most))
        if not is_here:
            text = "grant: a command in a container or on a node does not reach this server."
            raise InvalidRequest("invalid_params", text)
        if wanted.scope > most:
            text = f"grant: the scope {wanted.scope.name.lower()!r} is more than the caller's own."
            raise AccessDenied("scope_missing", text)
        secret = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        expires = None
        if wanted.duration_s is not None:
            now = boot_time()
            expires = replace(now, boottime_ns=now.boottime_ns + round(wanted.duration_s * 1e9))
        grant = Grant(scope=wanted.scope.name.lower(), digest=digest_of(secret), expires=expires)
        return replace(command, granted=grant, env_secrets={**command.env_secrets, TOKEN_NAME: secret})

    def find(self, digest: str) -> Token | None:
        """Return the token with that hash, if its process runs and its time is not up."""
        for process in tuple(self._live.by_key.values()):
            grant = process.identity_record.grant
            if grant is None or process.status.is_ended or not hmac.compare_digest(grant.digest, digest):
                continue
            if grant.expires is not None and boot_time().boottime_ns >= grant.expires.boottime_ns:
                return None
            return Token(
                name=f"run-{process.process_id}",
                scope=GRANTED_SCOPES[grant.scope],
                digest=grant.digest,
                created_at=process.record.created_at,
                process_id=process.process_id,
                acts_for=process.principal,
            )
        return None


# Each start on its way holds a shim and becomes a process that wants a core. More than a few for each core
# are needed to keep it busy; beyond that they only take turns from all others: at 64 on two cores this server
# itself waited most of the time for one (decision 91).
_EACH_CORE = 8


@dataclass(eq=False, slots=True, kw_only=True)
class Starts:
    """Starts commands. Used from one event loop, inside `async with engine`."""

    settings: EngineSettings
    layout: Layout
    backend: Backend
    preparation: Preparation
    reconciliation: Reconciliation
    names: StartNames
    queue: StartQueue
    approvals: StartApprovals
    table: ProcessTable
    outcomes: StartOutcomes
    grants: Grants
    redaction: Redaction
    disk: DiskWatch
    events: EventPublisher
    _slots: Semaphores = field(default_factory=lambda: Semaphores(_places()), init=False)

    async def start(self, command: Command, *, owner: Owner, process_id: ProcessId | None = None) -> Process:
        """Start a command and return once it runs, or waits for an approval or for its group's turn.

        Args:
            command: What to run; defaults are filled in from the engine's settings.
            owner: Whose process it becomes.
            process_id: A permanent id chosen by the caller; a repeated start with it starts nothing twice. A
                command with a `key` that has started one before is not started again: the process that is
                returned has another id then.

        Raises:
            StartFailed: Program or folder missing, not executable, an argument too long; no such sandbox
            here.
            CommandRefused: The operator's lists, or its profile, do not allow it.
            InvalidRequest: The command makes no sense (empty, NUL inside).
            InvalidState: `name_taken`: a process of that name lives in the project.
            LimitExceeded: Too many processes, or the disk is full.
            BackendUnavailable: `folder_gone`; or the keeper did not answer within 25 s: the command may still
            start, for its owner to find.

        Cancellation: the command may run all the same; it is then found by its owner's connection.
        """
        now_ns, settings = time.time_ns(), self.settings
        self.disk.check_in_place()
        if not self.reconciliation.is_over:
            await self.reconciliation.enough_for(command, process_id, most=settings.options.max_processes)
        if process_id is None:
            process_id = new_process_id(now_ns, os.urandom(RANDOM_BYTES))
        else:  # the caller has chosen it: the start may be a repetition
            if (known := self.table.live.get(_key_of(process_id))) is not None:
                return _own(known, owner)
            self.queue.store.check_unspent(process_id)
        if command.notify:
            settings.notices.check(command.notify)
        if command.grant is not None or settings.callbacks is not None:
            command = self.grants.give(command, owner)
        if command.name is not None:
            check_name(command.name)
        if command.key is None and command.name is None:
            async with contextlib.AsyncExitStack() as slot:
                await slot.enter_async_context(self._slots.of(owner.principal))
                return await self._start(command, owner, process_id=process_id, now_ns=now_ns, slot=slot)
        return await self._start_called(command, owner, process_id=process_id, now_ns=now_ns)

    async def _start_called(
        self, command: Command, owner: Owner, *, process_id: ProcessId, now_ns: int
    ) -> Process:
        """Start a command with a key or a name, one at a time of each.

        Return what the key has started before, if anything.
        """
        place = (owner.principal, command.project or "")
        async with contextlib.AsyncExitStack() as held:
            # Always the key first: two starts that wait for each other would wait for ever.
            if command.key is not None:
                await held.enter_async_context(self.names.keys.locks.of((*place, command.key)))
            if command.name is not None:
                await held.enter_async_context(self.names.holders.locks.of((*place, command.name)))
            slot = await held.enter_async_context(contextlib.AsyncExitStack())
            await slot.enter_async_context(self._slots.of(owner.principal))
            # The same start, sent again while the first one waited for what it replaces.
            if (same := self.table.live.get(id_to_bytes(process_id))) is not None:
                return _own(same, owner)
            if command.key is not None:
                text = self.redaction.texts(command.env_secrets)(command.text)
                known = await self.names.keys.find(
                    command.key, command, place, text=text, connection_id=owner.connection_id
                )
                if known is not None:
                    return known
            return await self._start(command, owner, process_id=process_id, now_ns=now_ns, slot=slot)

    async def _start(
        self,
        command: Command,
        owner: Owner,
        *,
        process_id: ProcessId,
        now_ns: int,
        slot: contextlib.AsyncExitStack,
    ) -> Process:
        """Take the steps of a start, in their order; each may refuse it.

        The slot is left where a node is waited for.
        """
        settings, redaction = self.settings, self.redaction
        hide = redaction.texts(secrets := command.env_secrets)
        if command.caller_env is not None and settings.is_strict:
            command = self.preparation.adapted(command)
        place = (owner.principal, command.project or "")
        try:
            self.table.processes.check_count(owner.principal, settings.options.max_processes)
            numbers = await self.names.short_ids.of(place)
            resolved = await self.preparation.prepare(command, owner, process_id)
            approval = (
                await self.approvals.needed_for(command, resolved) if settings.policy.is_active else None
            )
            if (
                command.name is not None
            ):  # last: what a start replaces is ended only for one that nothing else refuses
                needs_approval = approval is not None and approval.approved_by is None
                await self.names.holders.make_free(command, owner, place, needs_approval=needs_approval)
        except OutliveError as error:
            hide_error(error, hide)
            self.events.publish_refusal(owner, error.code, command=hide(command.text))
            raise
        state = State.STARTING if command.group is None else await self.queue.first_state(command, owner)
        # From here to `self.queue.enter` nothing is awaited: another start must not take the same place in
        # the group.
        folder = self.layout.process(process_id)
        record = new_record(
            command,
            resolved,
            owner,
            process_id=process_id,
            command_id=self.names.command_ids.new(now_ns // 1_000_000_000),
            number=numbers.new(),
            created_ns=now_ns,
            settings=settings,
            folder=folder,
            state=state if approval is None or approval.approved_by is not None else State.QUEUED,
            approval=approval,
            hide=hide,
        )
        if record.needs is not None and record.state is State.STARTING and not self.queue.places.ask(record):
            record = replace(record, state=State.QUEUED)
        limit = settings.options.output_limit_bytes if command.output_limit is None else command.output_limit
        process = Process(record, folder, output_limit=limit, redaction=redaction)
        if secrets:
            redaction.secrets.keep(process_id, secrets)
        # Both travel to the keeper beside the spec, which is written to disk; a secret of the same name wins.
        in_memory = {**resolved.caller_env, **secrets}
        spec = encode_spec(new_spec(command, resolved, record, output_limit=limit, settings=settings))
        if record.location.is_elsewhere and not (
            record.state is State.QUEUED or self.queue.places.node_of(process) == LOCAL
        ):
            await slot.aclose()  # other starts do not wait for what the node answers
        if record.state is State.QUEUED or record.needs is not None:
            described = WaitingCommand(process_id, spec, resolved.script, in_memory)
            await self._wait(command, process, described)
            return process
        self.table.processes.enter(process)
        if command.group is not None:
            self.queue.enter(process)
        if approval is not None or command.notify:
            await self._check_again(command, process, spec)
        await self.backend.start(
            process_id,
            spec,
            resolved.script,
            settle=functools.partial(self.outcomes.settle, process),
            secrets=in_memory,
            backend=record.location.backend,
        )
        return process

    async def _wait(self, command: Command, process: Process, described: WaitingCommand) -> None:
        """Let a command wait, for whatever it has to wait for, or start it in its place."""
        try:
            if command.notify:
                await self.settings.notices.owe(process.process_id, command.notify)
        except BaseException:  # a cancelled start as well: it does not take its place, nor wait for one
            self.queue.places.release(process.process_id)
            raise
        is_queued = process.status.state is State.QUEUED
        await (self.queue.put if is_queued else self.queue.start_placed)(process, described)

    async def _check_again(self, command: Command, process: Process, spec: bytes) -> None:
        """Check an approved command just before its start, and note who is to be notified.

        It has its place already: what fails here gives it up, and the place is free.
        """
        try:
            if process.base.approval is not None:
                await self.approvals.standing.check_unchanged(process.record, spec)
            if command.notify:
                await self.settings.notices.owe(process.process_id, command.notify)
        except OutliveError as error:
            self.outcomes.settle(process, error)
            raise
        except asyncio.CancelledError:
            # The backend, which settles every start that it was asked for, knows nothing of this one yet.
            self.outcomes.settle(process, StartFailed("start_failed", "The start was cancelled."))
            raise


def _places() -> int:
    """Return how many starts keep this machine busy."""
    return _EACH_CORE * max(2, len(os.sched_getaffinity(0)))


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
