"""How tools start processes, wait for them and end them: `ToolCall`, one call, and `Runner`, what all calls
share.

A call's process belongs to no task: the keeper holds it. What a cancelled call has started is ended here; a
process for which a call has waited too long is left to run. Output is read from the log at a cursor: nothing
is queued. Waiting for less than the end is `waits`'.
"""

import asyncio
import contextlib
import logging
import math
import os
import time
from typing import Any

from outlive.config import Settings
from outlive.core.command import Command
from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidState, OutliveError
from outlive.core.identity import RANDOM_BYTES, ProcessId, new_process_id
from outlive.core.values import dataclass, field
from outlive.engine import Asker, Engine, Process
from outlive.frontends.mcp.tools.calls import (
    Caller,
    CallStatus,
    Outcome,
    Progress,
    SessionMemory,
    shown_bytes,
)
from outlive.frontends.mcp.tools.pages import News
from outlive.frontends.mcp.tools.waits import patience_of, until_complete
from outlive.operations.start import RunOptions
from outlive.protocols.mcp.arguments import ToolOptions
from outlive.protocols.mcp.texts import error_text, status_call
from outlive.server.operations import Operations
from outlive.server.shown_output import ShownOutput, shown_output

_logger = logging.getLogger(__name__)

CANCELLED = "Cancelled by the client."
# Between two progress messages: ten a second read as live, and a chatty command does not flood the client.
_COALESCE_S = 0.1
# After this long without output a waiting call reports progress all the same (promise S1.10).
_HEARTBEAT_S = 20.0
AGENT_GRACE_S = 5.0  # from TERM to KILL in the tools that are made for models: an agent waits for it


