"""What can be done to a process: `Controls.control` carries out an operation; cancel, end, write and release
are methods. `BulkControls`: one verb on many processes at once. `Records`: other tags, another group or name,
removal.

Each checks whether it is possible for the process (`core.lifecycle`), asks the backend and returns when that
has acknowledged; what follows from it (the end, for instance) is a notification of the keeper.

`AuditedControls` does the same on behalf of a caller, and publishes what was asked, by which caller, and
whether it was done. Frontends call the engine through this (`Engine.as_`) where a caller asks for something;
what the server does by itself it does directly. What is decided here is one thing, for every verb: a caller
that lives in a process of ours acts on no process with a weaker profile (`check_reach`). The frontends have
decided before whose processes a caller sees.
"""

import asyncio
import contextlib
import functools
import signal
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from typing import assert_never
from weakref import WeakKeyDictionary

from outlive.backends.contract import Backend
from outlive.core.controls import (
    CloseInput,
    CloseOutput,
    Control,
    Pause,
    ReleaseOutput,
    ResizeWindow,
    Resume,
    SignalProcess,
    Stop,
    Unbind,
)
from outlive.core.cursor import Cursor
from outlive.core.errors import (
    BackendUnavailable,
    InvalidState,
    LimitExceeded,
    OutliveError,
    ProcessNotFound,
    StoreCorrupt,
)
from outlive.core.events import AuditEvent, ProcessRelabeled, StateChanged
from outlive.core.lifecycle import Cause, State, Trigger, advance
from outlive.core.process import Owner
from outlive.core.values import dataclass, field
from outlive.engine.health import DiskWatch
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.process import Process, until
from outlive.engine.processes.process_table import LiveTable, RegistryFeed
from outlive.engine.processes.question_watch import QuestionWatch
from outlive.engine.queries import Queries, check_raw, check_reach, check_request
from outlive.engine.recovery.reconciliation import Reconciliation
from outlive.engine.recovery.upkeep import Upkeep
from outlive.engine.settings import EngineSettings
from outlive.engine.starts.names import NameHolders
from outlive.engine.starts.start_queue import StartQueue
from outlive.store.folder import ChangedLabels, WindowSize, note_size, write_labels
from outlive.store.registry import Registry
from outlive.store.rows import ProcessFilter
from outlive.store.writer import AUDIT_LOG

_CANCELLED = "Cancelled before it was started."
_GONE_S = 10.0  # a tree is gone this soon after KILL, or something holds it in the kernel
_DECIDED_S = 25.0  # as long as the backend waits for the keeper's answer to a start
_PIECE_BYTES = 1024 * 1024  # of an input; what a backend takes at once


