"""What can be done to a process: `Controls.control` carries out an operation.

Cancel, end, write and release are methods.

Each checks whether it is possible for the process (`core.lifecycle`), asks the backend and returns when that
has acknowledged; what follows from it (the end, for instance) is a notification of the keeper.

`BulkControls`: one verb on many processes at once.
"""

import asyncio
import contextlib
import functools
import signal
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
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
from outlive.core.errors import BackendUnavailable, InvalidState, LimitExceeded, OutliveError
from outlive.core.events import StateChanged
from outlive.core.lifecycle import Cause, State, Trigger, advance
from outlive.core.values import dataclass, field
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.process import Process, until
from outlive.engine.processes.process_table import LiveTable
from outlive.engine.processes.question_watch import QuestionWatch
from outlive.engine.recovery.reconciliation import Reconciliation
from outlive.engine.settings import EngineSettings
from outlive.engine.starts.start_queue import StartQueue
from outlive.store.folder import WindowSize, note_size
from outlive.store.rows import ProcessFilter

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
