"""Processes that wait for a reader who is gone: `Unread` lets them go on.

With `on_limit` "block" a process waits until its output was delivered. When nobody follows it any more (its reader was
killed, its terminal closed) nobody will ever say that: it would stand still for ever, and silently.
"""

import asyncio
import contextlib

from outlive.backends.contract import Backend
from outlive.backends.operations import Unbind
from outlive.core.errors import OutliveError
from outlive.engine.processes.process import Process

_LOOK_S = 0.5


class Unread:
    """Watches what is blocked; a process that had no reader for `grace_s` seconds waits for none any more.

    As a client whose connection was lost, a reader may come back.
    """

    def __init__(self, backend: Backend, *, grace_s: float, output_limit: int | None) -> None:
        """Watch nothing yet; `output_limit` is what holds for a process that waits for no reader any more."""
        self._backend = backend
        self._output_limit = output_limit
        self._grace_s = grace_s
        self._since: dict[Process, float | None] = {}
        self._woken = asyncio.Event()

    def changed(self, process: Process) -> None:
        """Look at a process whose flags have changed."""
        if process.status.is_blocked and process not in self._since:
            self._since[process] = None
            self._woken.set()

    async def run(self) -> None:
        """Look twice a second while something is blocked; until cancelled."""
        while True:
            await self._woken.wait()
            while self._since:
                await asyncio.sleep(_LOOK_S)
                await self._look(asyncio.get_running_loop().time())
            self._woken.clear()

    async def _look(self, now: float) -> None:
        for process, since in list(self._since.items()):
            if not process.status.is_blocked or process.is_closed:
                del self._since[process]
            elif process.subscribers.has_reader:
                self._since[process] = None
            elif since is None:
                self._since[process] = now
            elif now - since >= self._grace_s:
                with contextlib.suppress(
                    OutliveError
                ):  # the keeper does not answer: the next look asks again
                    await self._backend.control(process.process_id, Unbind(output_limit=self._output_limit))
