"""The registry: which processes there are and were, in SQLite (WAL), for lists and for the time after their
end: `Registry`.

It is an index and never the truth: the process folders are. Writes go through one thread (`writer`) and are
visible to reads at once, also before they are committed; reads run in another thread. Nothing here blocks the
event loop.

`select_processes` chooses the index that finds the processes of a filter; it is pure, and `Registry` runs its
SQL. Each query names the index that it walks, newest id first, and stops at the limit. SQLite itself would
choose by counting columns, since it never gets statistics here. So a query whose answer is empty walks only
an empty range of an index.
"""

import asyncio
import contextlib
import functools
import json
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import product
from typing import Self, TypeVar

from outlive.core.command import BootTime
from outlive.core.errors import BackendUnavailable, StoreCorrupt
from outlive.core.identity import ProcessId, id_to_bytes, is_process_id
from outlive.core.lifecycle import NOT_ENDED, State
from outlive.store.retention import Candidate, RetentionClock
from outlive.store.rows import COLUMNS, ProcessFilter, StoredProcess
from outlive.store.schema import UNFINISHED
from outlive.store.span_sums import SpanBounds, SpanSums, select_sums
from outlive.store.writer import RegistryWriter, open_in_memory, open_registry

_Query = tuple[str, list[object]]
_Walk = tuple[str, str, list[object]]

_COLUMNS = ", ".join(f"processes.{column}" for column in COLUMNS)


def select_processes(wanted: ProcessFilter, *, limit: int, left_out: Sequence[str]) -> _Query:
    """Return a query for the columns of at most `limit` processes, newest first, and its parameters."""
    condition, values = _condition(wanted, left_out)
    pieces: list[str] = []
    parameters: list[object] = []
    for source, key, key_values in _walks(wanted):
        walked = "tagged" if "tagged" in source else "processes"
        pieces.append(
            f"SELECT * FROM (SELECT {_COLUMNS} FROM {source} WHERE {key}{condition}"  # noqa: S608 - our own words
            f" ORDER BY {walked}.process_id DESC LIMIT ?)"
        )
        parameters += [*key_values, *values, limit]
    query = " UNION ALL ".join(pieces)
    if len(pieces) > 1:
        query += " ORDER BY process_id DESC LIMIT ?"
        parameters.append(limit)
    return query, parameters


def sum_output(wanted: ProcessFilter, *, left_out: Sequence[str]) -> _Query:
    """Return a query for the output of all processes of a filter, a row of bytes for each range that it
    walks, and its parameters.
    """
    condition, values = _condition(wanted, left_out)
    pieces, parameters = [], []
    for source, key, key_values in _walks(wanted):
        what = "total(processes.stdout_bytes + processes.stderr_bytes)"
        pieces.append(f"SELECT {what} FROM {source} WHERE {key}{condition}")  # noqa: S608 - our own words
        parameters += [*key_values, *values]
    return " UNION ALL ".join(pieces), parameters


def _condition(wanted: ProcessFilter, left_out: Sequence[str]) -> _Query:
    condition, values = wanted.where()
    if left_out:
        condition += " AND process_id NOT IN (SELECT value FROM json_each(?))"
        values = [*values, json.dumps(left_out)]
    return condition, values


