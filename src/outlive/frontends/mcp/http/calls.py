"""Requests in flight and the tool calls in them: `Calls`, which a lost connection does not end and a cancel
finds.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from outlive.core.errors import CommandRefused, ProcessNotFound
from outlive.core.events import AuditEvent
from outlive.core.process import Owner
from outlive.core.values import dataclass, field, replace
from outlive.engine import Process, ProcessFilter
from outlive.frontends.mcp.tools.calls import Caller, CallStatus, Outcome, Progress, Recent
from outlive.frontends.mcp.tools.runner import CANCELLED
from outlive.frontends.mcp.tools.toolbox import Toolbox
from outlive.protocols.mcp.hosts import host_of, is_beyond_limit, is_timeout_reason, names_known_limit
from outlive.protocols.mcp.messages import Code, McpError
from outlive.protocols.mcp.texts import TERMINATED

_Key = tuple[str, str | None, str | None]

# A relay repeats a cancel for 7.5 s, and a notice that has crossed an answer comes at once: few calls end in
# that time.
_MAX_OVER = 256


def terminated(outcome: Outcome) -> Outcome:
    """Return the outcome of a call that was cancelled: its text begins so, and it is an error (promise
    S4.6).
    """
    if outcome.text.startswith(TERMINATED):
        return replace(outcome, is_error=True)
    text = f"{TERMINATED}\n\n{outcome.text}" if outcome.text else TERMINATED
    return replace(outcome, text=text, is_error=True)


@dataclass(slots=True, eq=False)
class InFlight:
    """One request that a cancel finds until it is closed, from before anything was done for it.

    Attributes:
        table: All requests in flight, this one among them.
        key: Its place there.
        made_by: The client that sent it.
        client: The name of its program.
        begun_at: When it came, by the loop's clock.
        tool: The tool that it calls, once there is a task.
        task: The tool call in it, once there is one.
        status: What becomes of it.
    """

    table: dict[_Key, "InFlight"]
    key: _Key
    made_by: Owner
    client: str
    begun_at: float
    tool: str = ""
    task: asyncio.Task[Outcome] | None = None
    status: CallStatus = field(default_factory=CallStatus)

    def close(self) -> None:
        """Be found no more: it was answered. What it left running is found in the registry."""
        if self.table.get(self.key) is self:
            del self.table[self.key]


class Calls:
    """Runs tool calls and cancels them by (principal, MCP session, request id). `close` it in the end."""

    def __init__(self, toolbox: Toolbox) -> None:
        """Run the tools of `toolbox`, whose settings say the time between TERM and KILL."""
        self._engine = toolbox.engine
        self._toolbox = toolbox
        self._tasks: set[asyncio.Task[Outcome]] = set()
        self._in_flight: dict[_Key, InFlight] = {}
        # What became of calls of tools for models that are over, newest last: a host's time-out may cross
        # their answer, or be sent twice. Not the calls: their answers would be kept with them.
        self._over: Recent[_Key, CallStatus] = Recent(_MAX_OVER)

    async def close(self) -> None:
        """Let go of what is in flight; what it started goes on."""
        self._toolbox.runner.let_go()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def expect(self, caller: Caller) -> InFlight:
        """Let a cancel find the request of `caller` from now on, though nothing runs for it yet.

        Close it in the end.

        A request without a session is found by no cancel: its client closes the connection. Of two with one
        id the newer one is found if the connection of the older one is gone.

        Raises:
            McpError: A request of this session that its client waits for has the same id.
        """
        key = _key_of(caller)
        begun_at = asyncio.get_running_loop().time()
        request = InFlight(self._in_flight, key, caller.owner, client=caller.client, begun_at=begun_at)
        if self.is_in_use(caller):
            asked = (caller.request_id or "")[:40]
            text = f"The id {asked} is already in use: a request of this session with it is not answered yet."
            raise McpError(Code.INVALID_REQUEST, text)
        if caller.connection_id is not None:
            self._in_flight[key] = request
        return request

    def is_in_use(self, caller: Caller) -> bool:
        """Tell whether a client waits for another request of its session with the id of the caller's."""
        earlier = self._in_flight.get(_key_of(caller))
        return earlier is not None and not earlier.status.has_left

    async def call(
        self,
        name: str,
        arguments: Mapping[str, object],
        caller: Caller,
        progress: Progress | None,
        *,
        request: InFlight,
        partial: Progress | None = None,
    ) -> Outcome:
        """Run one tool for an expected request; one that was cancelled before it began does nothing.

        Raises:
            UnknownTool: There is no such tool.

        Cancellation: stops what the call started, unless it runs in the background.
        """
        request.tool = name
        reported = None if progress is None else _noting(progress, request.status)
        work = self._toolbox.call(
            name, arguments, caller, progress=reported, partial=partial, status=request.status
        )
        try:
            outcome = await self._run(request, work)
        finally:
            if self._toolbox.is_for_models(name):
                # For as long as its cancel may still be on the way.
                self._over.note(request.key, request.status)
        if request.status.reported_at is not None and not request.status.is_unheard():
            # Calls of every tool count. Those for models alone would teach nothing, since they wait less than
            # any limit until it is known that progress keeps the host waiting.
            waited_s = asyncio.get_running_loop().time() - request.begun_at
            if is_beyond_limit(waited_s, host_of(caller.client)):
                self._toolbox.runner.memory.note_patience(caller)
        return outcome

    async def _run(self, call: InFlight, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        if call.status.is_cancelled():
            work.close()
            return terminated(Outcome(text=""))
        call.task = task = asyncio.create_task(work, name="tool call")
        self._tasks.add(task)
        task.add_done_callback(self._end)
        try:
            # Not awaited itself: a cancel of this one must not end it before `_is_given_up` has judged.
            await asyncio.wait({task})
        except asyncio.CancelledError:
            # A revision without cancel notifications: the client has closed the response stream, and gave no
            # reason.
            call.status.is_given_up = self._is_given_up(call, reason="")
            if task.done():  # the answer was ready at this very moment, and reaches no client
                await self._toolbox.runner.leave(call.status)
            task.cancel()
            raise
        # The task was cancelled by `cancel` below, not by this one's own canceller: that is an answer, no
        # exception.
        settled = Outcome(text="") if task.cancelled() else task.result()
        if call.status.is_given_up:
            return Outcome(text="[The client gave up this call: what it has started goes on.]")
        return terminated(settled) if call.status.is_cancelled() or task.cancelled() else settled

    async def cancel(self, caller: Caller, *, reason: str) -> None:
        """End what a request of `caller` runs, or has left running in the background (promise S4.6).

        Returns when the end was asked for. A request that is not known, or that is over, is a success.

        Raises:
            CommandRefused: `profile_too_weak`: the caller lives in a process of ours, and what the request
                runs, or may be about to start, has a weaker profile than that. Nothing has changed.
        """
        note = f"Cancelled by the client: {reason[:200]}" if reason else CANCELLED
        call = self._in_flight.get(_key_of(caller))
        over = self._over.get(_key_of(caller)) if call is None else None
        if over is not None and (over.is_given_up or is_timeout_reason(reason)):
            return  # what it has started goes on, as if this had come in time
        # Before a word of it is noted: a request that is marked as cancelled starts nothing, or ends what it
        # starts.
        process = await self._checked(call, caller)
        if call is not None:
            call.status.note = note
            if self._is_given_up(call, reason=reason):
                call.status.is_given_up = True
                if call.task is not None:
                    call.task.cancel()
                return
        process = process or await self._process_of(caller)
        if process is not None:
            await self._toolbox.runner.cancel(process, caller, note=note)
        elif call is not None and call.task is not None:
            call.task.cancel()  # it has not started anything yet, or waits for what others started

    def _is_given_up(self, call: InFlight, *, reason: str) -> bool:
        """Tell whether a cancel is a host's time limit: a person who cancels wants the end, a clock knows
        nothing of the command.

        Only tools that are made for models tell the two apart (promise S4.13.waits); the documents' tools end
        what they run (S4.6).
        """
        if not self._toolbox.is_for_models(call.tool):
            return False
        host, since = host_of(call.client), call.begun_at
        if host.restarts_at_progress and call.status.reported_at is not None:
            since = call.status.reported_at
        elapsed_s = asyncio.get_running_loop().time() - since
        return is_timeout_reason(reason) or (not reason and names_known_limit(elapsed_s, host))

    async def _checked(self, call: InFlight | None, caller: Caller) -> Process | None:
        """Let a caller cancel a request; return the process that was looked at for that.

        Does not wait for anything where the caller lives outside: no start may come in between.
        """
        if caller.owner.inside is None:
            return None
        process = await self._process_of(caller)
        what = process if process is not None or call is None else call.made_by
        if what is None:
            return None
        try:
            await self._engine.as_(caller.owner).check(what)
        except CommandRefused as error:
            process_id = None if process is None else process.process_id
            denied = AuditEvent(
                what="cancel",
                by=caller.owner,
                decision="denied",
                reason=error.code,
                process_id=process_id,
            )
            self._engine.events.publish(denied)
            await self._engine.events.recorded()
            raise
        return process

    async def _process_of(self, caller: Caller) -> Process | None:
        wanted = ProcessFilter(
            principal=caller.principal, connection_id=caller.connection_id, request_id=caller.request_id
        )
        try:
            process = await self._engine.queries.find_by(wanted)
        except ProcessNotFound:
            return None
        return None if process.status.is_ended else process

    def _end(self, task: asyncio.Task[Outcome]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # looked at: nobody may be left to raise it to


def _noting(progress: Progress, status: CallStatus) -> Progress:
    """Return what reports by `progress`, and notes when."""

    async def report(text: str) -> None:
        await progress(text)
        status.reported_at = asyncio.get_running_loop().time()

    return report


def _key_of(caller: Caller) -> _Key:
    return caller.principal, caller.connection_id, caller.request_id
