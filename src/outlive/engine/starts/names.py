"""The names by which callers find what they have started: command ids, short ids, keys, and their own names.

`CommandIds` makes names of commands for people and old clients: `cmd_<unix seconds>_<n>`, unique for ever
(promise S1.3). `ShortIds` counts the processes of a project, from 1: "p7" is short enough for a model to
repeat. `StartKeys` finds the process that an earlier start with the same key has started (promise S4.13.key).
Counters are the registry's: a crash skips numbers, it never repeats one.

`NameHolders`: no two processes that live in a project of a principal have one name. Nothing is kept but
locks: which process has a name stands in its record, so that the next server finds it, however this one
ended. What finds a process by its name is `engine.lookup`.
"""

import asyncio
import contextlib
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol
from weakref import WeakValueDictionary

from outlive.core.command import Command
from outlive.core.errors import InvalidRequest, InvalidState
from outlive.core.lifecycle import NOT_ENDED, State
from outlive.core.process import Owner, ProcessRecord
from outlive.core.values import dataclass, field, replace
from outlive.engine.processes.process import Process
from outlive.engine.queries import Queries
from outlive.engine.semaphores import Semaphores
from outlive.engine.starts.preparation import recorded_text
from outlive.store.registry import Registry
from outlive.store.rows import ProcessFilter

Place = tuple[str, str]  # a principal, and one of its projects: empty for none

_COUNTER = "command_id"
_BLOCK = 1000
_MAX_PROJECTS = 1000  # whose counters are in memory: more than are worked in at once
_AT_ONCE = 100  # starts of one principal on their way at once, and more (`Starts`: eight for each core)


class CommandIds:
    """Hands out names; only the loop's thread uses it."""

    def __init__(self, registry: Registry) -> None:
        """Nothing is reserved before `open`."""
        self._registry = registry
        self._next = self._reserved = 0

    async def open(self) -> None:
        """Reserve the first block; committed when this returns."""
        self._next = await self._registry.counter(_COUNTER) + 1
        self._reserve()
        await self._registry.flush()

    def new(self, now_s: int) -> str:
        """Return the next name."""
        number = self._next
        self._next += 1
        if self._reserved - self._next < _BLOCK // 2:
            # Half a block ahead: the writer commits in batches, and a start must not wait for one.
            self._reserve()  # committed long before it is needed; the seconds guard what is left to chance
        return f"cmd_{now_s}_{number}"

    def _reserve(self) -> None:
        self._reserved = self._next + _BLOCK
        self._registry.count_to(_COUNTER, self._reserved)


class ProjectNumbers:
    """The numbers of one project's processes: `new` gives the next one."""

    def __init__(self, registry: Registry, counter: str, *, last: int) -> None:
        """Go on behind `last`, and keep each number in the registry's `counter`."""
        self._registry = registry
        self._counter = counter
        self._last = last

    def new(self) -> int:
        """Return the next number."""
        self._last += 1
        self._registry.count_to(self._counter, self._last)
        return self._last