def _walks(wanted: ProcessFilter) -> list[_Walk]:
    """Return the ranges of indexes to walk: a source, the condition that bounds it, its parameters.

    The rarest condition is chosen first: few processes run, however long the history is.
    """
    # Every index of a principal begins with `is_detached`, so a filter for both kinds walks two ranges.
    states = _states(wanted)
    kinds = (False, True) if wanted.detached is None else (wanted.detached,)
    if wanted.principal is None:
        return [("processes", "", [])]  # only the server itself asks so: by a connection or a command's id
    if wanted.command_id is not None:
        return [("processes INDEXED BY processes_by_command_id", "", [])]
    if states is not None and states <= NOT_ENDED:
        key = f"{UNFINISHED} AND principal = ? AND "
        return [("processes INDEXED BY processes_unfinished", key, [wanted.principal])]
    if (index := _index_of_few(wanted)) is not None:
        return [(f"processes INDEXED BY {index}", "", [])]
    if wanted.tags:
        tag, content = next(iter(wanted.tags.items()))
        # CROSS JOIN: SQLite keeps this order (sqlite.org/optoverview.html, section 8.2).
        source = "process_tags AS tagged CROSS JOIN processes USING (process_id)"
        key = "owner = ? AND tag = ? AND content = ? AND "
        return [(source, key, [wanted.principal, tag, content])]
    if wanted.group is not None:
        return [("processes INDEXED BY processes_by_group", "", [])]
    if wanted.connection_id is not None:
        return [("processes INDEXED BY processes_by_connection", "", [])]
    if states is not None and State.EXITED not in states:
        source = "processes INDEXED BY processes_by_state"
        key = "principal = ? AND is_detached = ? AND state = ? AND state <> 'exited' AND "
        walks = product(kinds, sorted(states))
        return [(source, key, [wanted.principal, is_detached, state.value]) for is_detached, state in walks]
    if wanted.project is not None:
        return [("processes INDEXED BY processes_by_project", "", [])]
    source, key = "processes INDEXED BY processes_by_principal", "principal = ? AND is_detached = ? AND "
    return [(source, key, [wanted.principal, is_detached]) for is_detached in kinds]


def _index_of_few(wanted: ProcessFilter) -> str | None:
    """Return the index of a condition that few processes meet; None where the filter has none of these."""
    in_project = wanted.project is not None
    conditions = (
        (in_project and wanted.number is not None, "processes_by_number"),
        (in_project and wanted.key is not None, "processes_by_key"),
        (wanted.same_as is not None, "processes_by_run"),
        (wanted.name is not None, "processes_by_name"),
    )
    return next((index for is_wanted, index in conditions if is_wanted), None)


def _states(wanted: ProcessFilter) -> frozenset[State] | None:
    """Return the states that fit the filter; None where all do."""
    if wanted.active is None:
        return wanted.states
    fitting = frozenset(NOT_ENDED) if wanted.active else frozenset(State) - frozenset(NOT_ENDED)
    return fitting if wanted.states is None else fitting & wanted.states


# Named here because inside the class `list` is the method.
_Stored = list[StoredProcess]
_Candidates = list[Candidate]
_Rows = list[tuple[object, ...]]
_Values = list[object]
_T = TypeVar("_T")

_SELECT = f"SELECT {', '.join(COLUMNS)} FROM processes"  # noqa: S608 - our own column names
# What is closed may have descendants yet: the keeper reports their end.
_UNFINISHED = f"SELECT process_id, pid FROM processes INDEXED BY processes_unfinished WHERE {UNFINISHED}"  # noqa: S608 - our own words
_MAX_READS = 64  # reads waiting for the one reading thread; more wait in the loop
_DEADLINE_S = 10.0
# A commit takes milliseconds. On a frozen disk also a read may wait: it notes in the WAL's index how far it
# looks.
_SILENT_S = 3.0
_NEWEST = "SELECT coalesce(max(process_id), '') FROM processes"
_SLICE = 1000  # rows read at once where all are needed: 2 ms
# The size is what lies on disk: of a log with gaps no more than its limit is left.
_REMOVABLE = """
    SELECT process_id, coalesce(ended_ns, created_ns), CASE
        WHEN has_gaps AND output_limit NOT NULL THEN min(stdout_bytes + stderr_bytes, output_limit)
        ELSE stdout_bytes + stderr_bytes END, ended_boot_id, ended_boottime_ns
    FROM processes WHERE is_closed = 1 AND descendants = 0 AND process_id > ? ORDER BY process_id LIMIT ?
"""


