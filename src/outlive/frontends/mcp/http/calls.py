"""Requests in flight and the tool calls in them: `Calls`, which a lost connection does not end and a cancel finds.

`PlainCalls` answers tools/call of a handshake revision without the SDK, for our own tools and the shape that all clients send. The
SDK reads every call into models and shapes every result by models: a fifth of the processor time that the server spends on a short
command (decision 32). What it would find for a plain call is known: this answers the same. Every other shape is the SDK's to judge.
"""

import asyncio
import contextlib
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from outlive.core.errors import CommandRefused, InvalidState, ProcessNotFound
from outlive.core.events import AuditEvent
from outlive.core.process import Owner
from outlive.engine import Process, ProcessFilter
from outlive.frontends.mcp.http.requests import Message
from outlive.frontends.mcp.tools.calls import Caller, CallStatus, Outcome, Progress
from outlive.frontends.mcp.tools.toolbox import Toolbox
from outlive.protocols.mcp.hosts import host_of, is_timeout_reason, names_known_limit
from outlive.protocols.mcp.texts import TERMINATED

_Key = tuple[str, str | None, str | None]

# A relay repeats a cancel for 7.5 s, and a notice that has crossed an answer comes at once: few calls end in that time.
_MAX_OVER = 256


def terminated(outcome: Outcome) -> Outcome:
    """Return the outcome of a call that was cancelled: its text begins so, and it is an error (promise S4.6)."""
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
    task: asyncio.Task[Outcome | Exception] | None = None
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
        self._tasks: set[asyncio.Task[Outcome | Exception]] = set()
        self._in_flight: dict[_Key, InFlight] = {}
        # Calls of tools for models that are over, newest last: a host's time-out may cross their answer, or be sent twice.
        self._over: OrderedDict[_Key, InFlight] = OrderedDict()

    async def close(self) -> None:
        """Let go of what is in flight; what it started goes on."""
        self._toolbox.let_go()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def expect(self, caller: Caller) -> InFlight:
        """Let a cancel find the request of `caller` from now on, though nothing runs for it yet; close it in the end.

        Of two requests with one id, which no client may send, the newer one is found.
        """
        key = _key_of(caller)
        begun_at = asyncio.get_running_loop().time()
        request = self._in_flight[key] = InFlight(
            self._in_flight, key, caller.owner, client=caller.client, begun_at=begun_at
        )
        return request

    async def call(
        self,
        name: str,
        arguments: Mapping[str, object],
        caller: Caller,
        progress: Progress | None,
        *,
        partial: Progress | None = None,
    ) -> Outcome:
        """Run one tool; a call that was cancelled before it began does nothing.

        Raises:
            UnknownTool: There is no such tool.

        Cancellation: stops what the call started, unless it runs in the background.
        """
        # The endpoint expects a request before it reads on; a direct caller has not, and an entry is made for this call alone.
        expected = self._in_flight.get(_key_of(caller))
        with contextlib.ExitStack() as own:
            if expected is not None and expected.task is None:
                call = expected
            else:
                call = own.enter_context(contextlib.closing(self.expect(caller)))
            call.tool = name
            if self._toolbox.is_for_models(name):
                own.callback(self._keep, call)
            reported = None if progress is None else _noting(progress, call.status)
            outcome = await self._run(call, self._settle(name, arguments, caller, reported, call, partial))
            if call.status.reported_at is not None and not call.status.is_unheard():
                self._toolbox.note_patience(caller, asyncio.get_running_loop().time() - call.begun_at)
            return outcome

    async def _run(self, call: InFlight, work: Coroutine[Any, Any, Outcome | Exception]) -> Outcome:
        if call.status.is_cancelled():
            work.close()
            return terminated(Outcome(text=""))
        call.task = task = asyncio.create_task(work, name="tool call")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            # Not awaited itself: the SDK cancels at every await of its scope, a task once.
            await asyncio.wait({task})
        except asyncio.CancelledError:
            # A revision without cancel notifications: the client has closed the response stream, and gave no reason.
            call.status.is_given_up = self._is_given_up(call, reason="")
            if task.done():  # the answer was ready at this very moment, and reaches no client
                await self._toolbox.leave(call.status)
            task.cancel()
            raise
        # The task was cancelled by `cancel` below, not by this one's own canceller: that is an answer, no exception.
        settled = Outcome(text="") if task.cancelled() else task.result()
        if isinstance(settled, Exception):
            raise settled
        if call.status.is_given_up:
            return Outcome(text="[The client gave up this call: what it has started goes on.]")
        return terminated(settled) if call.status.is_cancelled() or task.cancelled() else settled

    async def cancel(self, caller: Caller, *, reason: str) -> None:
        """End what a request of `caller` runs, or has left running in the background (promise S4.6).

        Returns when the end was asked for. A request that is not known, or that is over, is a success.

        Raises:
            CommandRefused: `profile_too_weak`: the caller lives in a process of ours, and what the request runs, or may be
                about to start, has a weaker profile than that. Nothing has changed.
        """
        note = f"Cancelled by the client: {reason[:200]}" if reason else "Cancelled by the client."
        call = self._in_flight.get(_key_of(caller))
        over = self._over.get(_key_of(caller)) if call is None else None
        if over is not None and (over.status.is_given_up or is_timeout_reason(reason)):
            return  # what it has started goes on, as if this had come in time
        # Before a word of it is noted: a request that is marked as cancelled starts nothing, or ends what it starts.
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
            await self.end(process, caller, note=note)
        elif call is not None and call.task is not None:
            call.task.cancel()  # it has not started anything yet, or waits for what others started

    def _keep(self, call: InFlight) -> None:
        """Remember a call that is over, for as long as its cancel may still be on the way."""
        self._over[call.key] = call
        self._over.move_to_end(call.key)
        if len(self._over) > _MAX_OVER:
            self._over.popitem(last=False)

    def _is_given_up(self, call: InFlight, *, reason: str) -> bool:
        """Tell whether a cancel is a host's time limit: a person who cancels wants the end, a clock knows nothing of the command.

        Only tools that are made for models tell the two apart (promise S4.13.waits); the documents' tools end what they run (S4.6).
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
            raise
        return process

    async def end(self, process: Process, caller: Caller, *, note: str) -> None:
        """Ask for the end of a process as a cancel does; one that has ended is a success."""
        with contextlib.suppress(InvalidState):  # it ended at this moment
            await self._engine.as_(caller.owner).cancel(
                process, grace_s=self._toolbox.settings.termination_timeout_s, note=note
            )

    async def _process_of(self, caller: Caller) -> Process | None:
        wanted = ProcessFilter(
            principal=caller.principal, connection_id=caller.connection_id, request_id=caller.request_id
        )
        try:
            process = await self._engine.queries.find_by(wanted)
        except ProcessNotFound:
            return None
        return None if process.is_ended else process

    async def _settle(
        self,
        name: str,
        arguments: Mapping[str, object],
        caller: Caller,
        progress: Progress | None,
        call: InFlight,
        partial: Progress | None,
    ) -> Outcome | Exception:
        try:
            return await self._toolbox.call(
                name,
                arguments,
                caller,
                progress=progress,
                partial=partial,
                status=call.status,
            )
        except Exception as error:  # noqa: BLE001 -- raised again where the call is awaited
            return error


def _noting(progress: Progress, status: CallStatus) -> Progress:
    """Return what reports by `progress`, and notes when."""

    async def report(text: str) -> None:
        await progress(text)
        status.reported_at = asyncio.get_running_loop().time()

    return report


def _key_of(caller: Caller) -> _Key:
    return caller.principal, caller.connection_id, caller.request_id


_logger = logging.getLogger(__name__)
_INTERNAL_ERROR = -32603
_PARAMS = frozenset({"name", "arguments", "_meta"})
_META = frozenset({"progressToken", "traceparent", "tracestate", "baggage"})  # the latter three: SEP-414


class PlainCalls:
    """Answers plain calls of the tools of a toolbox."""

    def __init__(self, toolbox: Toolbox, calls: Calls) -> None:
        """Take the tools and what runs them."""
        self._calls = calls
        self._toolbox = toolbox

    def takes(self, message: Message, caller: Caller) -> bool:
        """Tell whether a message is a plain call: one of our tools, arguments, at most a progress token."""
        if message.method != "tools/call" or not self._toolbox.offers(message.tool, caller):
            return False
        params = message.params or {}
        meta = params.get("_meta", {})
        return (
            params.keys() <= _PARAMS
            and isinstance(params.get("arguments", {}), dict)
            and isinstance(meta, dict)
            and meta.keys() <= _META
            and type(meta.get("progressToken", 0)) in {int, str}  # not bool, which is an int to isinstance
        )

    async def answer(
        self, message: Message, caller: Caller, notify: Callable[[bytes], Awaitable[None]] | None
    ) -> dict[str, Any]:
        """Carry out a call that `takes` takes and return its JSON-RPC response; `notify` sends its notifications.

        Cancellation: stops what the call started, unless it runs in the background.
        """
        token = (message.params or {}).get("_meta", {}).get("progressToken")
        count = 0

        async def progress(text: str) -> None:
            nonlocal count
            count += 1  # the number must grow; how far a command is, is not known
            if notify is not None:
                params = {"progressToken": token, "progress": count, "message": text}
                notification = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
                await notify(orjson.dumps(notification))

        response: dict[str, Any] = {"jsonrpc": "2.0", "id": message.request_id}
        try:
            outcome = await self._calls.call(
                message.tool or "", message.arguments, caller, None if token is None else progress
            )
            response["result"] = result_of(outcome)
        except Exception as error:  # noqa: BLE001 -- the endpoint's boundary: logged, and reported by a reference
            response["error"] = unexpected(error)
        return response


def result_of(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome that is no task as a CallToolResult (MCP revision 2025-11-25, "Tools")."""
    result: dict[str, Any] = {
        "content": [{"type": "text", "text": outcome.text}],
        "isError": outcome.is_error,
    }
    if outcome.structured is not None:
        result["structuredContent"] = outcome.structured
    return result


def unexpected(error: Exception) -> dict[str, Any]:
    """Log an unforeseen error and return the JSON-RPC error that names only the log's reference."""
    reference = secrets.token_hex(4)
    _logger.error("an MCP request failed", exc_info=error, extra={"reference": reference})
    return {"code": _INTERNAL_ERROR, "message": f"Something went wrong (reference {reference})."}
