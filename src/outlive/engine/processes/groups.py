"""How many processes of a group run at once, and which comes next: `ConcurrencyLimits`.

It counts what runs, whichever principal and whichever server started it. A command that finds its group full waits in line,
first come, first served, on disk (`store.queue_store`), so that a crash of the server costs no command its place. While no
server lives none is admitted: the keeper knows no groups.

How many starts of one principal are on their way at a time: `StartSlots`.

Commands between their place in a line and the keeper's answer: `PendingStarts`, which may still be withdrawn (decision 60).

Whether such a command runs is decided by one rename, the keeper's or ours (`store.queue_store`). What finds out or decides
it runs in tasks of the engine: a caller that goes away must not leave a command that neither waits nor runs.
"""

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Protocol, Self
from weakref import WeakKeyDictionary, WeakValueDictionary

from outlive.core.errors import BackendUnavailable, LimitExceeded
from outlive.core.lifecycle import Cause, State
from outlive.engine.processes.places import Places
from outlive.engine.processes.process import Process
from outlive.store.queue_store import GroupKey, QueueStore, WaitingCommand

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
        """Return whether it is not known yet that a process runs, or never will."""
        return process in self._commands

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """From now on decisions are carried out, in tasks of the engine's group."""
        self._group = tasks

    def close(self) -> None:
        """Cancel what is being done: the next server finds the commands without an answer."""
        self._group = None
        for task in self._tasks:
            task.cancel()

    def add(self, process: Process, command: WaitingCommand) -> None:
        """Note that a process waits."""
        self._commands[process] = command

    def forget(self, process: Process) -> None:
        """Forget a process that was decided on; idempotent."""
        self._commands.pop(process, None)

    def decision_on(self, process: Process) -> asyncio.Lock:
        """Return what to hold while one decides, or learns, whether a process runs."""
        return self._locks.setdefault(process, asyncio.Lock())

    async def withdraw(self, process: Process, *, has_waited: bool, cause: Cause, note: str) -> bool:
        """Make sure that an undecided process never runs, for good; False when the keeper was first.

        Also False when its turn has come and the disk is full: it is not known yet. The caller holds `decision_on`.

        Args:
            process: The process that is withdrawn.
            has_waited: It stood in line until now, so that this server has not asked for its start.
            cause: Why,
            note: and which caller asked.
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
            self.forget(process)
        return is_over

    async def remove(self, command: WaitingCommand) -> None:
        """Remove a command's file."""
        try:
            await asyncio.to_thread(self.store.remove, command.process_id)
        except OSError:
            _logger.exception("a file of a waiting command cannot be removed")

    def spawn(self, deed: Coroutine[None, None, bool]) -> bool:
        """Carry out a deed, which must not raise; False: the engine is being closed."""
        return self._begin(deed) is not None

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


_Waiting = tuple[Process, WaitingCommand]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLine:
    """One group: how many of it run at once (None: any number), how many do, and the ids of what waits, the next first."""

    limit: int | None
    running: int
    waiting: tuple[str, ...]


class StartAdmission(Protocol):
    """What starts a command whose turn it is (`start_queue.StartQueue`)."""

    async def admit(self, process: Process, command: WaitingCommand) -> bool:
        """Start it; False: it waits again, for a place elsewhere. Must not raise."""


class LineOrder:
    """Shows the lines of all groups and moves what waits in them. On the engine's loop only; the order is kept in a thread.

    The dictionaries are those of `ConcurrencyLimits`, which fills and empties them.
    """

    def __init__(
        self,
        store: QueueStore,
        *,
        limits: Mapping[GroupKey, int],
        running: Mapping[GroupKey, set[bytes]],
        lines: Mapping[GroupKey, deque[_Waiting]],
    ) -> None:
        """Take what changes all the time, and where the order is kept."""
        self._store = store
        self._limits = limits
        self._running = running
        self._lines = lines

    async def move(self, process: Process, places: int) -> bool:
        """Put a command so many places back in its line, or forward where that is negative; False where it is in none.

        The new order survives a crash. Of the two ends none is passed.

        Raises:
            LimitExceeded: `disk_full`: it cannot be kept, and nothing is moved.
        """
        line = self._lines.get(_line(process), deque())
        old = next((place for place, one in enumerate(line) if one[0] is process), None)
        if old is None or _key(process) is None:
            return False
        command = line[old]
        del line[old]
        line.insert(max(0, min(len(line), old + places)), command)
        ids = [one.process_id for each in self._lines.values() for _, one in each]
        try:
            await asyncio.to_thread(self._store.keep_order, ids)
        except OSError as error:
            now = self._lines.get(_line(process), deque())
            if command in now:  # its turn may have come meanwhile
                now.remove(command)
                now.insert(min(old, len(now)), command)
            raise LimitExceeded("disk_full", f"The order cannot be kept: {error.strerror}.") from error
        return True

    def lines(self, principal: str) -> dict[str, GroupLine]:
        """Return the groups of a principal that run something, wait or have a limit, by name."""
        found = {*self._limits, *self._running, *self._lines}
        return {
            key[1]: GroupLine(
                limit=self._limits.get(key),
                running=len(self._running.get(key, ())),
                waiting=tuple(one.process_id for _, one in self._lines.get(key, ())),
            )
            for key in sorted(found)
            if key[0] == principal
        }