class Registry:
    """Rows of processes by id. `async with` opens it; leaving it commits what is pending.

    To be used from one event loop; `put` and `remove` return at once.
    """

    def __init__(self, path: str, *, takes_writes: Callable[[], bool] = lambda: True) -> None:
        """Store the rows in the file `path`; `on_committed`, if set, is called on the loop with rows that are
        safe.

        `takes_writes` returns whether the disk can be written, when the file could not be opened; it may
        block.
        """
        self._path = path
        self._takes_writes = takes_writes
        self.on_committed: Callable[[_Stored], None] | None = None
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="outlive-registry-read")
        self._reads = asyncio.Semaphore(_MAX_READS)
        self._writer: RegistryWriter | None = None
        self._connection: sqlite3.Connection | None = None
        self._turn: AbstractContextManager[object] = contextlib.nullcontext()
        self._reading_since: float | None = None  # monotonic seconds
        self._lacked_at = -math.inf  # when a list last went without the file's rows, monotonic
        self._newest = ""  # no row has a later id, or has had one since the file was opened
        # True while the disk refuses writes; `move_to_disk` is to be called once it accepts them again.
        self.is_in_memory = False

    async def __aenter__(self) -> Self:
        """Open the file (a damaged one is set aside, and a new one begun) and start the writing thread.

        If the disk refuses writes, the registry is in memory, with what the file holds.

        Raises:
            StoreCorrupt: Not even a new file can be used.
        """
        loop = asyncio.get_running_loop()

        def committed(rows: _Stored) -> None:
            if self.on_committed is not None and not loop.is_closed():
                loop.call_soon_threadsafe(self.on_committed, rows)

        def open_both() -> RegistryWriter:
            try:
                writing = open_registry(self._path, now_s=int(time.time()), takes_writes=self._takes_writes)
                self._connection = _reading(self._path)
                self._newest = _newest_in(self._connection)
                return RegistryWriter(writing, committed)
            except (sqlite3.Error, OSError):
                if self._takes_writes():
                    raise
            # In memory one connection serves both threads, in turns.
            self._connection = open_in_memory(self._path)
            self._turn, self.is_in_memory = threading.Lock(), True
            self._newest = _newest_in(self._connection)
            return RegistryWriter(self._connection, committed, turn=self._turn)

        try:
            self._writer = await loop.run_in_executor(self._reader, open_both)
        except (sqlite3.Error, OSError) as error:
            raise StoreCorrupt("store_corrupt", f"The registry cannot be opened: {error}.") from error
        return self

    @property
    def is_refused(self) -> bool:
        """Whether the disk refused the last transaction: its rows stay in memory, and it is tried again."""
        return self._writer is not None and self._writer.is_refused

    @property
    def is_silent(self) -> bool:
        """Whether the disk has not answered a read or a write for 3 s.

        For 3 s after a list that lacks rows, too: its answer says so although the disk has just come back.
        """
        writing_since = None if self._writer is None else self._writer.writing_since
        return any(map(_is_late, (self._reading_since, writing_since))) or not _is_late(self._lacked_at)

    async def move_to_disk(self) -> None:
        """Move the registry from memory into its file; if the disk refuses that, it stays in memory."""
        writer, path, takes_writes = _opened(self._writer), self._path, self._takes_writes

        def moved() -> None:
            self._connection, self._turn = _reading(path), contextlib.nullcontext()

        open_file = functools.partial(open_registry, path, now_s=int(time.time()), takes_writes=takes_writes)
        self.is_in_memory = not await asyncio.to_thread(writer.move, open_file, moved)
        rows = await self._read(_NEWEST, [], _Rows)  # the file may have more than could be read of it before
        self._newest = max(self._newest, str(rows[0][0]))

    async def __aexit__(self, *_exception: object) -> None:
        """Commit what is pending, and close."""
        writer, connection = self._writer, self._connection
        if writer is not None and connection is not None:
            loop = asyncio.get_running_loop()
            # Shielded: a server that is cancelled must still commit what is pending.
            await asyncio.shield(loop.run_in_executor(self._reader, writer.close))
            await asyncio.shield(loop.run_in_executor(self._reader, connection.close))
        self._reader.shutdown(wait=False)

    def put(self, *stored: StoredProcess) -> None:
        """Store these states of processes; committed within 0.1 s, readable at once."""
        self._newest = max((self._newest, *(one.record.process_id for one in stored)))
        _opened(self._writer).put(stored)

    def remove(self, process_ids: Iterable[str]) -> None:
        """Remove processes: reads do not see them any more."""
        _opened(self._writer).remove([*process_ids])

    async def flush(self) -> None:
        """Return when everything put before is committed, so that it survives SIGKILL.

        Also when the disk refuses it (`is_refused`): then the rows wait in memory, and can be rebuilt from
        the folders.

        Raises:
            BackendUnavailable: The disk did not accept it within 10 s.
        """
        writer = _opened(self._writer)
        if not await asyncio.to_thread(writer.flush, _DEADLINE_S):
            raise BackendUnavailable("timeout", "The registry was not written within 10 s.")

    async def find(self, process_id: str) -> StoredProcess | None:
        """Return one process; None when the registry has none with this id."""
        if process_id > self._newest:
            return None  # as nearly always of a start: ids begin with their time
        # Rows that are not committed yet are newer than those in the file.
        newer = _opened(self._writer).uncommitted()
        if process_id in newer.rows or process_id in newer.removed:
            return newer.rows.get(process_id)
        rows = await self._read(f"{_SELECT} WHERE process_id = ?", [process_id], _stored)
        return rows[0] if rows else None

    async def list(
        self, wanted: ProcessFilter, *, limit: int, without: Iterable[str] = (), may_lack: bool = False
    ) -> _Stored:
        """Return at most `limit` processes, newest first, leaving out the ids in `without`.

        With `may_lack` those in memory alone while the disk is silent (`is_silent`).
        """
        pending, left_out = _uncommitted(self._writer, wanted, without)
        query, values = select_processes(wanted, limit=limit, left_out=left_out)
        rows = list(pending)
        try:
            patience_s = 0.0 if _is_late(self._reading_since) else _SILENT_S
            rows += await self._read(
                query, values, _stored, patience_s=patience_s if may_lack else _DEADLINE_S
            )
        except BackendUnavailable:
            if not may_lack:
                raise
            self._lacked_at = time.monotonic()
        rows.sort(key=lambda one: one.record.process_id, reverse=True)
        return rows[:limit]

    async def unfinished_pids(self) -> dict[bytes, int]:
        """Return the pids, by key, of those that were not finished when they were last committed; 0 where
        none was known.

        One look at an index, no records: 2 ms for a thousand.
        """
        rows = await self._read(_UNFINISHED, [], _Rows)
        return {
            id_to_bytes(ProcessId(str(name))): int(str(pid or 0))
            for name, pid in rows
            if is_process_id(str(name))
        }

    async def known_of(self, process_ids: Iterable[str]) -> dict[str, bool]:
        """Return those of these ids that have a row, and whether they are finished: nothing about them
        changes any more.

        A row that is being removed counts until it is gone: its folder may still be there.
        """
        asked = [*process_ids]
        newer = _opened(self._writer).uncommitted()  # before: what is committed meanwhile is among the rows
        query = (
            "SELECT process_id, is_closed AND NOT descendants FROM processes"
            " WHERE process_id IN (SELECT value FROM json_each(?))"
        )
        found = {
            str(name): bool(is_finished)
            for name, is_finished in await self._read(query, [json.dumps(asked)], _Rows)
        }
        return found | {one: newer.rows[one].record.is_finished for one in asked if one in newer.rows}

    async def removable(self, clock: RetentionClock) -> _Candidates:
        """Return what retention may choose from: ended, closed, without descendants.

        Times of the end by `clock`.
        """
        await self.flush()  # what ended a moment ago counts
        candidates: _Candidates = []
        after = ""
        # In slices, so that other queries get their turn in between.
        while found := await self._read(_REMOVABLE, [after, _SLICE], functools.partial(_candidates, clock)):
            candidates += found
            after = found[-1].process_id
        return candidates

    async def counter(self, name: str) -> int:
        """Return a counter's value, also before it is committed; 0 when it was never set."""
        # Asked before the file: what is committed meanwhile is found there.
        newer = _opened(self._writer).uncommitted()
        if name in newer.counters:
            return newer.counters[name]
        rows = await self._read("SELECT value FROM counters WHERE name = ?", [name], _Rows)
        return int(str(rows[0][0])) if rows else 0

    def count_to(self, name: str, value: int) -> None:
        """Set a counter; committed soon."""
        _opened(self._writer).count_to(name, value)

    async def _read(
        self,
        query: str,
        values: _Values,
        make: Callable[[_Rows], _T],
        *,
        patience_s: float = _DEADLINE_S,
    ) -> _T:
        """Return what `make` makes of the rows, in the reading thread: a thousand records take 20 ms."""

        def ask() -> _T:
            if self._connection is None:
                raise AssertionError("the registry is used inside `async with` only")
            self._reading_since = time.monotonic()
            try:
                with self._turn:
                    rows = self._connection.execute(query, values).fetchall()
            finally:
                self._reading_since = None
            return make(rows)

        try:
            async with asyncio.timeout(patience_s), self._reads:
                return await asyncio.get_running_loop().run_in_executor(self._reader, ask)
        except TimeoutError as error:
            raise BackendUnavailable(
                "timeout", f"The registry did not answer within {patience_s:.0f} s."
            ) from error
        except sqlite3.Error as error:
            raise StoreCorrupt("store_corrupt", f"The registry cannot be read: {error}.") from error


