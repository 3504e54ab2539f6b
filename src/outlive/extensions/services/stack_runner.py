"""`StackRunner`: carries out what is decided for one project's services, and reports what has come of it.

Every change goes one way (`take`): decide, keep on disk, do. One change at a time, so that what is kept is
never older than what was done. Each process has one task, which starts it where that is to be done, looks for
its readiness and waits for its end.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable

from outlive.core.errors import OutliveError
from outlive.core.identity import RANDOM_BYTES, new_process_id
from outlive.core.lifecycle import Cause, State
from outlive.engine.processes.process import Process, until
from outlive.extensions.services.machine import (
    LIVING,
    AskToEnd,
    Effect,
    KillProcess,
    ServiceEnd,
    ServicePhase,
    Stack,
    StartService,
    WatchReadiness,
)
from outlive.extensions.services.readiness import until_ready
from outlive.extensions.services.requests import StackView, stack_view
from outlive.extensions.services.service_files import KeptStack
from outlive.extensions.services.service_processes import ServiceParts, ServiceProcesses

_logger = logging.getLogger(__name__)

# Between two attempts at what only a full disk keeps from being done.
_RETRY_S = 1.0
_Change = Callable[[Stack, float], list[Effect]]


class StackRunner:
    """The services of one project. On the engine's loop only.

    Attributes:
        kept: What is on disk.
        stack: What its services do.
        revision: Another number after each change; a later server begins with a higher one.
    """

    def __init__(self, kept: KeptStack, parts: ServiceParts) -> None:
        self.kept = kept
        self._parts = parts
        self._processes = ServiceProcesses(kept, parts)
        self.stack = Stack(kept.services, ids=_new_id, grace_s=parts.engine.settings.options.grace_s)
        self.revision = time.time_ns() // 1_000_000
        self._view = self._look()
        self._turn = asyncio.Lock()
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def view(self) -> StackView:
        """Return it as every door shows it: as it is kept, and never what a killed server would not know any
        more.
        """
        return self._view

    def _look(self) -> StackView:
        kept = self.kept
        return stack_view(self.stack, folder=kept.folder, project=kept.project, revision=self.revision)

    async def until_news(self, revision: int) -> None:
        """Return once it has another revision than that. Cancellation: safe."""
        while self.revision == revision:
            await self._news.wait()

    def close(self) -> None:
        """Wake up no more."""
        if self._timer is not None:
            self._timer.cancel()

    def recover(self) -> None:
        """Find the processes of an earlier server's time, and go on with them."""
        for name, one in self.stack.services.items():
            if one.phase in LIVING and one.process_id is not None:
                self._parts.begin(self._find_again(name, one.process_id), f"service {name}")
        self._parts.begin(self.take(Stack.tick), "services")

    async def take(self, change: _Change) -> None:
        """Decide, keep, and do; returns when it is kept and what follows has begun.

        Cancellation: what was decided and kept would not be done; callers that may be cancelled use
        `ServiceParts.task`.
        """
        async with self._turn:
            effects = change(self.stack, time.time())
            self.kept.services = self.stack.services
            await self._keep()
            for effect in effects:
                self._do(effect)
            self.revision += 1
            self._view = self._look()
            self._news.set()
            self._news = asyncio.Event()
            self._set_timer()

    async def _keep(self) -> None:
        """Return once it is on disk, however long that is full: a start that is not kept could happen
        twice.
        """
        while True:
            try:
                # Nothing changes it meanwhile: this is the one turn.
                await asyncio.to_thread(
                    self._parts.files.put, self.kept, needs_server=self.stack.needs_server
                )
            except OSError as error:
                _logger.warning("services cannot be kept", extra={"reason": error.strerror})
                await asyncio.sleep(_RETRY_S)
            else:
                return

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (at := self.stack.wakes_at) is not None:
            # A little late rather than early: two clocks never agree on the same moment.
            delay_s = max(0.0, at - time.time()) + 0.001
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._parts.begin(self.take(Stack.tick), "services")

    def _do(self, effect: Effect) -> None:
        match effect:
            case StartService(name, process_id):
                self._processes.announce(process_id)
                self._parts.begin(self._run(name, process_id), f"service {name}")
            case AskToEnd(name, process_id):
                self._parts.begin(self._processes.ask_to_end(effect), f"stop of {name}")
            case KillProcess(name, process_id):
                kill = AskToEnd(name, process_id, "TERM", 0.0)
                self._parts.begin(self._processes.ask_to_end(kill), f"end of {name}")
            case WatchReadiness(name, process_id):
                self._parts.begin(self._watch_readiness(name, process_id), f"readiness of {name}")

    # -- one process

    async def _run(self, name: str, process_id: str) -> None:
        """Start a process, and report its start and its end."""
        declared = self.stack.services[name].declared
        try:
            process = await self._processes.start(declared, name, process_id)
            # What waits for an approval, or for the keeper's answer, does not run yet.
            await until(process, lambda one: one.status.state not in {State.QUEUED, State.STARTING})
        except OutliveError as error:
            end = ServiceEnd(error=error.message)
            await self.take(lambda stack, now: stack.ended(name, process_id, end, now))
            return
        finally:
            self._processes.settle(process_id)
        if not process.status.is_ended:
            await self.take(lambda stack, now: stack.started(name, process_id, now))
        await self._until_end(name, process)

    async def _find_again(self, name: str, process_id: str) -> None:
        """Go on with a process that an earlier server has started, or was about to start."""
        process = await self._processes.known(process_id)
        if process is None:
            if self.stack.services[name].phase is ServicePhase.STARTING:
                self._processes.announce(process_id)
                await self._run(name, process_id)
                return
            end = ServiceEnd(error="Its process is not known any more.")
            await self.take(lambda stack, now: stack.ended(name, process_id, end, now))
            return
        await until(process, lambda one: one.status.state not in {State.QUEUED, State.STARTING})
        if not process.status.is_ended:
            await self.take(lambda stack, now: stack.found(name, process_id, now))
        await self._until_end(name, process)

    async def _until_end(self, name: str, process: Process) -> None:
        await until(process, lambda one: one.status.is_complete or one.status.state is State.FAILED_TO_START)
        record = process.record
        ran_s = 0.0
        if record.started_at is not None and record.ended_at is not None:
            ran_s = max(0.0, (record.ended_at - record.started_at).total_seconds())
        end = ServiceEnd(
            exit_code=record.exit_code,
            is_cancelled=record.cause is Cause.CANCEL,
            exit_signal=record.exit_signal,
            error=record.error,
            ran_s=ran_s,
        )
        await self.take(lambda stack, now: stack.ended(name, process.process_id, end, now))

    async def _watch_readiness(self, name: str, process_id: str) -> None:
        service = self.stack.services.get(name)
        ready = None if service is None else service.declared.ready
        process = await self._processes.known(process_id)
        if process is None or ready is None:
            return
        if await until_ready(process, ready, queries=self._parts.engine.queries):
            await self.take(lambda stack, now: stack.ready(name, process_id, now))


def _new_id() -> str:
    return new_process_id(time.time_ns(), os.urandom(RANDOM_BYTES))
