"""`NameHolders`: no two processes that live in a project of a principal have one name.

Nothing is kept but locks: which process has a name stands in its record, so that the next server finds it,
however this one ended. What finds a process by its name is `engine.lookup`.
"""

import contextlib
from collections.abc import Callable
from typing import Protocol

from outlive.core.command import Command
from outlive.core.errors import InvalidState
from outlive.core.lifecycle import NOT_ENDED
from outlive.core.process import Owner
from outlive.core.values import dataclass, field
from outlive.engine.processes.process import Process
from outlive.engine.queries import Queries
from outlive.engine.semaphores import Semaphores
from outlive.engine.starts.names import CommandIds, Place, ShortIds, StartKeys
from outlive.store.registry import Registry
from outlive.store.rows import ProcessFilter

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
