"""`StackRunner`: carries out what is decided for one project's services, and reports what has come of it.

Every change goes one way (`take`): decide, keep on disk, do. One change at a time, so that what is kept is
never older than what was done. Each process has one task, which starts it where that is to be done, looks for
its readiness and waits for its end.

A text that says a service is ready is found in the output as it comes. A port and an address have no event:
they are looked at again and again, ever more seldom (`until_ready`).
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable

from outlive.core.cursor import BEGINNING
from outlive.core.errors import OutliveError
from outlive.core.identity import RANDOM_BYTES, new_process_id
from outlive.core.lifecycle import Cause, State
from outlive.engine.processes.process import Process, follow, until
from outlive.engine.queries import Queries
from outlive.extensions.services.declaration import ReadyWhen, split_address
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
from outlive.extensions.services.operations import StackView, stack_view
from outlive.extensions.services.service_files import KeptStack
from outlive.extensions.services.service_processes import ServiceParts, ServiceProcesses
from outlive.protocols.output.pattern import Pattern

_FIRST_LOOK_S = 0.1
_LONGEST_LOOK_S = 1.0  # a server that takes minutes to begin is noticed a second late
_ANSWER_S = 5.0  # an answer that takes longer says that it is not ready
_STATUS_BYTES = 4096  # more than any status line
# So much before a piece of output is looked at with it: a text that reads have cut is found, and memory is
# bounded.
_KEPT_BYTES = 16 * 1024


async def until_ready(process: Process, wanted: ReadyWhen, *, queries: Queries) -> bool:
    """Return True once a process is ready; False when it has ended before. Cancellation: safe."""
    if wanted.text is not None:
        return await _until_printed(process, _containing(wanted.text))
    if wanted.pattern is not None:
        pattern = await asyncio.to_thread(Pattern, wanted.pattern)
        return await _until_printed(process, lambda data: next(pattern.lines(data), None) is not None)
    if wanted.http is not None:
        address = wanted.http
        return await _until_seen(process, lambda: _answers(address))

    async def is_open() -> bool:
        return wanted.port in (await queries.observe(process)).ports

    return await _until_seen(process, is_open)


def _containing(text: str) -> Callable[[bytes], bool]:
    wanted = text.encode("utf-8", "surrogateescape")
    return lambda data: wanted in data


async def _until_printed(process: Process, is_in: Callable[[bytes], bool]) -> bool:
    kept = [b"", b""]
    async for chunks in follow(process, BEGINNING):
        for chunk in chunks:
            data = b"" if chunk.is_gap else kept[chunk.stream] + chunk.data
            if is_in(data):
                return True
            kept[chunk.stream] = data[-_KEPT_BYTES:]
    return False


async def _until_seen(process: Process, look: Callable[[], Awaitable[bool]]) -> bool:
    pause_s = _FIRST_LOOK_S
    while not process.status.is_ended:
        if await look():
            return True
        await asyncio.sleep(pause_s)
        pause_s = min(_LONGEST_LOOK_S, pause_s * 1.5)
    return False


async def _answers(address: str) -> bool:
    """Return whether an address of this machine answers a GET with a status from 200 to 399 (RFC 9110,
    section 15).
    """
    host, port, target = split_address(address)
    writer: asyncio.StreamWriter | None = None
    with contextlib.suppress(OSError, TimeoutError, ValueError, asyncio.LimitOverrunError):
        try:
            async with asyncio.timeout(_ANSWER_S):
                reader, writer = await asyncio.open_connection(host, port, limit=_STATUS_BYTES)
                named = f"[{host}]" if ":" in host else host
                head = f"GET {target} HTTP/1.1\r\nHost: {named}:{port}\r\nConnection: close\r\n\r\n"
                writer.write(head.encode())
                words = (await reader.readline()).split(None, 2)
                return len(words) > 1 and words[0].startswith(b"HTTP/") and 200 <= int(words[1]) < 400
        finally:
            if writer is not None:
                writer.close()
    return False


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
