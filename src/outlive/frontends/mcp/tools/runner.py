"""Starts, waits and ends for all tools: `Runner`.

A call's process belongs to no task: the keeper holds it. What a cancelled call started is ended here; what waits
too long is left to run. Output is read from the log at a cursor: nothing is queued.

Waits that end before the process does: `wait_ready` for a text, a port or silence (promise S4.13).

Whether anything on this machine listens on a port: what `wait_for` asks. Reads /proc in a thread, never connects.
"""

import asyncio
import codecs
import contextlib
import logging
import math
import os
import time

from outlive.core.command import Command
from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import OutliveError, ProcessNotFound
from outlive.core.identity import RANDOM_BYTES, ProcessId, new_process_id
from outlive.engine import Engine, OutputChunk, Process, ProcessFilter
from outlive.frontends.mcp.tools.calls import Caller, Progress, ToolSettings
from outlive.frontends.mcp.tools.pages import News
from outlive.protocols.mcp.lean import WaitFor

_logger = logging.getLogger(__name__)

# Between two progress messages: ten a second read as live, and a chatty command does not flood the client.
_COALESCE_S = 0.1


class Runner:
    """What all tools share: the engine and how calls wait."""

    def __init__(self, engine: Engine, settings: ToolSettings) -> None:
        """Take both; nothing runs yet."""
        self.engine = engine
        self.settings = settings
        self._endings: set[asyncio.Task[None]] = set()
        self._is_let_go = False

    def let_go(self) -> None:
        """From now on a cancelled call ends nothing: it is the server that stops, and commands outlive it."""
        self._is_let_go = True

    def patience_s(
        self, caller: Caller, progress: Progress | None, *, asked_s: float | None, in_background: bool
    ) -> float:
        """Return how many seconds a call of a document's tool waits for the end of its command (promise S1.10).

        Infinite for a raw caller and for a caller that gets progress: what ends such a call is the command's end or its
        own timeout. Another client may give up after a minute and believe that the command failed, so it is answered
        before that.
        """
        if in_background:
            return 0.0
        if asked_s is not None:
            return asked_s
        return math.inf if caller.is_raw or progress is not None else self.settings.wait_s

    async def start(self, command: Command, caller: Caller, *, in_background: bool) -> Process:
        """Start a command for a caller.

        Raises:
            OutliveError: As `Engine.start`.

        Cancellation: unless `in_background`, what may have been started is ended.
        """
        process_id = new_process_id(time.time_ns(), os.urandom(RANDOM_BYTES))
        try:
            return await self.engine.starts.start(command, owner=caller.owner, process_id=process_id)
        except asyncio.CancelledError:
            if not in_background:
                await self.abandon(process_id)
            raise

    async def run(
        self, command: Command, caller: Caller, *, wait_s: float, progress: Progress | None
    ) -> Process:
        """Start a command and wait until it is complete, at most `wait_s` (inf: to the end); 0 leaves it in the background.

        Raises:
            OutliveError: As `Engine.start`.

        Cancellation: ends what was started (TERM, termination timeout, KILL), unless `wait_s` is 0.
        """
        process = await self.start(command, caller, in_background=wait_s <= 0)
        try:
            await self.wait(process, wait_s=wait_s, progress=progress)
        except asyncio.CancelledError:
            await self.abandon(process.process_id)
            raise
        return process

    async def wait(
        self, process: Process, *, wait_s: float, progress: Progress | None = None, news: News | None = None
    ) -> None:
        """Return when a process is complete, or after `wait_s`; meanwhile report its output (from `news` on).

        Cancellation: safe; ends nothing.
        """
        deadline = asyncio.get_running_loop().time() + wait_s
        woken = asyncio.Event()
        unsubscribe = process.subscribers.add(woken.set)
        try:
            if progress is None:
                await _until_complete(process, woken, at=deadline)
            else:
                news = news or News(process)
                await self._report(process, woken, news=news, progress=progress, deadline=deadline)
        finally:
            unsubscribe()

    async def _report(
        self, process: Process, woken: asyncio.Event, *, news: News, progress: Progress, deadline: float
    ) -> None:
        clock = asyncio.get_running_loop().time
        started = told = clock()
        while True:
            woken.clear()
            is_over = process.is_complete or clock() >= deadline
            text = news.take(is_last=process.is_complete)
            if not text and not is_over and clock() - told >= self.settings.heartbeat_s:
                text = f"[still running after {clock() - started:.0f} s]"
            if text:
                await progress(text)
                told = clock()
            if is_over:
                return
            await _until_complete(process, woken, at=min(deadline, told + _COALESCE_S))
            if not (process.is_complete or news.is_waiting):
                await _woken(woken, at=min(deadline, told + self.settings.heartbeat_s))

    async def end(self, process: Process, caller: Caller, *, note: str, grace_s: float | None = None) -> bool:
        """End a process's whole tree for a caller and wait for that; tell whether the KILL was needed.

        Raises:
            BackendUnavailable: The keeper does not answer, or the tree is not gone some seconds after the KILL.

        Cancellation: the end goes on.
        """
        grace_s = self.settings.termination_timeout_s if grace_s is None else grace_s
        return await self.engine.as_(caller.owner).end(process, grace_s=grace_s, note=note)

    async def find(self, wanted: ProcessFilter, caller: Caller) -> Process:
        """Return the newest of a caller's processes that matches.

        Raises:
            ProcessNotFound: There is none, or it is private to another connection.
        """
        for record in await self.engine.queries.list(wanted, limit=10):
            process = await self.engine.queries.find(record.process_id)
            if is_visible(process, caller):
                return process
        raise ProcessNotFound("process_not_found", "No such process is known.")

    async def active(self, caller: Caller) -> list[Process]:
        """Return a caller's processes of which something runs, oldest first: the main process, or what it has left behind."""
        await self.engine.queries.known()
        found = [
            one
            for one in self.engine.queries.live(principal=caller.principal)
            if (not one.is_ended or one.record.descendants) and is_visible(one, caller)
        ]
        return sorted(found, key=lambda process: process.process_id)

    async def abandon(self, process_id: ProcessId) -> None:
        """End what a cancelled call has started, to the acknowledgement, however often it is cancelled again."""
        process = next((one for one in self.engine.queries.live() if one.process_id == process_id), None)
        if process is None or process.is_complete or self._is_let_go:
            return
        # A task of its own: the caller's may be cancelled at each await (anyio). The backend's deadline ends it.
        ending = asyncio.create_task(self._cancel(process), name=f"end {process_id}")
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        await asyncio.shield(ending)

    async def _cancel(self, process: Process) -> None:
        try:
            await self.engine.controls.cancel(
                process, grace_s=self.settings.termination_timeout_s, note="Cancelled by the client."
            )
        except OutliveError as error:
            if not process.is_ended:
                _logger.warning(
                    "a cancelled call's process could not be ended",
                    extra={"process_id": process.process_id, "reason": error.code},
                )


