"""The questions about processes: live, find, list, read, wait. Changes nothing.

`ConnectionProcesses`: which processes a connection has started, whichever server it was connected to then.

What a caller may do that lives in a process of ours: `check_reach`, the one rule for every verb, and what
goes with it.

A command that may do little must not get more by another one: whatever it can type into, signal or end is
bound at least as much as the process in whose tree it lives. Which processes it sees, its principal decides,
not this module.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial

from outlive.backends.contract import Backend
from outlive.core.command import Profile
from outlive.core.cursor import Cursor
from outlive.core.errors import AccessDenied, BackendUnavailable, CommandRefused, ProcessNotFound
from outlive.core.identity import SHORT_LENGTH, ProcessId, id_to_bytes, is_process_id
from outlive.core.layout import Layout
from outlive.core.lifecycle import State
from outlive.core.location import HERE, Location
from outlive.core.process import NOTHING, Observation, Owner, ProcessRecord, WaitUntil
from outlive.core.values import dataclass
from outlive.engine.processes import process as waiting
from outlive.engine.processes.output_redaction import Redaction
from outlive.engine.processes.process import Process
from outlive.engine.processes.process_table import ProcessTable
from outlive.engine.processes.question_watch import QuestionWatch
from outlive.engine.recovery.reconciliation import Reconciliation
from outlive.engine.recovery.recovery import Recovery
from outlive.store.end_sentences import with_missing
from outlive.store.output_log import MAX_PREAD_BYTES, OutputChunk
from outlive.store.registry import Registry
from outlive.store.rows import ProcessFilter, StoredProcess

_QUIET_S = 0.15  # as long as a pipeline's last program may take to be scheduled
_SETTLES_S = 2.0  # nobody waits longer for an answer than for what a tree that computes may still write

# Spelled out here because inside the class `list` is the method.
_Chunks = list[OutputChunk]
_Observations = list[Observation]
_Records = list[ProcessRecord]
_Rows = list[StoredProcess]


@dataclass(eq=False, slots=True)
class Queries:
    """What can be known of processes. On the engine's loop only."""

    layout: Layout
    backend: Backend
    table: ProcessTable
    registry: Registry
    recovery: Recovery
    reconciliation: Reconciliation
    redaction: Redaction
    questions: QuestionWatch

    def live(self, *, principal: str | None = None) -> Iterable[Process]:
        """Return the processes that can still change: running, draining, or with open streams or descendants.

        Those of a principal only, if one is named. A finished one may be among them for some milliseconds,
        until its last state is committed.
        """
        return tuple(self.table.processes.candidates(ProcessFilter(principal=principal)))

    def location_of(self, process_id: ProcessId) -> Location:
        """Return where a live process is; this machine for what is not live."""
        process = self.table.live.get(id_to_bytes(process_id))
        return HERE if process is None else process.base.location

    async def find(self, process_id: str) -> Process:
        """Return a process by its id: the live object, or an ended one loaded again.

        Raises:
            ProcessNotFound: This id is unknown (or retention removed it).
            BackendUnavailable: It was started just before an earlier server died, and the keeper is silent.
        """
        if is_process_id(process_id):
            key = id_to_bytes(process_id)
            if not self.reconciliation.is_over:
                await self.reconciliation.one(ProcessId(process_id))
            elif key in self.table.unknown:
                await self.recovery.catch_up()
            process = self.table.live.get(key)
            if process is not None:
                return process
            stored = await self._stored(ProcessId(process_id))
            if stored is not None:
                stored = (await rows_as_they_are(self.layout, [stored]))[0]
                return Process.from_stored(stored, self.layout.process(process_id), redaction=self.redaction)
        raise ProcessNotFound("process_not_found", f"No process {process_id[:40]!r} is known.")

    async def _stored(self, process_id: ProcessId) -> StoredProcess | None:
        row = await self.registry.find(process_id)
        if row is None or not (row.record.is_finished or self.reconciliation.is_over):
            # Its folder knows more: the row was not written yet, or not brought up to date since the last
            # server.
            found = await self.recovery.look_up(process_id)
            if self.table.synced.is_set():
                row = found or row
            elif row is None and found is not None:
                if found.record.state in {
                    State.LOST,
                    State.FAILED_TO_START,
                }:  # only if the keeper does not have it
                    text = "The keeper has not told yet what became of this process."
                    raise BackendUnavailable("keeper_unavailable", text)
                row = found
        return None if row is None else self.reconciliation.as_known(row)

    async def find_by(self, wanted: ProcessFilter) -> Process:
        """Return the newest process that matches (a command id, a pid, a connection's request id …).

        Raises:
            ProcessNotFound: There is none.
        """
        records = await self.list(wanted, limit=1)
        if not records:
            raise ProcessNotFound("process_not_found", "No such process is known.")
        return await self.find(records[0].process_id)

    async def list(
        self, wanted: ProcessFilter | None = None, *, limit: int = 50, may_lack: bool = False
    ) -> _Records:
        """Return records, newest first, live and ended; the next page is `before=` the last one's id.

        With `may_lack`, for a list that a person or an agent reads, what is in memory while the disk is
        silent.
        """
        wanted = wanted or ProcessFilter()
        await self.reconciliation.listed()
        # Taken before the rows are read: a process that is filed away meanwhile must not fall between the
        # two. Those of the caller alone, where it is named: what others have running costs the event loop
        # nothing here.
        live = sorted(self.table.processes.candidates(wanted), key=lambda one: one.process_id, reverse=True)
        rows = await self.registry.list(
            wanted, limit=limit, without=[one.process_id for one in live], may_lack=may_lack
        )
        records = [
            self.reconciliation.as_known(row).record for row in await rows_as_they_are(self.layout, rows)
        ]
        found = 0
        for process in live:
            if wanted.matches(record := process.record):
                records.append(record)
                found += 1
                if found == limit:
                    break
        records.sort(key=lambda record: record.process_id, reverse=True)
        return records[:limit]

    async def ended_since(self, moment: datetime, *, limit: int) -> _Records:
        """Return the newest `limit` records of what has ended since a moment, oldest first, once everything
        is known.

        They are from the folders, which know all of an owner; what was removed meanwhile is left out. All
        rows are looked at, 10 ms for ten thousand: for a question that is asked once in a server's life.
        """
        await self.reconciliation.over()
        rows = await self.registry.list(ProcessFilter(ended_since=moment), limit=limit)
        found = [await self.recovery.look_up(row.record.process_id) for row in reversed(rows)]
        return [one.record for one in found if one is not None]

    async def read(
        self, process: Process, cursor: Cursor, limit_bytes: int = 65536, *, raw: bool = False
    ) -> _Chunks:
        """Return output of both streams from `cursor` on, in the order it was written.

        Zero or more chunks, at most 256 KiB; empty means "caught up", not "finished". A chunk with `is_gap`
        stands for output the log no longer holds; `raw` shows secrets, too. The next cursor is
        `OutputChunk.after(cursor, chunks)`.

        Cancellation: safe at any point; nothing is consumed.
        """
        log = process.raw_log if raw else process.log
        return log.read(cursor, min(limit_bytes, MAX_PREAD_BYTES))

    async def wait(self, process: Process, *, until: WaitUntil = "complete") -> None:
        """Return when the process is complete (ended, output whole), closed (its streams ended too), waits
        for input, or asks.

        Waits without a deadline of its own: put it under `asyncio.timeout`. Cancellation: safe.
        """
        if until == "complete":
            await waiting.until(process, lambda one: one.status.is_complete)
        elif until == "input":
            await self.questions.until_waiting(process)
        elif until == "question":
            self.questions.watch(process)
            await waiting.until(process, lambda one: one.status.is_asking or one.status.is_complete)
        else:
            await waiting.until(process, lambda one: one.status.is_closed)

    async def settle(self, process: Process) -> None:
        """Return when the output of a complete process is whole: for an answer that shows it and is the last.

        What descendants write just after the end belongs to it: `cmd > >(tee log)`, a pipeline's last
        program. So this waits until the streams are closed, or until nothing has come for 150 ms while all
        that is left of the tree sleeps, as a server in the background does; at most 2 s.

        Cancellation: safe.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + _SETTLES_S
        while not process.status.is_closed and clock() < end:
            size = _size(process)
            try:
                async with asyncio.timeout_at(min(end, clock() + _QUIET_S)):
                    await waiting.until(process, partial(_has_changed, size))
            except TimeoutError:
                if not (await self.observe(process)).is_busy:
                    return

    async def known(self) -> None:
        """Return when what lives is known after a restart: at once, mostly.

        A second after it when the keeper is silent.
        """
        await self.reconciliation.listed()

    def may_live(self) -> Iterator[tuple[int | None, str]]:
        """Yield pid and process id of whatever may live here: also of what is being found again."""
        for process in self.table.live.values():
            if not process.base.location.is_elsewhere:  # a pid on a node says nothing about this machine
                yield process.pid, process.process_id
        yield from self.reconciliation.pids()

    async def observe(self, process: Process) -> Observation:
        """Look at the process's tree from outside: processor time, memory, pids, ports, whether it waits for
        input.

        Nothing of a process that is finished. A millisecond or less in a thread; of many, `usage` is cheaper.
        """
        if process.record.pid is None or process.status.is_finished:
            return NOTHING
        (seen,) = await self.backend.observe([process.process_id], has_stdin=process.may_ask)
        return seen

    async def usage(self, processes: Sequence[Process]) -> _Observations:
        """Look at the trees of many processes, in this order: as `observe`, but for whether they wait for
        input.
        """
        living = [one for one in processes if one.record.pid is not None and not one.status.is_finished]
        seen = await self.backend.observe([one.process_id for one in living], has_stdin=False)
        found = dict(zip((one.process_id for one in living), seen, strict=True))
        return [found.get(one.process_id, NOTHING) for one in processes]

    async def window_size(self, process: Process) -> tuple[int, int] | None:
        """Return rows and columns of a live process's terminal; None where there is none."""
        if not process.has_terminal or process.pid is None or process.status.is_ended:
            return None
        return await self.backend.window_size(process.process_id)


