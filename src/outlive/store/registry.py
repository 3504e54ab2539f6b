"""The registry: which processes there are and were, in SQLite (WAL), for lists and for the time after their end.

An index, never the truth: the process folders are. Writes go through one thread (`writer`) and are seen by reads
at once, also before they are committed; reads run in another thread. Nothing here blocks the event loop.
"""

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from outlive.core.errors import BackendUnavailable, StoreCorrupt
from outlive.store.retention import Candidate
from outlive.store.rows import COLUMNS, ProcessFilter, StoredProcess
from outlive.store.schema import open_registry
from outlive.store.writer import RegistryWriter

__all__ = ["Registry"]

# Spelled out here because inside the class `list` is the method.
_Stored = list[StoredProcess]
_Candidates = list[Candidate]
_Rows = list[tuple[object, ...]]
_Values = list[object]

_SELECT = f"SELECT {', '.join(COLUMNS)} FROM processes"  # noqa: S608 - our own column names
_MAX_READS = 64  # reads waiting for the one reading thread; more wait in the loop
_DEADLINE_S = 10.0
# The size is what lies on disk: of a log with gaps no more than its limit is left.
_REMOVABLE = """
    SELECT process_id, coalesce(ended_ns, created_ns), CASE
        WHEN has_gaps AND output_limit NOT NULL THEN min(stdout_bytes + stderr_bytes, output_limit)
        ELSE stdout_bytes + stderr_bytes END
    FROM processes WHERE is_closed = 1 AND descendants = 0
"""


class Registry:
    """Rows of processes by id. `async with` opens it; leaving commits what is pending.

    Used from one event loop; `put` and `remove` return at once.
    """

    def __init__(self, path: str) -> None:
        """Keep the rows in the file `path`; `on_committed`, if set, is called on the loop with rows that are safe."""
        self._path = path
        self.on_committed: Callable[[_Stored], None] | None = None
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="outlive-registry-read")
        self._reads = asyncio.Semaphore(_MAX_READS)
        self._writer: RegistryWriter | None = None
        self._connection: sqlite3.Connection | None = None

    async def __aenter__(self) -> Self:
        """Open the file (set aside and begun anew when it is damaged) and start the writing thread.

        Raises:
            StoreCorrupt: Not even a new file can be used.
        """
        loop = asyncio.get_running_loop()

        def committed(rows: _Stored) -> None:
            if self.on_committed is not None and not loop.is_closed():
                loop.call_soon_threadsafe(self.on_committed, rows)

        def open_both() -> RegistryWriter:
            writing = open_registry(self._path, now_s=int(time.time()))
            self._connection = sqlite3.connect(
                self._path, isolation_level=None, timeout=_DEADLINE_S, check_same_thread=False
            )
            self._connection.execute("PRAGMA query_only = ON")
            return RegistryWriter(writing, committed)

        try:
            self._writer = await loop.run_in_executor(self._reader, open_both)
        except (sqlite3.Error, OSError) as error:
            raise StoreCorrupt("store_corrupt", f"The registry cannot be opened: {error}.") from error
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Commit what is pending and close."""
        writer, connection = self._writer, self._connection
        if writer is not None and connection is not None:
            loop = asyncio.get_running_loop()
            await asyncio.shield(loop.run_in_executor(self._reader, writer.close))
            await asyncio.shield(loop.run_in_executor(self._reader, connection.close))
        self._reader.shutdown(wait=False)

    def put(self, *stored: StoredProcess) -> None:
        """Keep these states of processes; committed within milliseconds, readable at once."""
        self._opened.put(stored)

    def remove(self, process_ids: Iterable[str]) -> None:
        """Forget processes: reads see them no more."""
        self._opened.remove([*process_ids])

    async def flush(self) -> None:
        """Return when everything put before is committed: then it survives SIGKILL.

        Raises:
            BackendUnavailable: The disk did not take it within 10 s.
        """
        writer = self._opened
        if not await asyncio.to_thread(writer.flush, _DEADLINE_S):
            raise BackendUnavailable("timeout", "The registry was not written within 10 s.")

    async def find(self, process_id: str) -> StoredProcess | None:
        """Return one process; None when the registry does not know it."""
        pending = self._opened.pending().get(process_id)
        if pending is not None or process_id in self._opened.removed():
            return pending
        rows = await self._select("WHERE process_id = ?", [process_id])
        return rows[0] if rows else None

    async def list(self, wanted: ProcessFilter, *, limit: int, without: Iterable[str] = ()) -> _Stored:
        """Return at most `limit` processes, newest first, leaving out the ids in `without`."""
        left_out = set(without)
        pending = {one: row for one, row in self._opened.pending().items() if one not in left_out}
        removed = self._opened.removed()
        condition, values = wanted.where()
        others = "process_id NOT IN (SELECT value FROM json_each(?)) ORDER BY process_id DESC LIMIT ?"
        rows = await self._select(
            f"WHERE {condition} AND {others}", [*values, json.dumps([*left_out, *pending, *removed]), limit]
        )
        rows += [row for row in pending.values() if wanted.matches(row.record)]
        rows.sort(key=lambda one: one.record.process_id, reverse=True)
        return rows[:limit]

    async def unfinished(self) -> _Stored:
        """Return the processes that were not closed when they were last written."""
        return await self._select("WHERE is_closed = 0", [])

    async def known_ids(self) -> set[str]:
        """Return the ids of all processes."""
        pending = set(self._opened.pending())  # before: what is committed meanwhile is among the rows
        rows = await self._read("SELECT process_id FROM processes", [])
        return {str(row[0]) for row in rows} | pending

    async def removable(self) -> _Candidates:
        """Return what retention may choose from: ended and closed, with nothing left of the tree."""
        rows = await self._read(_REMOVABLE, [])
        return [
            Candidate(str(process_id), int(str(ended)), int(str(size))) for process_id, ended, size in rows
        ]

    async def counter(self, name: str) -> int:
        """Return a counter's value; 0 when it was never set."""
        rows = await self._read("SELECT value FROM counters WHERE name = ?", [name])
        return int(str(rows[0][0])) if rows else 0

    def count_to(self, name: str, value: int) -> None:
        """Set a counter."""
        self._opened.count_to(name, value)

    @property
    def _opened(self) -> RegistryWriter:
        if self._writer is None:
            raise AssertionError("the registry is used inside `async with` only")
        return self._writer

    async def _select(self, condition: str, values: _Values) -> _Stored:
        rows = await self._read(f"{_SELECT} {condition}", values)
        return [StoredProcess.from_row(row) for row in rows]

    async def _read(self, query: str, values: _Values) -> _Rows:
        def ask() -> _Rows:
            if self._connection is None:
                raise AssertionError("the registry is used inside `async with` only")
            return self._connection.execute(query, values).fetchall()

        try:
            async with asyncio.timeout(_DEADLINE_S), self._reads:
                return await asyncio.get_running_loop().run_in_executor(self._reader, ask)
        except TimeoutError as error:
            raise BackendUnavailable("timeout", "The registry did not answer within 10 s.") from error
        except sqlite3.Error as error:
            raise StoreCorrupt("store_corrupt", f"The registry cannot be read: {error}.") from error
