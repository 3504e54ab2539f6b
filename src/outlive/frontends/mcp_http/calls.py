"""Tool calls in flight: `Calls`, tasks of their own that a lost connection does not end and a cancel finds."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from outlive.core.errors import InvalidState, ProcessNotFound
from outlive.engine import Engine, Process, ProcessFilter
from outlive.frontends.mcp_tools.contract import Caller, Outcome, Progress, Toolbox

__all__ = ["Calls", "terminated"]

_TERMINATED = "[Process was terminated]"  # promise S4.6
_Key = tuple[str, str | None, str | None]


def terminated(outcome: Outcome) -> Outcome:
    """Return the outcome of a call that was cancelled: its text begins so, and it is an error (promise S4.6)."""
    if outcome.text.startswith(_TERMINATED):
        return replace(outcome, is_error=True)
    text = f"{_TERMINATED}\n\n{outcome.text}" if outcome.text else _TERMINATED
    return replace(outcome, text=text, is_error=True)


@dataclass(slots=True, eq=False)
class _InFlight:
    """One call: its task, and whether its caller has cancelled it."""

    task: asyncio.Task[Outcome | Exception]
    is_cancelled: bool = False


class Calls:
    """Runs tool calls and cancels them by (principal, MCP session, request id). `close` it in the end."""

    def __init__(self, engine: Engine, toolbox: Toolbox, *, termination_timeout_s: float) -> None:
        """Run the tools of `toolbox`; a cancel gives `termination_timeout_s` seconds between TERM and KILL."""
        self._engine = engine
        self._toolbox = toolbox
        self._termination_timeout_s = termination_timeout_s
        self._tasks: set[asyncio.Task[Outcome | Exception]] = set()
        self._in_flight: dict[_Key, _InFlight] = {}

    async def close(self) -> None:
        """Let go of what is in flight; what it started goes on."""
        self._toolbox.let_go()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def call(
        self, name: str, arguments: Mapping[str, object], caller: Caller, progress: Progress | None
    ) -> Outcome:
        """Run one tool.

        Raises:
            UnknownTool: There is no such tool.

        Cancellation: stops what the call started, unless it runs in the background.
        """
        task = asyncio.create_task(self._settle(name, arguments, caller, progress), name=f"tool {name[:40]}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        call = _InFlight(task)
        key = _key_of(caller)
        self._in_flight[key] = call
        try:
            # Not awaited itself: the SDK cancels at every await of its scope, a task once.
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            if self._in_flight.get(key) is call:
                del self._in_flight[key]
        settled = Outcome(text="") if task.cancelled() else task.result()
        if isinstance(settled, Exception):
            raise settled
        return terminated(settled) if call.is_cancelled or task.cancelled() else settled

    async def cancel(self, caller: Caller, *, reason: str) -> None:
        """End what a request of `caller` runs, or has left running in the background (promise S4.6).

        Returns when the end was asked for. A request that nobody knows, or that is over, is a success.
        """
        call = self._in_flight.get(_key_of(caller))
        if call is not None:
            call.is_cancelled = True
        process = await self._process_of(caller)
        if process is not None:
            note = f"Cancelled by the client: {reason[:200]}" if reason else "Cancelled by the client."
            with contextlib.suppress(InvalidState):  # it ended at this moment
                await self._engine.cancel(process, grace_s=self._termination_timeout_s, note=note)
        elif call is not None:
            call.task.cancel()  # it has not started anything yet, or waits for what others started

    async def _process_of(self, caller: Caller) -> Process | None:
        wanted = ProcessFilter(
            principal=caller.principal, connection_id=caller.connection_id, request_id=caller.request_id
        )
        try:
            process = await self._engine.find_by(wanted)
        except ProcessNotFound:
            return None
        return None if process.is_ended else process

    async def _settle(
        self, name: str, arguments: Mapping[str, object], caller: Caller, progress: Progress | None
    ) -> Outcome | Exception:
        try:
            return await self._toolbox.call(name, arguments, caller, progress=progress)
        except Exception as error:  # noqa: BLE001 -- handed to the one who waits
            return error


def _key_of(caller: Caller) -> _Key:
    return caller.principal, caller.connection_id, caller.request_id
