"""`BulkControls`: one verb on many processes at once."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from outlive.core.errors import OutliveError
from outlive.core.lifecycle import Cause
from outlive.engine.controls import Controls
from outlive.engine.processes.live_table import LiveTable
from outlive.engine.processes.process import Process
from outlive.engine.processes.process_waits import until
from outlive.engine.recovery.reconciliation import Reconciliation
from outlive.store.rows import ProcessFilter


class BulkControls:
    """Carries out verbs side by side. On the engine's loop only."""

    def __init__(self, controls: Controls, processes: LiveTable, *, reconciliation: Reconciliation) -> None:
        """Take what does it to one, and which live."""
        self._controls = controls
        self._processes = processes
        self._reconciliation = reconciliation

    async def control(
        self, wanted: ProcessFilter, verb: Callable[[Process], Awaitable[None]]
    ) -> dict[str, OutliveError | None]:
        """Carry out a verb on every live process that matches, side by side.

        Returns by process id None, or why it could not be done there (it ended meanwhile, for instance).
        """
        await self._reconciliation.listed()
        matching = [
            one
            for one in self._processes.candidates(wanted)
            if wanted.matches(one.record) and not one.is_ended
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
        await self._reconciliation.listed()
        live = self._processes.by_key

        async def end(process: Process) -> None:
            with contextlib.suppress(OutliveError):  # it may end, or the keeper vanish, at the same moment
                await self._controls.cancel(process, cause=cause, note=note, grace_s=grace_s)
                await until(process, lambda one: one.is_closed)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_s), asyncio.TaskGroup() as group:
                for process in list(live.values()):
                    group.create_task(end(process))
        return sum(not process.is_complete for process in live.values())
