"""How many processes of a group run at once, and which comes next: `ConcurrencyLimits`.

It counts what runs, whichever principal and whichever server started it. A command that finds its group full
waits in line, first come, first served, on disk (`store.queue_store`), so that a crash of the server costs no
command its place. While no server lives none is admitted: the keeper knows no groups.

How many starts of one principal are on their way at a time: `StartSlots`.

Commands between their place in a line and the keeper's answer: `PendingStarts`, which may still be withdrawn
(decision 60).

Whether such a command runs is decided by one rename, the keeper's or ours (`store.queue_store`). What finds
out or decides it runs in tasks of the engine: a caller that goes away must not leave a command that neither
waits nor runs.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Coroutine, Iterable, Iterator
from typing import Protocol, Self
from weakref import WeakKeyDictionary, WeakValueDictionary

from outlive.core.errors import BackendUnavailable, LimitExceeded
from outlive.core.lifecycle import Cause, State
from outlive.engine.processes.group_lines import GroupLines, line_of
from outlive.engine.processes.places import Places
from outlive.engine.processes.process import Process
from outlive.store.queue_store import GroupKey, QueueStore, WaitingCommand

_logger = logging.getLogger(__name__)


class PendingStarts:
    """From a place in a line until the keeper has answered.

    On the engine's loop only; files are written in threads.
    """

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

        Also False when its turn has come and the disk is full: it is not known yet. The caller holds
        `decision_on`.

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


class StartAdmission(Protocol):
    """What starts a command whose turn it is (`admitted_starts.AdmittedStarts`)."""

    async def admit(self, process: Process, command: WaitingCommand) -> bool:
        """Start it; False: it waits again, for a place elsewhere. Must not raise."""


class ConcurrencyLimits:
    """The groups of all principals. On the engine's loop only; files are written in threads.

    Whenever nothing happens, this is so: each command that has its turn (`lines`) has asked for a place and
    has none, and no command without a turn has one or waits for one. All that changes a turn ends in
    `_advance` or `_give_back`.

    Attributes:
        lines: What runs, and what waits in which order.
        places: Which of them have a place on a machine.
    """

    def __init__(self, pending: PendingStarts, places: Places) -> None:
        """Take what knows all that waits, and what has a place; nothing is admitted before `begin`."""
        self._pending = pending
        self.places = places
        self._admission: StartAdmission | None = None
        self.lines = GroupLines()

    async def open(self) -> list[WaitingCommand]:
        """Return the commands that wait since an earlier server; `rejoin` each of them, then `begin`."""
        waiting, limits = await asyncio.to_thread(self._pending.store.open)
        self.lines.limits.update(limits)
        return waiting

    def begin(self, admission: StartAdmission) -> None:
        """Have `admission` start what the limits allow, now and from now on."""
        self._admission = admission
        self.places.begin(self.advance)
        turns = {one for key in self.lines.keys for one in self.lines.turns(key)}
        self._admit(one for one in self.lines if one in turns)  # by age: so they ask for places

    def close(self) -> None:
        """Admit none any more; what waits is found by the next server."""
        self._admission = None
        self._pending.close()

    async def set_limit(self, key: GroupKey, limit: int | None) -> None:
        """Change a group's limit; a higher one admits at once, a lower one ends no process.

        Raises:
            LimitExceeded: `disk_full`: it cannot be kept.

        Cancellation: it is changed.
        """
        limits = self.lines.limits
        if limits.get(key) == limit:
            return
        if limit is None:
            limits.pop(key, None)
        else:
            limits[key] = limit
        try:
            await asyncio.to_thread(self._pending.store.keep_limits, dict(limits))
        except OSError as error:
            raise LimitExceeded("disk_full", f"The limit cannot be kept: {error.strerror}.") from error
        finally:
            self._advance(key)

    async def move(self, process: Process, places: int) -> bool:
        """Put a command so many places back in its line, or forward where that is negative; False where it
        waits for no turn.

        The new order survives a crash. What has lost its turn by it waits for no place any more.

        Raises:
            LimitExceeded: `disk_full`: it cannot be kept, and nothing is moved.

        Cancellation: it is moved.
        """
        old = self.lines.move(process, places)
        if old is None:
            return False
        order = self.lines.order()
        try:
            await asyncio.to_thread(self._pending.store.keep_order, order)
        except OSError as error:
            self.lines.move(process, -len(order))  # its turn may have come meanwhile
            self.lines.move(process, old)
            raise LimitExceeded("disk_full", f"The order cannot be kept: {error.strerror}.") from error
        finally:
            self.advance(process)
        return True

    def enter(self, process: Process) -> None:
        """Count a process that starts or was found running."""
        if process.state is State.QUEUED:
            return
        self.places.adopt(process)
        self.lines.count(process)
        _give_back(self.lines, self.places, line_of(process))

    @contextlib.contextmanager
    def changing_group(self, process: Process) -> Iterator[None]:
        """Count a process in the group that it has at the end of a `with` block, which awaits nothing."""
        key = line_of(process)
        self.lines.uncount(process)
        waits = self.lines.take_out(process)  # its machine may have refused it just now
        yield
        if waits is not None:
            self.lines.put(process, waits)
            self.advance(process)
        self.enter(process)  # first: in the same group it is counted again, and no other one gets its turn
        self._advance(key)

    def ended(self, process: Process) -> None:
        """Count a process no more that has ended or never ran, and give turn and place to the next;
        idempotent.
        """
        key = line_of(process)
        if self.lines.uncount(process) and key in self.lines.limits:
            self._advance(key)
        self.places.release(process)

    async def wait_in_line(
        self, process: Process, command: WaitingCommand, *, is_first: bool = False
    ) -> None:
        """Put a command at the end of its group's line, or at its beginning; it is on disk when this returns.

        Raises:
            LimitExceeded: `disk_full`: it cannot be kept, and does not wait.
        """
        # At once: the order of the calls is the order of the line.
        self.rejoin(process, command, is_first=is_first)
        self.advance(process)  # its turn or its place may have come meanwhile
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
        """Put a command that is on disk already at the end of the line, or, where it was to run, back at its
        beginning.

        `advance` follows it; until then no other one has the turn of one that comes back.
        """
        if is_first:
            self.lines.uncount(process)
        self.lines.put(process, command, is_first=is_first)
        self._pending.add(process, command)

    def step_out(self, process: Process) -> bool:
        """Take a process out of the line; return whether it was there.

        One whose turn has come keeps its place until it ends.
        """
        if self.lines.take_out(process) is None:
            return False
        self.places.release(process)
        self._advance(line_of(process))
        return True

    def advance(self, process: Process) -> None:
        """Admit a process that has turn and place, and look again at its line where a limit makes it one."""
        key = line_of(process)
        if key in self.lines.limits:
            self._advance(key)
        else:
            self._admit([process])

    def _advance(self, key: GroupKey) -> None:
        """Admit what has turn and place in a line, and have what has no turn wait for no place."""
        self._admit(self.lines.turns(key))
        _give_back(self.lines, self.places, key)

    def _admit(self, turns: Iterable[Process]) -> None:
        """Have processes that have their turn ask for a place, and start those that have one."""
        for process in turns:
            if self._admission is None or process not in self.lines:
                continue
            if not process.is_ended and not self.places.has(process):
                self.lines.asks(process)
                continue
            command = self.lines.take_out(process)
            if command is None:
                raise AssertionError("it was in its line")
            if process.is_ended:  # withdrawn while it came back into the line
                self._pending.forget(process)
                continue
            process.status.admit()
            self.places.adopt(process)
            self.lines.count(process)
            self._pending.spawn(_start(self._pending, self._admission, process, command))


def _give_back(lines: GroupLines, places: Places, key: GroupKey) -> None:
    """Have what has no turn (any more) wait for no place.

    What gets one by that may stand in the same line.
    """
    for process in lines.without_turn(key):
        places.release(process)


async def _start(
    pending: PendingStarts, admission: StartAdmission, process: Process, command: WaitingCommand
) -> bool:
    if await admission.admit(process, command):
        pending.forget(process)
        await pending.remove(command)
    return True


# Each start on its way holds a shim and becomes a process that wants a core. More than a few for each core
# are needed to keep it busy; beyond that they only take turns from all others: at 64 on two cores this server
# itself waited most of the time for one (decision 91).
_EACH_CORE = 8


def _places() -> int:
    """Return how many starts keep this machine busy."""
    return _EACH_CORE * max(2, len(os.sched_getaffinity(0)))


class StartSlots:
    """A semaphore for each name, as long as a caller holds it or waits for it. On one event loop only."""

    def __init__(self, places: int | None = None) -> None:
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
        """Give the place back early: what is still waited for keeps no processor of this machine busy.

        Safe to repeat.
        """
        semaphore, self._semaphore = self._semaphore, None
        if semaphore is not None:
            semaphore.release()