@dataclass(eq=False, slots=True)
class ShortIds:
    """Counts the processes of each project of each principal; only the loop's thread uses it.

    The counters of projects whose processes are all removed stay in the registry for ever: a model may
    remember "p7" for as long as its conversation is kept, and a second p7 would be the wrong process for it.
    That is one row a project, of some 100 bytes and its path.
    """

    registry: Registry
    queries: Queries
    # What was used last is kept. A start keeps the numbers of its project, too, until it has taken one:
    # so there is never a second object that counts the same.
    _recent: OrderedDict[Place, ProjectNumbers] = field(default_factory=OrderedDict, init=False)
    _all: WeakValueDictionary[Place, ProjectNumbers] = field(default_factory=WeakValueDictionary, init=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def of(self, place: Place) -> ProjectNumbers:
        """Return the numbers of a project; its counter is read unless it was used lately.

        Cancellation: safe.
        """
        numbers = self._all.get(place)
        if numbers is None:
            async with self._lock:
                numbers = self._all.get(place) or await self._read(
                    place
                )  # another start may have been faster
                self._all[place] = numbers
        self._recent[place] = numbers
        self._recent.move_to_end(place)
        if len(self._recent) > _MAX_PROJECTS:
            self._recent.popitem(last=False)
        return numbers

    async def _read(self, place: Place) -> ProjectNumbers:
        principal, project = place
        counter = f"short_id {principal} {project}"
        counted = await self.registry.counter(counter)
        # A server that was killed may not have committed its last count, but the process is found by its
        # folder. A lost count would give a second process the same name, and a model would end the wrong one.
        # Starts that were on their way at once have taken their numbers in another order than their ids.
        wanted = ProcessFilter(principal=principal, project=project)
        newest = await self.queries.list(wanted, limit=_AT_ONCE)
        last = max([counted, *(record.number or 0 for record in newest)])
        return ProjectNumbers(self.registry, counter, last=last)


@dataclass(eq=False, slots=True)
class StartKeys:
    """Finds what a key of a project has started; only the loop's thread uses it.

    Nothing is kept but locks: which process a key has started stands in its record, and so survives every
    server.
    """

    queries: Queries
    # Two starts of a key at once must not both find nothing.
    locks: Semaphores = field(default_factory=lambda: Semaphores(1), init=False)

    async def find(
        self, key: str, command: Command, place: Place, *, text: str, connection_id: str | None = None
    ) -> Process | None:
        """Return the newest process that was started with this key; None when there is none.

        One that never ran does not count, nor one that is private to another session.

        Args:
            key: The key.
            command: What the caller wants to start now.
            place: The caller's project.
            text: The command as a record shows it.
            connection_id: The caller's session.

        Raises:
            InvalidRequest: `key_taken`: the key belongs to another command.
        """
        principal, project = place
        shared = ProcessFilter(
            principal=principal, project=project, key=key, states=_HOLDS_KEY, detached=True
        )
        found = await self.queries.list(shared, limit=1)
        if connection_id is not None:
            own = replace(shared, connection_id=connection_id, detached=None)
            found = [*found, *await self.queries.list(own, limit=1)]
        for record in sorted(found, key=lambda one: one.process_id)[-1:]:
            process = await self.queries.find(record.process_id)
            if not await asyncio.to_thread(_is_same, process, command, text):
                shown = record.command if len(record.command) <= _SHOWN else f"{record.command[:_SHOWN]} …"
                raise InvalidRequest(
                    "key_taken",
                    f"The key {key[:40]!r} belongs to another command: {shown}",
                    hint=f"Use another key, or read the result of {record.short_id}.",
                    details={"process_id": record.process_id},
                )
            return process
        return None


_HOLDS_KEY = frozenset(State) - {State.FAILED_TO_START}


def _is_same(process: Process, command: Command, text: str) -> bool:
    """Tell whether a process runs a command. Reads the script's file: run it in a thread."""
    record: ProcessRecord = process.record
    # Secrets are stars in both texts: a command that differs in a secret alone counts as the same.
    is_named = record.command == recorded_text(text, process.folder)
    if command.script is None:
        return is_named
    try:
        with open(os.path.join(process.folder, "script"), "rb") as file:
            kept = file.read()
    except OSError:
        return False
    # An empty script is stored as one newline (`resolver`).
    wanted = command.script.encode("utf-8", "surrogateescape") or b"\n"
    if command.title is None:  # the record has the words that run it
        is_named = record.command.startswith(" ".join(command.argv or ()))
    return kept == wanted and is_named


_NOTE = "Replaced by a start of the same name."
_SHOWN = 200  # characters of the other command in a message
_FEW = 10  # one lives; after a start whose answer was lost there may be a second one for a moment


class EndsProcesses(Protocol):
    """What ends a process for a caller, as far as the caller may do that: the engine's `AuditedControls`."""

    async def end(self, process: Process, *, grace_s: float, note: str) -> bool:
        """End the whole tree and return when it is gone, and whether the KILL was needed."""
        ...


@dataclass(eq=False, slots=True)
class NameHolders:
    """Finds what has a name, and ends it where a start is to take its place.

    Only the loop's thread uses it.
    """

    queries: Queries
    acting: Callable[[Owner], EndsProcesses]
    locks: Semaphores = field(default_factory=lambda: Semaphores(1), init=False)

    async def make_free(self, command: Command, owner: Owner, place: Place, *, needs_approval: bool) -> None:
        """Return when nothing that lives has a command's name; the lock of that name is held meanwhile.

        Args:
            command: What is about to start; with `replaces` the process that has its name is ended, with its
                own grace period.
            owner: For which caller.
            place: Whose name it is.
            needs_approval: A person has to approve the command: until then nothing is ended for it.

        Raises:
            InvalidState: `name_taken`.
            BackendUnavailable, CommandRefused: What has the name was not ended.

        Cancellation: an end that was asked for goes on.
        """
        for process in await self._living(command.name, place):
            if not command.replaces or needs_approval:
                raise _taken(process, needs_approval=needs_approval and command.replaces)
            with contextlib.suppress(InvalidState):  # it ended meanwhile
                await self.acting(owner).end(process, grace_s=process.record.grace_s, note=_NOTE)

    async def check_free(self, name: str, place: Place) -> None:
        """Do nothing where nothing that lives has a name; the lock of that name is held meanwhile.

        Raises:
            InvalidState: `name_taken`.
        """
        for process in await self._living(name, place):
            raise _taken(process, needs_approval=False)

    async def _living(self, name: str | None, place: Place) -> list[Process]:
        principal, project = place
        living = ProcessFilter(principal=principal, project=project, name=name, states=NOT_ENDED)
        records = await self.queries.list(living, limit=_FEW)
        found = [await self.queries.find(record.process_id) for record in records]
        return [process for process in found if not process.status.is_ended]


def _taken(process: Process, *, needs_approval: bool) -> InvalidState:
    record = process.record
    shown = record.command if len(record.command) <= _SHOWN else f"{record.command[:_SHOWN]} …"
    hint = (
        "A person has to approve the new command first: end the other one yourself." if needs_approval else ""
    )
    return InvalidState(
        "name_taken",
        f"{record.name!r} is the name of {record.process_id}, which lives: {shown}",
        hint=hint,
        details={"process_id": record.process_id, "name": record.name},
    )


@dataclass(frozen=True, slots=True)
class StartNames:
    """The names of a start, together."""

    command_ids: CommandIds
    short_ids: ShortIds
    keys: StartKeys
    holders: NameHolders

    @classmethod
    def of(
        cls, registry: Registry, queries: Queries, *, command_ids: CommandIds, holders: NameHolders
    ) -> "StartNames":
        """Return those of a registry's processes."""
        short_ids = ShortIds(registry, queries)
        return cls(command_ids=command_ids, short_ids=short_ids, keys=StartKeys(queries), holders=holders)