@dataclass(eq=False, slots=True)
class Controls:
    """What can be done to a process.

    Every verb raises InvalidState `process_ended` when the process has ended, BackendUnavailable when the
    keeper does not answer within its deadline. Cancellation of a call does not take back what was already
    asked.
    """

    backend: Backend
    settings: EngineSettings
    queue: StartQueue
    questions: QuestionWatch
    events: EventPublisher
    _input_locks: WeakKeyDictionary[Process, asyncio.Lock] = field(
        default_factory=WeakKeyDictionary, init=False
    )

    async def control(self, process: Process, operation: Control) -> None:
        """Carry out an operation, once it is known to make sense for this process.

        What each does stands at its class.

        Raises:
            InvalidState: `process_queued`; `no_terminal`: it was not started with a pty; `stdin_closed`: nor
            with an input.
            InvalidRequest: It has no such pipe: a terminal, or stderr merged into stdout.
        """
        send = functools.partial(self.backend.control, process.process_id, operation)
        match operation:
            case Pause():
                advance(process.status.state, Trigger.PAUSE)
                await send(acknowledged=functools.partial(self._confirm, process, is_paused=True))
            case Resume():
                advance(process.status.state, Trigger.RESUME)
                await send(acknowledged=functools.partial(self._confirm, process, is_paused=False))
            case SignalProcess(whole_tree=whole_tree):
                _check_turn(process)
                if process.status.is_finished or (process.status.is_ended and not whole_tree):
                    raise _ended(process)
                await send()
            case CloseInput():
                await self._close_input(process, operation)
            case CloseOutput():
                _check_turn(process)
                if not process.status.is_finished:
                    with contextlib.suppress(InvalidState):  # it ended meanwhile
                        await send()
            case ResizeWindow(rows=rows, cols=cols):
                if not process.has_terminal:
                    raise InvalidState("no_terminal", "The process has no terminal.")
                _check_turn(process)
                if process.status.is_ended:
                    raise _ended(process)
                # What was drawn before was drawn for another size.
                size = WindowSize(process.status.stdout_bytes, rows, cols)
                with contextlib.suppress(OSError):
                    await asyncio.to_thread(note_size, process.folder, size)
                await send()
                process.status.window = (rows, cols)
                process.subscribers.wake()
            case _:
                assert_never(operation)

    async def move(self, process: Process, places: int) -> None:
        """Put a command that waits for its turn so many places back in its group's line, or forward where
        that is negative.

        Raises:
            InvalidState: `not_in_line`.
            LimitExceeded: `disk_full`: the order cannot be kept.
        """
        await self.queue.move(process, places)

    def _confirm(self, process: Process, *, is_paused: bool) -> None:
        """Take over an acknowledgement.

        The keeper's notification behind it then changes nothing, so it is published here.
        """
        if process.status.confirm_pause(is_paused=is_paused):
            self.events.publish_process(StateChanged, process)

    async def cancel(
        self, process: Process, *, grace_s: float | None = None, cause: Cause = Cause.CANCEL, note: str = ""
    ) -> None:
        """End the whole tree: TERM now, KILL after the grace period.

        Returns when the keeper has acknowledged; the completion is notified. Repeating it is a success, and a
        shorter grace period shortens the running one. `note` says in one sentence which caller asked
        (`ProcessRecord.error`). A process whose main process has ended can be cancelled as long as
        descendants live. What waits for its turn or for an approval never runs.
        """
        if await self.queue.withdraw(process, cause=cause, note=note or _CANCELLED):
            return
        if process.status.is_finished or not process.status.is_ended:
            advance(process.status.state, Trigger.STOP)
        process.note = process.note or note  # the first one counts, as in the keeper
        grace_s = process.base.grace_s if grace_s is None else grace_s
        stop = Stop(cause=cause, grace_s=grace_s, note=note)
        while True:
            was_known = process.status.is_acknowledged
            try:
                await self.backend.control(process.process_id, stop)
            except InvalidState:
                if not was_known and not process.status.is_ended:
                    await self._decided(process)
                    continue  # it was asked before the start itself had arrived there
            return  # or it ended meanwhile, which is what was asked for

    async def _decided(self, process: Process) -> None:
        """Return when it is known whether a process that is being started runs."""
        try:
            async with asyncio.timeout(_DECIDED_S):
                await until(process, lambda one: one.status.is_acknowledged)
        except TimeoutError:
            text = f"The start of {process.process_id} is not answered yet: it may run."
            details = {"process_id": process.process_id}
            raise BackendUnavailable("start_unanswered", text, details=details) from None

    async def end(self, process: Process, *, grace_s: float, note: str) -> bool:
        """End the whole tree and return when it is gone, and whether the KILL was needed.

        Raises:
            BackendUnavailable: The keeper does not answer, or the tree is not gone some seconds after the
            KILL.

        Cancellation: the end goes on.
        """
        clock = asyncio.get_running_loop().time
        asked = clock()
        await self.cancel(process, grace_s=grace_s, note=note)
        try:
            async with asyncio.timeout(grace_s + _GONE_S):
                # One that had ended may have descendants.
                await until(process, lambda one: one.status.is_complete and not one.record.descendants)
        except TimeoutError:
            text = f"Process {process.record.pid} was killed, but it is not gone after {_GONE_S:.0f} s."
            raise BackendUnavailable("timeout", text) from None
        return process.record.exit_signal == signal.SIGKILL or clock() - asked >= grace_s

    async def write(self, process: Process, data: bytes | memoryview | AsyncIterable[bytes]) -> int:
        """Write to the process's input.

        Returns how many bytes that was when all of it is in the pipe or terminal.

        Calls for one process are served one after the other, whole. Any length; what an iterable brings goes
        in as fast as the process reads, and no more than one piece of it is held.

        Raises:
            InvalidState: `stdin_closed`: started without "stdin": "pipe", or already closed.
            LimitExceeded: `stdin_full`: the process did not read within 30 s; details have `written_bytes`.
            BackendUnavailable: `keeper_restarted`: it is not known whether the last piece went in; never
            repeated.

        Cancellation: what was handed over goes in.
        """
        _check_input(process)
        written = 0
        async with self._input_lock(process):
            # Before the bytes go in: what the process does with them is newer than this.
            self.questions.input_written(process)
            async for piece in _pieces(data):
                for at in range(0, len(piece), _PIECE_BYTES):
                    part = piece[at : at + _PIECE_BYTES]
                    try:
                        await self.backend.write(process.process_id, part)
                    except LimitExceeded as error:
                        before = error.details.get("written_bytes", 0)
                        written += before if isinstance(before, int) else 0
                        details = {**error.details, "written_bytes": written}
                        raise LimitExceeded(
                            error.code, error.message, hint=error.hint, details=details
                        ) from error
                    written += len(part)
        return written

    async def release(
        self, process: Process, *, stdout_bytes: int = 0, stderr_bytes: int = 0, unbound: bool = False
    ) -> None:
        """Let go of output before these offsets (only with `on_limit` "block": the reader has it).

        With `unbound` it waits for no reader any more: the server's own limit holds from now on, "truncate".
        Of a process whose streams are closed nothing waits any more: its output is kept, and that is a
        success.
        """
        if process.status.is_closed:
            return
        with contextlib.suppress(InvalidState):  # it ended meanwhile
            await self.backend.control(
                process.process_id, ReleaseOutput(stdout_bytes=stdout_bytes, stderr_bytes=stderr_bytes)
            )
            if unbound:
                await self.backend.control(
                    process.process_id, Unbind(output_limit=self.settings.options.output_limit_bytes)
                )

    async def _close_input(self, process: Process, operation: CloseInput) -> None:
        if process.has_stdin and process.status.is_ended:
            return  # its input is closed
        _check_input(process)
        async with self._input_lock(process):
            self.questions.input_written(process)  # a program that waits for input reads the end of it
            try:
                await self.backend.control(process.process_id, operation)
            except InvalidState as error:
                if error.code != "process_ended":  # it ended meanwhile
                    raise

    def _input_lock(self, process: Process) -> asyncio.Lock:
        lock = self._input_locks.get(process)
        if lock is None:
            lock = self._input_locks[process] = asyncio.Lock()
        return lock


