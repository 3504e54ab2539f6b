"""`Lookup`: from what a caller wrote to the one process that is meant; the same at every door.

What may stand there, in the order in which it counts: a process id; `@last`, the caller's newest start; a
command's id (`cmd_…`); a short id of the caller's project ("p7"); a name ("web"), of what lives before what
has ended; the end of an id, as lists show it; the pid of what lives. A word that could mean two processes
means none: the caller is asked for more of an id (`process_ambiguous`).

Whatever it finds is the caller's own (`Asker`): another principal's process is not distinguished from none.
What the caller may do to it is checked where it is done (`AuditedControls`).
"""

import asyncio
from collections.abc import Iterable

from outlive.backends.tree_inspection import living_main
from outlive.core.errors import InvalidRequest, ProcessNotFound
from outlive.core.identity import (
    COMMAND_ID_PREFIX,
    LAST,
    SHORT_LENGTH,
    end_of_id,
    is_name,
    is_process_id,
    number_of,
)
from outlive.core.lifecycle import NOT_ENDED, State
from outlive.core.process import ProcessRecord
from outlive.core.values import dataclass
from outlive.engine.processes.process import Process
from outlive.engine.queries import Queries
from outlive.store.rows import ProcessFilter

# Of as many of the newest processes an id's end is looked for: reading them takes some 20 ms, in a thread.
_RECENT = 1000
# Newest processes among which the newest visible one is: what comes before it are private ones, and shells of
# terminals.
_FEW = 50
_MOST_DIGITS = 10  # a pid is below 2**31; more digits are no number that SQLite need be asked for
_SHOWN_IDS = 5  # in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """The caller of a lookup.

    `project` is the folder that it works in; "" is none, and None says nothing of it: then names count that
    only one project has. `connection_id`: what is private to that connection is found, too.
    """

    principal: str
    project: str | None = None
    connection_id: str | None = None

    def sees(self, record: ProcessRecord) -> bool:
        """Tell whether a process is shown to this caller."""
        owner = record.owner
        is_own = self.connection_id is not None and owner.connection_id == self.connection_id
        return owner.principal == self.principal and (record.is_detached or is_own)


class Lookup:
    """Finds the process that a word means. On the engine's loop only.

    A name counts before the end of an id, and not after it: of a thousand processes one in thirty has an id
    that ends in the three letters of "web", and `stop web` must never be about that one. Six characters are
    what lists show of an id; a word of six that is a name, too, is therefore asked about.
    """

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def find(self, word: str, asker: Asker) -> Process:
        """Return the process that a word means to a caller.

        Raises:
            ProcessNotFound: It means none; the hint names one of that name in another project, if one lives.
            InvalidRequest: `process_ambiguous`: it could mean several.
            BackendUnavailable: As `Queries.find`.

        Cancellation: safe.
        """
        word = word.strip()
        if is_process_id(word):
            process = await self._queries.find(word)
            if asker.sees(process.record):
                return process
            raise _not_found(word)
        found = await self._records(word, asker)
        if not found:
            raise _not_found(word, await self._elsewhere(word, asker))
        if len(found) > 1:
            shown = ", ".join(sorted(found, reverse=True)[:_SHOWN_IDS])
            text = f"{word[:60]!r} may be any of {len(found)} processes."
            details = {"process_ids": sorted(found, reverse=True)}
            raise InvalidRequest(
                "process_ambiguous", text, hint=f"Name one by its id: {shown}.", details=details
            )
        return await self._queries.find(next(iter(found)))

    async def _records(self, word: str, asker: Asker) -> dict[str, ProcessRecord]:
        """Return all that a word could mean, by their ids.

        What counts first hides what counts later where that is safe.
        """
        if word == LAST:
            newest = [one for one in await self._visible(asker, limit=_FEW) if one.terminal is None]
            return _by_id(newest[:1])
        if word.startswith(COMMAND_ID_PREFIX):
            return _by_id((await self._visible(asker, in_project=False, command_id=word))[:1])
        if (number := number_of(word)) is not None:
            numbered = await self._visible(asker, number=number)
            # One id in a thousand ends in "p7": what the project does not know must not be another process by
            # chance.
            if numbered or len(word) < SHORT_LENGTH:
                return _by_id(numbered[:1])
        found = await self._named(word, asker) if is_name(word) else {}
        # A word that reads as what lists show of an id may be meant so, whatever else it is: neither may hide
        # the other.
        if not found or len(word) == SHORT_LENGTH:
            found |= await self._ending(word, asker)
        if word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS:
            found |= await self._of_pid(int(word), asker)
        return found

    async def _named(self, name: str, asker: Asker) -> dict[str, ProcessRecord]:
        """Return what lives under a name, else what ended last of it.

        Of several projects where the caller has named none.
        """
        living = await self._visible(asker, in_project=asker.project is not None, name=name, states=NOT_ENDED)
        if living:
            return _by_id(_preferred(living, asker))
        ended = await self._visible(asker, in_project=asker.project is not None, name=name, limit=_FEW)
        # What never ran hides nothing that did: its caller knows why.
        ended = [one for one in ended if one.state is not State.FAILED_TO_START] or ended
        newest: dict[str | None, ProcessRecord] = {}
        for one in ended:
            newest.setdefault(one.project, one)
        return _by_id(_preferred(newest.values(), asker))

    async def _ending(self, word: str, asker: Asker) -> dict[str, ProcessRecord]:
        if (end := end_of_id(word)) is None:
            return {}
        recent = await self._visible(asker, in_project=False, limit=_RECENT)
        return _by_id(one for one in recent if one.process_id.endswith(end))

    async def _of_pid(self, pid: int, asker: Asker) -> dict[str, ProcessRecord]:
        """Return what lives under a pid, checked with its start time: the kernel gives pids again, and to
        anyone.
        """
        living = await self._visible(asker, in_project=False, pid=pid, states=NOT_ENDED)
        found = []
        for record in living:
            process = await self._queries.find(record.process_id)
            main = await asyncio.to_thread(living_main, process.folder)
            if (
                main is not None and main.pid == pid
            ):  # a node's process has a pid of that machine, of another boot
                found.append(record)
        return _by_id(found)

    async def _visible(
        self,
        asker: Asker,
        *,
        in_project: bool = True,
        number: int | None = None,
        name: str | None = None,
        pid: int | None = None,
        command_id: str | None = None,
        states: Iterable[State] | None = None,
        limit: int = _FEW,
    ) -> list[ProcessRecord]:
        """Return what a caller may see of the newest that match, newest first.

        `in_project`: only those of the caller's project; for `@last` and short ids, a caller that has said
        nothing of a project has the one that no project is.
        """
        wanted = ProcessFilter(
            principal=asker.principal,
            project=(asker.project or "") if in_project else None,
            number=number,
            name=name,
            pid=pid,
            command_id=command_id,
            states=None if states is None else frozenset(states),
        )
        return [one for one in await self._queries.list(wanted, limit=limit) if asker.sees(one)]

    async def _elsewhere(self, word: str, asker: Asker) -> ProcessRecord | None:
        """Return a living process of that name in another of the caller's projects."""
        if asker.project is None or not is_name(word):
            return None
        living = await self._visible(asker, in_project=False, name=word, states=NOT_ENDED)
        return living[0] if living else None


def _not_found(word: str, elsewhere: ProcessRecord | None = None) -> ProcessNotFound:
    """Return the error for a word that means no process of the caller's.

    One of that name in another project stands in its hint.
    """
    hint, details = "", {}
    if elsewhere is not None:
        where = "no project" if elsewhere.project is None else f"the project {elsewhere.project}"
        hint = f"One of that name lives in {where}: {elsewhere.process_id}."
        details = {"process_id": elsewhere.process_id}
    text = f"There is no process {word[:60]!r}."
    return ProcessNotFound("process_not_found", text, hint=hint, details=details)


def _preferred(records: Iterable[ProcessRecord], asker: Asker) -> list[ProcessRecord]:
    """Return those of no project where the caller has named no project and there are some.

    Else all of them.
    """
    found = list(records)
    if asker.project is None:
        return [one for one in found if one.project is None] or found
    return found


def _by_id(records: Iterable[ProcessRecord]) -> dict[str, ProcessRecord]:
    return {one.process_id: one for one in records}
