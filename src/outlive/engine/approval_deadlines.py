"""Which starts wait for a person's approval, and until when: `ApprovalDeadlines`. The files are `store.waiting`'s."""

import asyncio
import time
from collections.abc import Callable

from outlive.engine.process import Process
from outlive.store.queue_store import WaitingCommand
from outlive.store.rows import to_ns


class ApprovalDeadlines:
    """Who waits for an approval. On the engine's loop only."""

    def __init__(self, *, expire: Callable[[Process], None]) -> None:
        """`expire` is called when a process's time is up."""
        self._expire = expire
        self._waiting: dict[Process, WaitingCommand] = {}
        self._timers: dict[Process, asyncio.TimerHandle] = {}
        self._is_open = False

    def begin(self) -> None:
        """Let time pass for those who wait, now and from now on."""
        self._is_open = True
        for process in self._waiting:
            self._wind(process)

    def __contains__(self, process: Process) -> bool:
        """Tell whether a process waits for an approval."""
        return process in self._waiting

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def of(self, process: Process) -> WaitingCommand | None:
        """Return the command of a process that waits here; None for every other."""
        return self._waiting.get(process)

    def add(self, process: Process, command: WaitingCommand) -> None:
        """Note that a process waits until its approval's time is up."""
        self._waiting[process] = command
        if self._is_open:
            self._wind(process)

    def step_out(self, process: Process) -> WaitingCommand | None:
        """Let a process wait no more, and return its command; None when it did not wait here."""
        timer = self._timers.pop(process, None)
        if timer is not None:
            timer.cancel()
        return self._waiting.pop(process, None)

    def all(self) -> list[tuple[Process, WaitingCommand]]:
        """Return who waits, oldest first."""
        return sorted(self._waiting.items(), key=lambda one: one[0].process_id)

    def close(self) -> None:
        """Stop the clocks: the next server goes on with them."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._is_open = False

    def _wind(self, process: Process) -> None:
        approval = process.approval
        if approval is None:
            raise AssertionError("who waits here has been asked about")
        rest_s = max(0.0, (to_ns(approval.expires_at) - time.time_ns()) / 1e9)
        self._timers[process] = asyncio.get_running_loop().call_later(rest_s, self._expire, process)