class Runner:
    """What all calls share.

    Attributes:
        engine: Runs the processes; opened by the caller.
        settings: Limits and defaults.
        operations: Carries out what every door answers alike.
        memory: What it remembers of MCP sessions.
    """

    def __init__(self, engine: Engine, settings: Settings, operations: Operations | None = None) -> None:
        self.engine = engine
        self.settings = settings
        self.operations = operations or Operations.of(engine, wait_s=settings.wait_s)
        self.memory = SessionMemory()
        self._endings: set[asyncio.Task[None]] = set()
        self._is_let_go = False

    def let_go(self) -> None:
        """From now on a cancelled call ends nothing: it is the server that stops, and commands outlive it."""
        self._is_let_go = True

    async def shown(self, process: Process, *, limit_bytes: int) -> ShownOutput:
        """Return what an answer of the documents' tools shows; a mark names the call that shows more."""
        most = self.settings.max_output_bytes
        call = status_call(process.record.command_id or process.process_id)
        more = f"{call}, max_output {most}" if limit_bytes < most else ""
        return await shown_output(process, limit_bytes=limit_bytes, more=more)

    async def cancel(self, process: Process, caller: Caller, *, note: str = CANCELLED) -> None:
        """Ask for the end of a process as a cancel does; one that ends at this moment is a success."""
        with contextlib.suppress(InvalidState):
            await self.engine.as_(caller.owner).cancel(
                process, grace_s=self.settings.termination_timeout_s, note=note
            )

    async def leave(self, status: CallStatus) -> None:
        """End what a cancelled call has started (promise S4.6), or leave it to run where it is the host that
        lost its patience.

        For a call whose answer reaches no client, however far it has come. An end is waited for up to its
        acknowledgement, however often the caller is cancelled again.
        """
        for process in self.engine.queries.live():
            if process.process_id in status.started and not process.status.is_complete:
                if status.is_given_up:
                    self.memory.give_up(process.process_id)
                else:
                    await self._abandon(process)

    async def _abandon(self, process: Process) -> None:
        if self._is_let_go:
            return
        # A task of its own: the caller's may be cancelled at each await (anyio). The backend's deadline ends
        # it.
        ending = asyncio.create_task(self._cancel(process), name=f"end {process.process_id}")
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        await asyncio.shield(ending)

    async def _cancel(self, process: Process) -> None:
        try:
            await self.engine.controls.cancel(
                process, grace_s=self.settings.termination_timeout_s, note=CANCELLED
            )
        except OutliveError as error:
            if not process.status.is_ended:
                _logger.warning(
                    "a cancelled call's process could not be ended",
                    extra={"process_id": process.process_id, "reason": error.code},
                )


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool: what it may use, its caller, and where its output goes meanwhile.

    `progress` reports to people how a call goes, `partial` gives a program the same output piece by piece,
    nothing else. `progress` is None for a client that shows none. `status` says what becomes of the call:
    `Toolbox.call` ends what it has started when it is cancelled, wherever its tool is then. `shown` is what
    the answer shows of each process's output, from one cursor to another, and whether it tells of its end:
    `Toolbox.call` takes it into the session's memory once it is answered.
    """

    runner: Runner
    caller: Caller
    progress: Progress | None = None
    status: CallStatus = field(default_factory=CallStatus)
    partial: Progress | None = None
    shown: dict[ProcessId, tuple[Cursor, Cursor, bool]] = field(default_factory=dict)

    def patience_s(self, asked_s: float | None, *, has_wish: bool = False) -> float:
        """Return how long this call of a tool for models waits that asks for `asked_s` (None: for as long as
        is usual).

        A wish (`wait_for`) is for something that comes soon, or never: with it, that is no more than the
        setting `wait` at any host.
        """
        bounds = patience_of(
            self.caller,
            has_progress=self.progress is not None,
            is_patient=self.runner.memory.is_patient(self.caller),
            usual_s=self.runner.settings.wait_s,
        )
        seconds = bounds.seconds(asked_s)
        return min(seconds, self.runner.settings.wait_s) if has_wish and asked_s is None else seconds

    def make_command(self, asked: RunOptions, **members: Any) -> Command:  # noqa: ANN401 -- as `RunOptions.make_command`
        """Return what the arguments ask for as a command that belongs to the caller's principal.

        An MCP session may end while its commands go on, and they stay findable (promise S4.5).
        """
        members.setdefault("default_grace_s", self.runner.settings.termination_timeout_s)
        # The environment goes with the command in memory only; the record and the spec on disk name the
        # project's root alone.
        if (project := self.caller.project) is not None:
            members |= {"caller_cwd": project.cwd, "caller_env": project.env, "project": project.root}
        return asked.make_command(detached=True, **members)

    async def start(self, command: Command, *, in_background: bool) -> tuple[Process, bool]:
        """Start a command for the caller, or find what its key has started; return whether it is new.

        Raises:
            OutliveError: As `Starts.start`.

        Cancellation: unless `in_background`, what may have been started is ended.
        """
        process_id = new_process_id(time.time_ns(), os.urandom(RANDOM_BYTES))
        # Before the start: a cancel may come while the keeper is asked. A key's process has another id, and
        # is not this call's.
        if not in_background:
            self.status.started.append(process_id)
        process = await self.runner.engine.starts.start(
            command, owner=self.caller.owner, process_id=process_id
        )
        return process, process.process_id == process_id

    async def run(self, command: Command, asked: ToolOptions) -> tuple[Process, float]:
        """Start a command of a documented tool and wait until it is complete.

        Return it, and how long that might take.

        Seconds are infinite for a raw caller and for a caller that gets progress: what ends such a call is
        the command's end or its own timeout. Another client may give up after a minute and believe that the
        command failed, so it is answered before that (promise S1.10).

        Raises:
            OutliveError: As `Starts.start`.

        Cancellation: ends what was started (TERM, termination timeout, KILL), unless the seconds are 0.
        """
        if asked.background:
            wait_s = 0.0
        elif asked.wait_s is not None:
            wait_s = asked.wait_s
        else:
            is_endless = self.caller.is_raw or self.progress is not None
            wait_s = math.inf if is_endless else self.runner.settings.wait_s
        process, _ = await self.start(command, in_background=wait_s <= 0)
        await self.wait(process, wait_s=wait_s)
        return process, wait_s

    def limit_bytes(self, max_output: int | None) -> int:
        """Return how much of each stream this call of a documented tool shows, which has asked for
        `max_output`.
        """
        return shown_bytes(self.runner.settings, self.caller, max_output)

    async def wait(self, process: Process, *, wait_s: float) -> None:
        """Return when a process is complete, or after `wait_s` (inf: never before).

        Meanwhile report its output.

        Cancellation: safe; ends nothing.
        """
        deadline = asyncio.get_running_loop().time() + wait_s
        if self.progress is None and self.partial is None:
            await until_complete(process, at=None if deadline == math.inf else deadline)
            if process.status.is_complete:
                await self.runner.engine.queries.settle(process)
            return
        woken = asyncio.Event()
        unsubscribe = process.subscribers.add(woken.set)
        try:
            await self._report(process, woken, deadline=deadline)
        finally:
            unsubscribe()

    async def _report(self, process: Process, woken: asyncio.Event, *, deadline: float) -> None:
        clock = asyncio.get_running_loop().time
        news = News(process)
        started = reported = clock()
        while True:
            woken.clear()
            is_over = process.status.is_complete or clock() >= deadline
            if process.status.is_complete:
                await self.runner.engine.queries.settle(process)
            text = news.take(is_last=process.status.is_complete)
            if text and self.partial is not None:
                await self.partial(text)
            if not text and not is_over and clock() - reported >= _HEARTBEAT_S:
                text = f"[still running after {clock() - started:.0f} s]"
            if text:
                if self.progress is not None:
                    await self.progress(text)
                reported = clock()
            if is_over:
                return
            await until_complete(process, at=min(deadline, reported + _COALESCE_S))
            if not (process.status.is_complete or news.is_waiting):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(min(deadline, reported + _HEARTBEAT_S)):
                        await woken.wait()

    async def end(self, process: Process, *, note: str, grace_s: float | None = None) -> bool:
        """End a process's whole tree for the caller and wait for that; return whether the KILL was needed.

        Raises:
            BackendUnavailable: The keeper does not answer, or the tree is not gone some seconds after the
            KILL.

        Cancellation: the end goes on.
        """
        grace_s = self.runner.settings.termination_timeout_s if grace_s is None else grace_s
        return await self.runner.engine.as_(self.caller.owner).end(process, grace_s=grace_s, note=note)

    async def lookup(self, word: str) -> Process:
        """Return the process that a word means in the caller's project (`engine.lookup`).

        Raises:
            ProcessNotFound: None.
            InvalidRequest: `process_ambiguous`: it could mean several.
        """
        caller = self.caller
        asker = Asker(
            principal=caller.principal, project=caller.project_root, connection_id=caller.connection_id
        )
        return await self.runner.engine.lookup.find(word, asker)

    async def live(self) -> list[Process]:
        """Return the caller's processes that the engine holds, oldest first.

        Of some only descendants still run.
        """
        queries = self.runner.engine.queries
        await queries.known()
        found = queries.live(principal=self.caller.principal)
        return sorted(
            (one for one in found if is_visible(one, self.caller)), key=lambda process: process.process_id
        )


def failed(error: OutliveError, _asked: object = None) -> Outcome:
    """Return the answer of a tool that has none of its own for an error."""
    return Outcome(text=error_text(error), is_error=True)


def is_visible(process: Process, caller: Caller) -> bool:
    """Tell whether a caller may see a process: its principal's, unless it is private to another
    connection.
    """
    owner = process.record.owner
    return owner.principal == caller.principal and (
        process.base.is_detached or owner.connection_id == caller.connection_id
    )