async def output_bytes(registry: Registry, wanted: ProcessFilter, *, without: Iterable[str] = ()) -> int:
    """Return how much all processes of a filter have written, without the ids in `without`: 1 ms for a
    thousand of them.
    """
    pending, left_out = _uncommitted(registry._writer, wanted, without)  # noqa: SLF001 -- a question of the registry, in its own module
    query, values = sum_output(wanted, left_out=left_out)
    rows = await registry._read(query, values, _Rows)  # noqa: SLF001 -- as above
    return sum(int(float(str(row[0]))) for row in rows) + sum(
        one.record.stdout_bytes + one.record.stderr_bytes for one in pending
    )


async def span_sums(
    registry: Registry, wanted: ProcessFilter, bounds: SpanBounds, *, without: Iterable[str] = ()
) -> SpanSums:
    """Return what the processes of a filter did in a span, without the ids in `without`: 5 us for each of
    them, at 20,000.
    """
    pending, left_out = _uncommitted(registry._writer, wanted, without)  # noqa: SLF001 -- as above
    found = SpanSums(others=[one.record for one in pending])
    query, values = select_sums(wanted, bounds, left_out=json.dumps(left_out))
    found.add(await registry._read(query, values, _Rows))  # noqa: SLF001 -- as above
    return found


def _uncommitted(
    writer: RegistryWriter | None, wanted: ProcessFilter, without: Iterable[str]
) -> tuple[_Stored, list[str]]:
    """Return what matches of that which is not committed yet, and the ids of the rows in the file that do not
    count.

    What is not committed replaces its row: a query leaves it out, and it is added behind.
    """
    newer, left_out = _opened(writer).uncommitted(), set(without)
    found = [row for one, row in newer.rows.items() if one not in left_out and wanted.matches(row.record)]
    return found, [*left_out.union(newer.rows, newer.removed)]


def _is_late(since: float | None) -> bool:
    return since is not None and since < time.monotonic() - _SILENT_S


def _opened(writer: RegistryWriter | None) -> RegistryWriter:
    if writer is None:
        raise AssertionError("the registry is used inside `async with` only")
    return writer


def _reading(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=_DEADLINE_S, check_same_thread=False)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _newest_in(connection: sqlite3.Connection) -> str:
    return str(connection.execute(_NEWEST).fetchone()[0])


def _stored(rows: _Rows) -> _Stored:
    return [StoredProcess.from_row(row) for row in rows]


def _candidates(clock: RetentionClock, rows: _Rows) -> _Candidates:
    found = []
    for process_id, ended, size, boot, since in rows:
        moment = None if boot is None else BootTime(str(boot), int(str(since)))
        found.append(Candidate(str(process_id), clock.at(moment, wall_ns=int(str(ended))), int(str(size))))
    return found