def _check_turn(process: Process) -> None:
    if process.status.state is State.QUEUED:
        hint = process.record.hint or ""
        text = "an approval" if hint else f"its turn: {process.record.held_up_by}"
        raise InvalidState("process_queued", f"The process waits for {text}.", hint=hint)


def _check_input(process: Process) -> None:
    _check_turn(process)
    if process.status.is_ended:
        raise _ended(process)
    if not process.has_stdin:
        raise InvalidState("stdin_closed", "The process was started without an input.")


async def _pieces(data: bytes | memoryview | AsyncIterable[bytes]) -> AsyncIterator[bytes | memoryview]:
    if isinstance(data, bytes | memoryview):
        yield data
    else:
        async for piece in data:
            yield piece


def _ended(process: Process) -> InvalidState:
    return InvalidState("process_ended", f"The process has ended ({process.status.state}).")


@dataclass(eq=False, slots=True)
class BulkControls:
    """Carries out verbs side by side. On the engine's loop only."""

    controls: Controls
    processes: LiveTable
    reconciliation: Reconciliation

    async def control(
        self, wanted: ProcessFilter, verb: Callable[[Process], Awaitable[None]]
    ) -> dict[str, OutliveError | None]:
        """Carry out a verb on every live process that matches, side by side.

        Returns by process id None, or why it could not be done there (it ended meanwhile, for instance).
        """
        await self.reconciliation.listed()
        matching = [
            one
            for one in self.processes.candidates(wanted)
            if wanted.matches(one.record) and not one.status.is_ended
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

    async def cancel(
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
        await self.reconciliation.listed()
        live = self.processes.by_key

        async def end(process: Process) -> None:
            with contextlib.suppress(OutliveError):  # it may end, or the keeper vanish, at the same moment
                await self.controls.cancel(process, cause=cause, note=note, grace_s=grace_s)
                await until(process, lambda one: one.status.is_closed)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_s), asyncio.TaskGroup() as group:
                for process in list(live.values()):
                    group.create_task(end(process))
        return sum(not process.status.is_complete for process in live.values())


_CLOSED_S = 5.0  # when the tree is gone its streams have ended, unless a descriptor was handed to a stranger


@dataclass(eq=False, slots=True, kw_only=True)
class Records:
    """Changes what is kept. On the engine's loop only.

    `controls` end a process that is removed by force, `holders` know which names are free.
    """

    registry: Registry
    upkeep: Upkeep
    feed: RegistryFeed
    queue: StartQueue
    controls: Controls
    holders: NameHolders
    disk: DiskWatch
    events: EventPublisher

    async def relabel(self, process: Process, labels: ChangedLabels) -> None:
        """Give a process, running or ended, these tags, this group and this name instead of its own.

        They are on disk when this returns and survive every crash; whatever follows events hears of them.

        Raises:
            InvalidState: `name_taken`: both live, and the other one has the name; or `process_queued`.
            ProcessNotFound: It was removed meanwhile.
            StoreCorrupt: The disk did not take them.
            BackendUnavailable: `timeout`: the registry did not take them within 10 s.
        """
        if process.status.state is State.QUEUED:
            text = "The process waits for its turn: its labels can be changed once it runs."
            raise InvalidState("process_queued", text)
        record = process.record
        if labels.name is None or labels.name == record.name or process.status.is_ended:
            await self._label(process, labels)
            return
        place = (record.owner.principal, record.project or "")
        async with self.holders.locks.of((*place, labels.name)):
            await self.holders.check_free(labels.name, place)
            await self._label(process, labels)

    async def _label(self, process: Process, labels: ChangedLabels) -> None:
        try:
            await asyncio.to_thread(write_labels, process.folder, labels)
        except FileNotFoundError as error:
            raise ProcessNotFound("process_not_found", "The process was removed meanwhile.") from error
        except OSError as error:
            text = f"Tags and name cannot be written: {error.strerror}."
            raise StoreCorrupt("store_corrupt", text) from error
        self.queue.relabel(process, labels)
        self.registry.put(process.stored)
        if (
            process.status.is_ended
        ):  # no later server reads its folder again: lists would find it by its old labels after a crash
            await self.registry.flush()
        self.events.publish_process(ProcessRelabeled, process)

    async def remember_audit_log(self, tell_name: Callable[[Callable[[int], None]], None]) -> None:
        """Have the registry keep which audit log is this folder's, unless it knows one: a new one is
        distinguished by it.
        """
        if not await self.registry.counter(AUDIT_LOG):
            tell_name(functools.partial(self.registry.count_to, AUDIT_LOG))

    async def remove(self, process: Process, *, force: bool = False, note: str = "") -> None:
        """Forget a finished process: record, output and folder are gone when this returns.

        Args:
            process: What to remove.
            force: End it first (KILL at once) if it, or something of its tree, still runs.
            note: Which caller asked, for the record of that end.

        Raises:
            InvalidState: `process_running`: it or its descendants still run, and `force` is not set.
            BackendUnavailable: Its tree is not gone some seconds after the KILL, or the registry was not
            written.
            StoreCorrupt: The disk refused it.
            LimitExceeded: `read_only`.

        Cancellation: it may be removed all the same.
        """
        await self.disk.refresh()
        if self.disk.degraded == "read_only":
            await self.disk.check()  # before the row is gone: nothing can be removed there
        if not process.status.is_finished:
            if not force:
                raise InvalidState(
                    "process_running",
                    f"The process {process.process_id} still runs, or something that it started.",
                    hint="End it first, or ask for it to be ended with its removal.",
                )
            with contextlib.suppress(InvalidState):  # it ended meanwhile
                await self.controls.end(process, grace_s=0.0, note=note)
            await self._closed(process)
        letting_go = functools.partial(self.feed.forget, process)
        # Its number is never given again: the counter is kept before the folder goes.
        await self.registry.flush()
        try:
            await self.upkeep.remove(process.process_id, process.record, letting_go=letting_go)
        except OSError as error:
            text = f"The folder of the process cannot be removed: {error.strerror}."
            raise StoreCorrupt("store_corrupt", text) from error
        await self.registry.flush()

    async def _closed(self, process: Process) -> None:
        try:
            async with asyncio.timeout(_CLOSED_S):
                await until(process, lambda one: one.status.is_finished)
        except TimeoutError:
            text = f"Somebody outside the tree of process {process.record.pid} holds its streams open."
            raise BackendUnavailable("timeout", text) from None


@dataclass(eq=False, slots=True)
class AuditedControls:
    """What changes processes, for one caller, `by`; `queries` knows the process in which it may live.

    Each method does what its namesake in `Controls` or `Records` does.

    Each raises CommandRefused (`profile_too_weak`) where `check` does.
    """

    by: Owner
    controls: Controls
    records: Records
    queries: Queries
    events: EventPublisher

    async def control(self, process: Process, operation: Control) -> None:
        """Carry out an operation; the audit log has it under the operation's verb."""
        details: dict[str, int | str | bool] = {}
        match operation:
            case SignalProcess(signal=number, whole_tree=whole_tree):
                details = {"signal": number, "whole_tree": whole_tree}
            case CloseOutput(stream=stream):
                details = {"stream": stream}
        async with _audited(self, operation.verb, process, **details):
            await self.controls.control(process, operation)

    async def cancel(self, process: Process, *, grace_s: float | None = None, note: str = "") -> None:
        """End the whole tree: TERM now, KILL after the grace period."""
        async with _audited(self, "cancel", process):
            await self.controls.cancel(process, grace_s=grace_s, note=note)

    async def end(self, process: Process, *, grace_s: float, note: str) -> bool:
        """End the whole tree and return when it is gone, and whether the KILL was needed."""
        async with _audited(self, "cancel", process):
            return await self.controls.end(process, grace_s=grace_s, note=note)

    async def write(self, process: Process, data: bytes | memoryview | AsyncIterable[bytes]) -> int:
        """Write to the process's input; how many bytes they were is published once, what they were never."""
        async with _audited(self, "write", process) as details:
            details["bytes"] = 0
            written = await self.controls.write(process, data)
            details["bytes"] = written
        return written

    async def move(self, process: Process, *, places: int) -> None:
        """Put a command that waits for its turn back, or forward, in its group's line."""
        async with _audited(self, "move", process, places=places):
            await self.controls.move(process, places)

    async def relabel(
        self, process: Process, *, tags: Mapping[str, str], group: str | None, name: str | None
    ) -> None:
        """Give a process other tags, another group and another name."""
        async with _audited(self, "relabel", process):
            await self.records.relabel(process, ChangedLabels(tags=tags, group=group, name=name))

    async def remove(self, process: Process, *, force: bool = False, note: str = "") -> None:
        """Forget a finished process."""
        async with _audited(self, "remove", process, force=force):
            await self.records.remove(process, force=force, note=note)

    async def release(
        self, process: Process, *, stdout_bytes: int = 0, stderr_bytes: int = 0, unbound: bool = False
    ) -> None:
        """Let go of output that was delivered.

        Not published, because a reader does it many times a second.
        """
        await self.check(process)
        await self.controls.release(
            process, stdout_bytes=stdout_bytes, stderr_bytes=stderr_bytes, unbound=unbound
        )

    async def read_raw(
        self, process_id: str | None, begin: Cursor | None = None, end: Cursor | None = None
    ) -> None:
        """Let the caller see secrets once, and return when that is in the audit log (where the operator wants
        one). A program of this machine that follows what it has started itself, as `outlive run` does, looks
        at nothing that was kept: the start is its entry.

        Args:
            process_id: Whose output; None where it is what waits for approvals.
            begin: From where on,
            end: and to where; None: and whatever comes.

        Raises:
            AccessDenied: `scope_missing`: the scope admin is needed, from outside of what was started here.
            BackendUnavailable: `audit_unavailable`: it cannot be recorded, and must not be done.
        """
        check_raw(self.by)
        if end is None and process_id is not None and await self._has_started(process_id):
            return
        places = (("from", begin), ("to", end))
        details = {name: str(place) for name, place in places if place is not None}
        await self.events.witness(
            AuditEvent(what="read_raw", by=self.by, process_id=process_id, details=details)
        )

    async def _has_started(self, process_id: str) -> bool:
        if not self.by.address.startswith("unix pid "):
            return False
        try:
            process = await self.queries.find(process_id)
        except ProcessNotFound:
            return False
        return process.record.owner.address == self.by.address

    async def check(self, what: Process | Owner) -> None:
        """Let the caller act by a verb that is none of these on a process, or cancel a request that has
        started none yet.

        Args:
            what: The process, or the principal that sent the request.

        Raises:
            CommandRefused: `profile_too_weak`: the caller lives in a process of ours with a stronger profile
                than that process has, or than what the request starts may have.
        """
        if isinstance(what, Owner):
            await check_request(self.queries, what, self.by)
        else:
            await check_reach(self.queries, what, self.by)


@contextlib.asynccontextmanager
async def _audited(
    acting: AuditedControls, what: str, process: Process, **details: int | str | bool
) -> AsyncIterator[dict[str, int | str | bool]]:
    """Check that the caller may act on a process; publish what was done, or why it was not."""
    try:
        with acting.events.audited(what, acting.by, details=details, process_id=process.process_id):
            await acting.check(process)
            yield details
    except OutliveError:
        await acting.events.recorded()  # here, since some doors answer without raising it on
        raise