class ConcurrencyLimits:
    """The groups of all principals. On the engine's loop only; files are written in threads.

    Attributes:
        order: Shows and changes the order of what waits.
        places: Which of them have a place on a machine.
    """

    def __init__(self, pending: PendingStarts, places: Places) -> None:
        """Take what knows all that waits, and what has a place; nothing is admitted before `begin`."""
        self._pending = pending
        self.places = places
        self._admission: StartAdmission | None = None
        self._limits: dict[GroupKey, int] = {}
        self._running: dict[GroupKey, set[bytes]] = {}
        self._lines: dict[GroupKey, deque[_Waiting]] = {}
        self.order = LineOrder(pending.store, limits=self._limits, running=self._running, lines=self._lines)

    async def open(self) -> list[WaitingCommand]:
        """Return the commands that wait since an earlier server; `rejoin` each of them, then `begin`."""
        waiting, limits = await asyncio.to_thread(self._pending.store.open)
        self._limits.update(limits)
        return waiting

    def begin(self, admission: StartAdmission) -> None:
        """Have `admission` start what the limits allow, now and from now on."""
        self._admission = admission
        self.places.begin(self.advance)
        for key in list(self._lines):
            self._advance(key)

    def close(self) -> None:
        """Admit none any more; what waits is found by the next server."""
        self._admission = None
        self._pending.close()

    async def set_limit(self, key: GroupKey, limit: int | None) -> None:
        """Change a group's limit; a higher one admits at once, a lower one ends no process.

        Raises:
            LimitExceeded: `disk_full`: it cannot be kept.
        """
        if self._limits.get(key) == limit:
            return
        if limit is None:
            self._limits.pop(key, None)
        else:
            self._limits[key] = limit
        try:
            await asyncio.to_thread(self._pending.store.keep_limits, dict(self._limits))
        except OSError as error:
            raise LimitExceeded("disk_full", f"The limit cannot be kept: {error.strerror}.") from error
        self._advance(key)

    def is_full(self, key: GroupKey) -> bool:
        """Return whether one more has to wait."""
        limit = self._limits.get(key)
        return limit is not None and (len(self._running.get(key, ())) >= limit or bool(self._lines.get(key)))

    def enter(self, process: Process) -> None:
        """Count a process that starts or was found running."""
        key = _key(process)
        if process.state is State.QUEUED:
            return
        self.places.adopt(process)
        if key is not None and not process.is_ended:
            self._running.setdefault(key, set()).add(process.key)

    def leave(self, process: Process) -> None:
        """Count a process no more, and admit the next in its place; idempotent."""
        key = _key(process)
        running = self._running.get(key) if key is not None else None
        if key is None or running is None or process.key not in running:
            return
        running.discard(process.key)
        if not running:
            del self._running[key]
        self._advance(key)

    def ended(self, process: Process) -> None:
        """Count a process no more that has ended or never ran, and give its place to the next; idempotent."""
        self.leave(process)
        self.places.release(process)

    async def wait_in_line(
        self, process: Process, command: WaitingCommand, *, is_first: bool = False
    ) -> None:
        """Put a command at the end of its group's line, or at its beginning; it is on disk when this returns.

        Raises:
            LimitExceeded: `disk_full`: it cannot be kept, and does not wait.
        """
        self.rejoin(
            process, command, is_first=is_first
        )  # at once: the order of the calls is the order of the line
        if process.needs is not None:  # it may have got a place meanwhile
            self.advance(process)
        try:
            await asyncio.to_thread(self._pending.store.put, command)
        except OSError as error:
            if self.step_out(process):  # else its turn has come meanwhile, or it was cancelled
                self._pending.forget(process)
                text = f"The command cannot be kept: {error.strerror}."
                raise LimitExceeded("disk_full", text) from error
        if process not in self._pending:  # started, or withdrawn, while it was written
            await self._pending.remove(command)

    def rejoin(self, process: Process, command: WaitingCommand, *, is_first: bool = False) -> None:
        """Put a command that is on disk already at the end of the line, or at its beginning."""
        line = self._lines.setdefault(_line(process), deque())
        if is_first:
            line.appendleft((process, command))
        else:
            line.append((process, command))
        self._pending.add(process, command)

    def step_out(self, process: Process) -> bool:
        """Take a process out of the line; return whether it was there. One whose turn has come keeps its place until it ends."""
        key = _line(process)
        line = self._lines.get(key)
        if line is None:
            return False
        rest = deque(one for one in line if one[0] is not process)
        was_there = len(rest) < len(line)
        if rest:
            self._lines[key] = rest
        else:
            del self._lines[key]
        if was_there:
            self.places.release(process)
        return was_there

    def advance(self, process: Process) -> None:
        """Admit what stands in a process's line, as far as there are places."""
        self._advance(_line(process))

    def _advance(self, key: GroupKey) -> None:
        """Admit as many as there are places."""
        limit = self._limits.get(key)
        while self._admission is not None and (line := self._lines.get(key)):
            if limit is not None and len(self._running.get(key, ())) >= limit:
                return
            process, command = line[0]
            if not process.is_ended and not self.places.has(process):
                return
            line.popleft()
            if not line:
                del self._lines[key]
            if process.is_ended:  # withdrawn while it came back into the line
                self._pending.forget(process)
                continue
            process.status.admit()
            self.enter(process)
            self._pending.spawn(self._start(self._admission, process, command))

    async def _start(self, admission: StartAdmission, process: Process, command: WaitingCommand) -> bool:
        if not await admission.admit(process, command):
            return True
        self._pending.forget(process)
        await self._pending.remove(command)
        return True