async def rows_as_they_are(layout: Layout, rows: _Rows) -> _Rows:
    """Return ended processes with what their logs lack now: a row does not know of a log that was cut
    since.
    """

    def look() -> _Rows:
        return [with_missing(row, layout.process(row.record.process_id)) for row in rows]

    return await asyncio.to_thread(look) if rows else rows


@dataclass(eq=False, slots=True)
class ConnectionProcesses:
    """Which live processes a connection has started. On the engine's loop only."""

    table: ProcessTable
    recovery: Recovery

    def live_of(self, connection_id: str) -> list[Process]:
        """Return the live processes that a connection started, oldest first (also complete ones not yet
        closed).
        """
        return _oldest_first(self.table.processes.of_connection(connection_id))

    def running_of(self, connection_id: str) -> list[Process]:
        """Return those of them that are not complete, oldest first."""
        live = self.table.processes.of_connection(connection_id)
        return _oldest_first([process for process in live if not process.status.is_complete])

    def waiting(self) -> set[str]:
        """Return the connections whose live, not detached processes were recovered from an earlier server."""
        return {
            process.connection_id
            for process in self.table.live.values()
            if process.connection_id in self.recovery.connections
            and process.connection_id
            and not process.base.is_detached
        }


def _size(process: Process) -> int:
    return process.status.stdout_bytes + process.status.stderr_bytes


