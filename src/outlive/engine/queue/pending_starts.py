"""Commands between their place in a line and the keeper's answer: `PendingStarts`, who may still be withdrawn (decision 60).

Whether such a command runs is decided by one rename, the keeper's or ours (`store.waiting`). What finds out or decides
it runs in tasks of the engine: a caller that goes away must not leave a command that neither waits nor runs.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine
from weakref import WeakKeyDictionary

from outlive.core.errors import BackendUnavailable
from outlive.core.lifecycle import Cause
from outlive.engine.processes.process import Process
from outlive.store.queue_store import QueueStore, WaitingCommand

_logger = logging.getLogger(__name__)


class PendingStarts:
    """From a place in a line until the keeper has answered. On the engine's loop only; files are written in threads."""

    def __init__(self, store: QueueStore) -> None:
        """Nothing waits; `store` has the files of what does."""
        self.store = store
        self._commands: dict[Process, WaitingCommand] = {}
        self._locks: WeakKeyDictionary[Process, asyncio.Lock] = WeakKeyDictionary()
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[bool]] = set()

    def __contains__(self, process: Process) -> bool:
        """Tell whether nobody knows yet that a process runs, or never will."""
        return process in self._commands

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """From now on deeds are carried out, in tasks of the engine's group."""
        self._group = tasks

    def close(self) -> None:
        """Cancel what is being done: the next server finds who was not answered for."""
        self._group = None
        for task in self._tasks:
            task.cancel()

    def add(self, process: Process, command: WaitingCommand) -> None:
        """Note who waits."""
        self._commands[process] = command

    def settle(self, process: Process) -> None:
        """Forget who was decided on; idempotent."""
        self._commands.pop(process, None)

    def decision_on(self, process: Process) -> asyncio.Lock:
        """Return what to hold while one decides, or learns, whether a process runs."""
        return self._locks.setdefault(process, asyncio.Lock())

    async def withdraw(self, process: Process, *, has_waited: bool, cause: Cause, note: str) -> bool:
        """Make sure that an undecided process never runs, for good; False when the keeper was first.

        Also False when its turn has come and the disk is full: nobody knows yet. The caller holds `decision_on`.

        Args:
            process: Who is withdrawn.
            has_waited: It stood in line until now, so that this server has not asked for its start.
            cause: Why,
            note: and who asked.
        """
        command = self._commands.get(process)
        if command is None:
            return False
        withdraw, at_ns = self.store.withdraw, time.time_ns()
        try:
            is_over = await asyncio.to_thread(withdraw, command, cause=cause, note=note, at_ns=at_ns)
        except OSError:  # a full disk must not save a process from its end: giving up a place needs no room
            is_over = has_waited
            if has_waited:
                await self.remove(command)
        if is_over or has_waited:
            self.settle(process)
        return is_over

    async def remove(self, command: WaitingCommand) -> None:
        """Remove a command's file."""
        try:
            await asyncio.to_thread(self.store.remove, command.process_id)
        except OSError:
            _logger.exception("a file of a waiting command cannot be removed")

    def spawn(self, deed: Coroutine[None, None, bool]) -> None:
        """Carry out a deed, which must not raise."""
        self._begin(deed)

    async def carry_out(self, deed: Coroutine[None, None, bool]) -> bool:
        """Return what a deed, which must not raise, returns; it goes on when the caller is cancelled.

        Raises:
            BackendUnavailable: The engine is being closed.
        """
        task = self._begin(deed)
        if task is None:
            raise BackendUnavailable("keeper_unavailable", "The server is being stopped.")
        return await asyncio.shield(task)

    def _begin(self, deed: Coroutine[None, None, bool]) -> asyncio.Task[bool] | None:
        if self._group is None:
            deed.close()
            return None
        task = self._group.create_task(deed)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