def _key(process: Process) -> GroupKey | None:
    group = process.group
    return None if group is None else (process.principal, group)


def _line(process: Process) -> GroupKey:
    """Return the line that a process stands in: its group's, or one of its own, which nothing limits."""
    return _key(process) or ("", process.process_id)


# Each start on its way holds a shim and becomes a process that wants a core. More than a few for each core are needed to
# keep it busy; beyond that they only take turns from all others: at 64 on two cores this server itself waited
# most of the time for one (decision 91).
_EACH_CORE = 8


def _places() -> int:
    """Return how many starts keep this machine busy."""
    return _EACH_CORE * max(2, len(os.sched_getaffinity(0)))


class StartSlots:
    """A semaphore for each name, as long as a caller holds it or waits for it. On one event loop only."""

    def __init__(self, places: int | None = None) -> None:
        """Let so many in for each name (None: eight for each core); the others wait in line."""
        self._places = _places() if places is None else places
        self._semaphores: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, name: str) -> asyncio.Semaphore:
        """Return the semaphore of a name; a caller that enters it keeps it until it leaves."""
        semaphore = self._semaphores.get(name)
        if semaphore is None:
            semaphore = self._semaphores[name] = asyncio.Semaphore(self._places)
        return semaphore


class StartSlot:
    """One place of `StartSlots`, held in an `async with` block or until `leave`."""

    __slots__ = ("_semaphore",)

    def __init__(self, semaphore: asyncio.Semaphore) -> None:
        """Take none yet."""
        self._semaphore: asyncio.Semaphore | None = semaphore

    async def __aenter__(self) -> Self:
        """Wait for a place."""
        if self._semaphore is not None:
            await self._semaphore.acquire()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Give the place back."""
        self.leave()

    def leave(self) -> None:
        """Give the place back early: what is still waited for keeps no processor of this machine busy. Safe to repeat."""
        semaphore, self._semaphore = self._semaphore, None
        if semaphore is not None:
            semaphore.release()
