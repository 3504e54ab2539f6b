"""The one thread that writes the registry: takes what is pending, commits it in one transaction, tells so.

Pending rows are a dict by process id, newest wins: a slow disk makes transactions larger, never a queue longer
than the number of processes.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence

from outlive.store.rows import COLUMNS, StoredProcess

__all__ = ["RegistryWriter"]

_logger = logging.getLogger(__name__)

_PLACES = ", ".join("?" * len(COLUMNS))
_UPSERT = f"INSERT OR REPLACE INTO processes ({', '.join(COLUMNS)}) VALUES ({_PLACES})"  # noqa: S608 - our names
_RETRY_S = 1.0  # after a failed transaction (disk full): the rows stay pending


class RegistryWriter:
    """Owns the writing connection. `put`, `remove` and `count_to` may be called from any thread and never block."""

    def __init__(
        self, connection: sqlite3.Connection, on_commit: Callable[[list[StoredProcess]], None]
    ) -> None:
        """Write through `connection`; `on_commit` is called in the writer's thread after every commit."""
        self._connection = connection
        self._on_commit = on_commit
        self._changed = threading.Condition()
        self._rows: dict[str, StoredProcess] = {}
        self._writing: dict[str, StoredProcess] = {}
        self._removed: set[str] = set()
        self._removing: set[str] = set()
        self._counters: dict[str, int] = {}
        self._is_writing = False
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="outlive-registry", daemon=True)
        self._thread.start()

    def put(self, rows: Sequence[StoredProcess]) -> None:
        """Write these states of processes soon; older pending ones are forgotten.

        Together: the thread wakes with the first notice, and would wait for this lock before each further one.
        """
        ids = [row.record.process_id for row in rows]
        with self._changed:
            self._rows.update(zip(ids, rows, strict=True))
            self._removed.difference_update(ids)
            self._changed.notify()

    def remove(self, process_ids: list[str]) -> None:
        """Delete rows soon."""
        with self._changed:
            for process_id in process_ids:
                self._rows.pop(process_id, None)
            self._removed.update(process_ids)
            self._changed.notify()

    def count_to(self, name: str, value: int) -> None:
        """Remember a counter's value soon."""
        with self._changed:
            self._counters[name] = value
            self._changed.notify()

    def pending(self) -> dict[str, StoredProcess]:
        """Return what is not committed yet, by process id."""
        with self._changed:
            rows = {one: row for one, row in self._writing.items() if one not in self._removed}
            return {**rows, **self._rows}

    def removed(self) -> set[str]:
        """Return the ids whose rows are still there and must not be seen any more."""
        with self._changed:
            return (self._removed | self._removing).difference(self._rows)

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything put before is committed; False when that takes too long. Blocks."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._has_work() and not self._is_writing, timeout_s)

    def close(self, timeout_s: float = 10.0) -> None:
        """Commit what is pending, end the thread and close the connection. Blocks; may be called twice."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def _has_work(self) -> bool:
        return bool(self._rows or self._removed or self._counters)

    def _run(self) -> None:
        try:
            while self._write_batch():
                pass
        finally:
            self._connection.close()

    def _write_batch(self) -> bool:
        """Write what is pending, waiting for it; return whether to go on."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_work() or self._is_closing)
            if not self._has_work():
                return False
            self._is_writing = True
            self._writing, self._rows = self._rows, {}
            removed, self._removed = self._removed, set()
            self._removing = removed
            counters, self._counters = self._counters, {}
        written = list(self._writing.values())
        try:
            self._write(written, removed, counters)
        except sqlite3.Error:
            _logger.exception("the registry could not be written; it is tried again")
            with self._changed:
                self._rows = {**self._writing, **self._rows}
                self._removed |= removed
                self._counters = {**counters, **self._counters}
                self._writing, self._removing, self._is_writing = {}, set(), False
                if self._is_closing:
                    return False  # the rows are in the folders; the next server finds them there
                self._changed.wait_for(lambda: self._is_closing, _RETRY_S)
            return True
        self._on_commit(written)
        with self._changed:
            self._writing, self._removing, self._is_writing = {}, set(), False
            self._changed.notify_all()
        return True

    def _write(self, rows: list[StoredProcess], removed: set[str], counters: dict[str, int]) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(_UPSERT, [row.to_row() for row in rows])
            connection.executemany("DELETE FROM processes WHERE process_id = ?", [(one,) for one in removed])
            connection.executemany("INSERT OR REPLACE INTO counters VALUES (?, ?)", counters.items())
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