def _has_changed(size: int, process: Process) -> bool:
    return process.status.is_closed or _size(process) != size


def _oldest_first(processes: list[Process]) -> list[Process]:
    return sorted(processes, key=lambda process: process.process_id)


_HINT = (
    "Act on processes of the caller's own profile or a stronger one; from outside of outlive every "
    "one can be reached."
)


def check_raw(by: Owner) -> None:
    """Let a caller see secrets: with the scope admin, and never one that lives in a process of ours.

    Raises:
        AccessDenied: `scope_missing`.
    """
    if by.inside is not None:
        text = "What was started here sees no secrets, whatever its token allows."
        hint = "Ask from outside of what outlive runs; without raw the answer comes with secrets hidden."
        raise AccessDenied("scope_missing", text, hint=hint, details={"inside": by.inside})
    if not by.is_admin:
        raise AccessDenied(
            "scope_missing",
            "Secrets are shown to callers with the scope 'admin' only.",
            hint="Show a token with that scope (`outlive token create --scope admin`), or ask without raw.",
            details={"needed": "admin"},
        )


async def record_inside(queries: Queries, process_id: str) -> ProcessRecord | None:
    """Return the process in whose tree a caller lives; of several possible ones that with the closest bounds.

    Args:
        queries: What knows processes.
        process_id: As the guard has found it; where it was removed, or is "" (which one cannot be told),
            every live process is possible. None is, where it is the end of an id: another server's process,
            whose token from here says what it may do.
    """
    if len(process_id) == SHORT_LENGTH:
        return None
    with contextlib.suppress(ProcessNotFound):
        return (await queries.find(process_id)).record
    records = [process.record for process in queries.live()]
    return max(records, key=lambda record: record.sandbox.profile.strength, default=None)


async def check_reach(queries: Queries, process: Process, by: Owner) -> None:
    """Let a caller act on a process; one that lives in a process of ours on none with a weaker profile.

    Raises:
        CommandRefused: `profile_too_weak`.
    """
    await _compare(queries, "The process's profile", process.identity_record.sandbox.profile, by)


async def check_request(queries: Queries, made_by: Owner, by: Owner) -> None:
    """Let a caller cancel a request of which no process is known yet: it may be about to start one.

    What it starts may have any profile that its own caller may have.

    Raises:
        CommandRefused: `profile_too_weak`.
    """
    if by.inside is None or by.inside == made_by.inside:
        return
    maker = None if made_by.inside is None else await record_inside(queries, made_by.inside)
    has = Profile.OPEN if maker is None else maker.sandbox.profile
    await _compare(queries, "The request's profile", has, by)


async def _compare(queries: Queries, what: str, has: Profile, by: Owner) -> None:
    if by.inside is None:
        return
    home = await record_inside(queries, by.inside)
    if home is None:
        return
    least = home.sandbox.profile
    if has.strength < least.strength:
        text = f"{what} {has.value!r} is weaker than {least.value!r}, in which the caller runs."
        raise CommandRefused("profile_too_weak", text, hint=_HINT, details={"least": least.value})