def is_visible(process: Process, caller: Caller) -> bool:
    """Tell whether a caller may see a process: its principal's, unless it is private to another connection."""
    owner = process.record.owner
    return owner.principal == caller.principal and (
        process.is_detached or owner.connection_id == caller.connection_id
    )


async def _woken(woken: asyncio.Event, *, at: float) -> None:
    try:
        async with _until(at):
            await woken.wait()
    except TimeoutError:
        return


async def _until_complete(process: Process, woken: asyncio.Event, *, at: float) -> None:
    """Return when the process is complete, or at that time; one timeout, however often it is woken."""
    try:
        async with _until(at):
            while not process.is_complete:
                woken.clear()
                await woken.wait()
    except TimeoutError:
        return


def _until(at: float) -> asyncio.Timeout:
    """Return a timeout at a time of the loop's clock; infinity is no time that a timer takes."""
    return asyncio.timeout_at(None if at == math.inf else at)


_LISTEN = "0A"  # the state's number in /proc/net/tcp (include/net/tcp_states.h)


async def is_listening(port: int) -> bool:
    """Tell whether anything on this machine listens on a TCP port; never connects to it."""
    return await asyncio.to_thread(_is_listening, port)


def _is_listening(port: int) -> bool:
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table, encoding="ascii") as file:
            for row in file:
                words = row.split(maxsplit=4)
                if len(words) > 3 and words[3] == _LISTEN and words[1].endswith(wanted):
                    return True
    return False


_LOOK_S = 0.1  # a port has no event; ten looks a second cost a hundredth of a core


async def wait_ready(process: Process, wanted: WaitFor, *, wait_s: float, cursor: Cursor = BEGINNING) -> None:
    """Return when one of the wishes is met, when the process is complete, or after `wait_s`.

    Cancellation: safe.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    finder = _Finder(process, wanted.text, cursor)
    woken = asyncio.Event()
    unsubscribe = process.subscribers.add(woken.set)
    size, changed = -1, loop.time()
    try:
        while not process.is_complete and loop.time() < deadline:
            woken.clear()
            if finder.has_found() or (wanted.port is not None and await is_listening(wanted.port)):
                return
            now = process.status.stdout_bytes + process.status.stderr_bytes
            if now != size:
                size, changed = now, loop.time()
            at = deadline
            if wanted.idle_s is not None:
                if loop.time() - changed >= wanted.idle_s:
                    return
                at = min(at, changed + wanted.idle_s)
            if wanted.port is not None:
                at = min(at, loop.time() + _LOOK_S)
            if finder.is_behind:
                await asyncio.sleep(0)  # bounded work per turn
                continue
            try:
                async with asyncio.timeout_at(at):
                    await woken.wait()
            except TimeoutError:
                continue
    finally:
        unsubscribe()


class _Finder:
    """Looks for a text in new output, each stream for itself; holds no more than the text's length of it."""

    def __init__(self, process: Process, text: str | None, cursor: Cursor) -> None:
        self._process = process
        self._text = text
        self._cursor = cursor
        self._ends = ["", ""]
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(2)]

    @property
    def is_behind(self) -> bool:
        """Whether there is output that was not looked at."""
        process = self._process
        told = (
            process.status.stdout_bytes > self._cursor.stdout
            or process.status.stderr_bytes > self._cursor.stderr
        )
        return bool(self._text) and told

    def has_found(self) -> bool:
        """Look at the next 64 KiB."""
        if not self._text:
            return False
        chunks = self._process.log.read(self._cursor, 65536)
        self._cursor = OutputChunk.after(self._cursor, chunks)
        for chunk in chunks:
            seen = self._ends[chunk.stream] + self._decoders[chunk.stream].decode(chunk.data)
            if self._text in seen:
                return True
            keep = len(self._text) - 1
            self._ends[chunk.stream] = seen[-keep:] if keep else ""
        return False
