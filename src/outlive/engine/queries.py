"""The questions about processes: live, find, list, read, wait. Changes nothing."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Literal

from outlive.core.cursor import Cursor
from outlive.core.errors import BackendUnavailable, ProcessNotFound
from outlive.core.identity import ProcessId, id_to_bytes, is_process_id
from outlive.core.layout import Layout
from outlive.core.lifecycle import State
from outlive.core.location import LOCAL
from outlive.core.process import ProcessRecord
from outlive.engine import process_waits as waiting
from outlive.engine.output_redaction import Redaction
from outlive.engine.process import Process
from outlive.engine.process_table import ProcessTable
from outlive.engine.reconciliation import Reconciliation
from outlive.engine.recovery import Recovery
from outlive.engine.resolve import clean_environment
from outlive.engine.settings import EngineSettings
from outlive.store.end_sentences import with_missing
from outlive.store.output_log import MAX_PREAD_BYTES, OutputChunk
from outlive.store.registry import Registry
from outlive.store.rows import ProcessFilter, StoredProcess

# Spelled out here because inside the class `list` is the method.
_Chunks = list[OutputChunk]
_Processes = list[Process]
_Records = list[ProcessRecord]
_Rows = list[StoredProcess]

_MAX_ENDED = 1000


class Queries:
    """One half of `Engine`: what can be known."""

    _layout: Layout
    _intake: ProcessTable
    _registry: Registry
    _recovery: Recovery
    finding: Reconciliation
    _recovered: set[str]
    redaction: Redaction
    _settings: EngineSettings

    @property
    def default_cwd(self) -> str:
        """The folder of commands that name none."""
        return self._settings.cwd

    @property
    def environment(self) -> dict[str, str]:
        """What commands start with, before their own additions."""
        return clean_environment(self._settings.environment)

    def live(self, *, principal: str | None = None) -> Iterable[Process]:
        """Return the processes that can still change: running, draining, or with open streams or descendants.

        Those of a principal only, if one is named. A finished one may be among them for some milliseconds, until its last
        state is committed.
        """
        return tuple(self._intake.table.candidates(ProcessFilter(principal=principal)))

    @property
    def default_backend(self) -> str:
        """The name of the backend where commands run that name none."""
        return self._settings.containers.backend

    def backend_of(self, process_id: ProcessId) -> str:
        """Return the name of the backend that has a live process."""
        process = self._intake.live.get(id_to_bytes(process_id))
        return LOCAL if process is None else process.location.backend

    async def find(self, process_id: str) -> Process:
        """Return a process by its id: the live object, or an ended one loaded again.

        Raises:
            ProcessNotFound: Nobody knows this id (or retention removed it).
            BackendUnavailable: It was started just before an earlier server died, and the keeper is silent.
        """
        if is_process_id(process_id):
            key = id_to_bytes(process_id)
            if not self.finding.is_over:
                await self.finding.one(ProcessId(process_id))
            elif key in self._intake.strangers:
                await self._recovery.catch_up()
            process = self._intake.live.get(key)
            if process is not None:
                return process
            stored = await self._stored(ProcessId(process_id))
            if stored is not None:
                stored = (await self._as_they_are([stored]))[0]
                return Process.from_stored(stored, self._layout.process(process_id), redaction=self.redaction)
        raise ProcessNotFound("process_not_found", f"No process {process_id[:40]!r} is known.")

    async def _stored(self, process_id: ProcessId) -> StoredProcess | None:
        row = await self._registry.find(process_id)
        if row is None or not (row.record.is_finished or self.finding.is_over):
            # Its folder knows more: the row was not written yet, or not brought up to date since the last server.
            found = await self._recovery.look_up(process_id)
            if self._intake.synced.is_set():
                row = found or row
            elif row is None and found is not None:
                if found.record.state in {
                    State.LOST,
                    State.FAILED_TO_START,
                }:  # only if the keeper does not have it
                    text = "The keeper has not told yet what became of this process."
                    raise BackendUnavailable("keeper_unavailable", text)
                row = found
        return None if row is None else self.finding.as_known(row)

    async def find_by(self, wanted: ProcessFilter) -> Process:
        """Return the newest process that matches (a command id, a pid, a connection's request id …).

        Raises:
            ProcessNotFound: There is none.
        """
        records = await self.list(wanted, limit=1)
        if not records:
            raise ProcessNotFound("process_not_found", "No such process is known.")
        return await self.find(records[0].process_id)

    async def list(self, wanted: ProcessFilter | None = None, *, limit: int = 50) -> _Records:
        """Return records, newest first, live and ended; the next page is `before=` the last one's id."""
        wanted = wanted or ProcessFilter()
        await self.finding.listed()
        # Taken before the rows are read: a process that is filed away meanwhile must not fall between the two.
        # Those of the caller alone, where it is named: what others have running costs the event loop nothing here.
        live = sorted(self._intake.table.candidates(wanted), key=lambda one: one.process_id, reverse=True)
        rows = await self._registry.list(wanted, limit=limit, without=[one.process_id for one in live])
        records = [self.finding.as_known(row).record for row in await self._as_they_are(rows)]
        found = 0
        for process in live:
            if wanted.matches(record := process.record):
                records.append(record)
                found += 1
                if found == limit:
                    break
        records.sort(key=lambda record: record.process_id, reverse=True)
        return records[:limit]

    async def read(
        self, process: Process, cursor: Cursor, limit_bytes: int = 65536, *, raw: bool = False
    ) -> _Chunks:
        """Return output of both streams from `cursor` on, in the order it was written.

        Zero or more chunks, at most 256 KiB; empty means "caught up", not "finished". A chunk with `is_gap` stands
        for output the log no longer holds; `raw` shows secrets, too. The next cursor is `OutputChunk.after(cursor, chunks)`.

        Cancellation: safe at any point; nothing is consumed.
        """
        log = process.raw_log if raw else process.log
        return log.read(cursor, min(limit_bytes, MAX_PREAD_BYTES))

    async def wait(self, process: Process, *, until: Literal["complete", "closed"] = "complete") -> None:
        """Return when the process is complete (ended, output whole) or closed (its streams ended too).

        Waits without a deadline of its own: put it under `asyncio.timeout`. Cancellation: safe.
        """
        if until == "complete":
            await waiting.until(process, lambda one: one.is_complete)
        else:
            await waiting.until(process, lambda one: one.is_closed)

    async def known(self) -> None:
        """Return when what lives is known after a restart: at once, mostly; a second after it when the keeper is silent."""
        await self.finding.listed()

    def may_live(self) -> Iterator[tuple[int | None, str]]:
        """Yield pid and process id of whatever may live here: also of what is being found again."""
        for process in self._intake.live.values():
            if not process.location.is_node:  # a pid on a node says nothing about this machine
                yield process.pid, process.process_id
        yield from self.finding.pids()

    def of_connection(self, connection_id: str) -> _Processes:
        """Return the live processes that a connection started, oldest first (also complete ones not yet closed)."""
        return _oldest_first(self._intake.table.of_connection(connection_id))

    def running_of_connection(self, connection_id: str) -> _Processes:
        """Return those of them that are not complete, oldest first."""
        live = self._intake.table.of_connection(connection_id)
        return _oldest_first([process for process in live if not process.is_complete])

    async def ended_of_connection(self, connection_id: str) -> _Processes:
        """Return the processes of a connection that are not live any more, oldest first (the newest 1000).

        Together with an `of_connection` right after it this misses nobody.
        """
        await self.finding.listed()
        rows = await self._registry.list(ProcessFilter(connection_id=connection_id), limit=_MAX_ENDED)
        rows = await self._as_they_are(rows)
        live = {process.process_id for process in self.of_connection(connection_id)}
        return [
            Process.from_stored(row, self._layout.process(row.record.process_id), redaction=self.redaction)
            for row in reversed(rows)
            if row.record.process_id not in live
        ]

    async def _as_they_are(self, rows: _Rows) -> _Rows:
        """Return ended processes with what their logs lack now: a row does not know who cut them since."""

        def look() -> _Rows:
            return [with_missing(row, self._layout.process(row.record.process_id)) for row in rows]

        return await asyncio.to_thread(look) if rows else rows

    def connections_waiting(self) -> set[str]:
        """Return the connections whose live, not detached processes were recovered from an earlier server."""
        return {
            process.connection_id
            for process in self._intake.live.values()
            if process.connection_id in self._recovered and process.connection_id and not process.is_detached
        }


def _oldest_first(processes: _Processes) -> _Processes:
    return sorted(processes, key=lambda process: process.process_id)
