"""The one thread that writes the registry: takes what is pending, commits it in one transaction, and reports
it.

Pending rows are a dict by process id, in which a newer row replaces an older one. So a slow disk makes
transactions larger, but never makes a queue longer than the number of processes. Reads are in `registry`.

The registry is an index and can be rebuilt from the process folders. So a file that is damaged, or of another
schema, is set aside rather than repaired. Reading and writing rows is the business of `registry` and
`writer`.
"""

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from urllib.parse import quote

from outlive.core.values import dataclass, field
from outlive.store.rows import COLUMNS, StoredProcess
from outlive.store.schema import SCHEMA, VERSION

AUDIT_LOG = "audit_log"  # the counter that names the audit log (`AuditTrail.log_number`)


def open_registry(
    path: str, *, now_s: int, takes_writes: Callable[[], bool] = lambda: True
) -> sqlite3.Connection:
    """Open the registry for writing; a file that cannot be used, or of another schema, is set aside.

    If the disk refuses writes, which `takes_writes` finds out, nothing is set aside and the error is raised;
    `open_in_memory` is for that case. A file that is set aside keeps its name plus ".damaged-<now_s>"; the
    caller rebuilds the rows from the folders.
    """
    try:
        return _open(path)
    except (sqlite3.DatabaseError, _AnotherSchema):
        if not takes_writes():
            raise  # the file is in order: the disk refuses writes
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(path + suffix, f"{path}{suffix}.damaged-{now_s}")
        return _open(path)


def peek_counter(path: str, name: str) -> int:
    """Return a counter of a registry that another program may be using; 0 where there is none.

    Changes nothing.
    """
    if not os.path.exists(path):
        return 0
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as connection:
            row = connection.execute("SELECT value FROM counters WHERE name = ?", [name]).fetchone()
    except sqlite3.Error:
        return 0
    return int(row[0]) if row else 0


def set_counter(path: str, name: str, value: int) -> None:
    """Set a counter in a registry that no server uses now.

    Do nothing without a registry, or without its counters.
    """
    if not os.path.exists(path):
        return
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE counters SET value = ? WHERE name = ?", [value, name])
        connection.commit()


class _AnotherSchema(sqlite3.DatabaseError):
    """The file has the tables of another schema."""


def open_in_memory(path: str) -> sqlite3.Connection:
    """Return a registry in memory with the content of the file `path`, as far as it can be read.

    The file is not touched.
    """
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    # Without a -shm file, which needs room on the disk, only what was checkpointed into the main file can be
    # read.
    for how in ("mode=ro", "immutable=1"):
        try:
            with contextlib.closing(sqlite3.connect(f"file:{quote(path)}?{how}", uri=True)) as kept:
                kept.backup(connection)
                return _prepare(connection)
        except sqlite3.Error:
            connection.close()
            connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    return _prepare(connection)


def _open(path: str) -> sqlite3.Connection:
    return _prepare(sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False))


def _prepare(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Make the tables of a new registry, check those of another one; close the connection if that fails."""
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # NORMAL: a killed program loses nothing. A machine crash may lose the newest rows, which the folders
        # hold.
        connection.execute("PRAGMA synchronous = NORMAL")
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version == 0:
            # Tables and version in one transaction: a kill leaves both or none.
            connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version != VERSION:
            raise _AnotherSchema  # noqa: TRY301 - the connection is closed below, as for every other failure
        # One read: a file that is damaged beyond its header fails here, and not at a client's first request.
        connection.execute("SELECT count(*) FROM counters").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


_logger = logging.getLogger(__name__)

_PLACES = ", ".join("?" * len(COLUMNS))
_UPSERT = f"INSERT OR REPLACE INTO processes ({', '.join(COLUMNS)}) VALUES ({_PLACES})"  # noqa: S608 - our names
_DELETE = "DELETE FROM processes WHERE process_id = ?"
# The file's own number of the audit log stays, so that a log that was removed is noticed. All other counters
# only grow.
_MERGE = f"""
    INSERT INTO counters VALUES (?, ?)
    ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value) WHERE name <> '{AUDIT_LOG}'
"""  # noqa: S608 - our name
# What a value raises that is no SQLite value, or a number of more than 64 bits.
_UNFIT = (sqlite3.ProgrammingError, sqlite3.InterfaceError, OverflowError, TypeError, ValueError)
# Result codes (sqlite.org/rescode.html) that say nothing about the file: its disk refuses writes.
_OF_THE_DISK = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
)
_RETRY_S = 1.0  # until a failed transaction (disk full) is tried again; its rows stay pending
# Rows are collected for so long: a transaction writes each page that it changes once, however many rows that
# are, and a thread that wakes for each row takes the interpreter lock from the event loop.
_COLLECT_S = 0.1


@dataclass(frozen=True, slots=True)
class RowChanges:
    """What one transaction writes: rows by process id, other ids whose rows go, and counters by name."""

    rows: dict[str, StoredProcess] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    counters: dict[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.rows or self.removed or self.counters)

    def update(self, newer: "RowChanges") -> None:
        """Add what came later: of what both say, its word counts."""
        self.removed.difference_update(newer.rows)
        self.removed.update(newer.removed)
        for process_id in newer.removed:
            self.rows.pop(process_id, None)
        self.rows.update(newer.rows)
        self.counters.update(newer.counters)


class RegistryWriter:
    """Owns the writing connection; commits what is pending ten times a second.

    `put`, `remove` and `count_to` may be called from any thread and never block.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        on_commit: Callable[[list[StoredProcess]], None],
        *,
        turn: AbstractContextManager[object] | None = None,
    ) -> None:
        """Write through `connection`; `on_commit` is called in the writer's thread after every commit.

        With `turn` the registry is in memory, and readers use the same connection in turns.
        """
        self.is_refused = False  # whether the disk refused the last transaction
        self._turn = contextlib.nullcontext() if turn is None else turn
        self._is_in_memory = turn is not None
        self._forgotten: set[str] = set()  # ids removed while in memory: the file may still have their rows
        self._move: tuple[Callable[[], sqlite3.Connection], Callable[[], None]] | None = None
        self._connection = connection
        self._on_commit = on_commit
        self._changed = threading.Condition()
        self._hurry = threading.Event()  # set while something waits for the commit of what is pending
        # What waits, and what is being written now: a failed transaction puts the latter back.
        self._pending = RowChanges()
        self._writing = RowChanges()
        self.writing_since: float | None = None  # monotonic seconds
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="outlive-registry", daemon=True)
        self._thread.start()

    def put(self, rows: Sequence[StoredProcess]) -> None:
        """Write these states of processes soon; they replace older pending ones."""
        self._add(RowChanges(rows={row.record.process_id: row for row in rows}))

    def remove(self, process_ids: list[str]) -> None:
        """Delete rows soon."""
        self._add(RowChanges(removed=set(process_ids)))

    def count_to(self, name: str, value: int) -> None:
        """Store a counter's value soon."""
        self._add(RowChanges(counters={name: value}))

    def _add(self, newer: RowChanges) -> None:
        with self._changed:
            self._pending.update(newer)
            self._changed.notify()

    def uncommitted(self) -> RowChanges:
        """Return what the file does not have yet."""
        found = RowChanges()
        with self._changed:
            found.update(self._writing)
            found.update(self._pending)
        return found

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything put before is committed, or the disk refuses it (`is_refused`).

        Blocks. Returns whether one of the two came within `timeout_s`.
        """
        with self._changed:
            if self._pending:
                self._hurry.set()
            # A refused disk would let every caller wait for the whole time: report that at once.
            return self._changed.wait_for(
                lambda: self.is_refused or not (self._pending or self._writing), timeout_s
            )

    def move(self, open_file: Callable[[], sqlite3.Connection], moved: Callable[[], None]) -> bool:
        """Move everything from memory into the file that `open_file` opens, and write there from now on.

        Blocks.

        Returns whether that was possible. Both callables run in the writer's thread, `moved` before anything
        else is written.
        """
        with self._changed:
            self._move = (open_file, moved)
            self._hurry.set()
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._move is None or self._is_closing)
            return not self._is_in_memory

    def close(self, timeout_s: float = 10.0) -> None:
        """Commit what is pending, end the thread and close the connection. Blocks; may be called twice."""
        with self._changed:
            self._is_closing = True
            self._hurry.set()
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while self._write_batch():
                pass
        finally:
            self._connection.close()

    def _write_batch(self) -> bool:
        """Wait for pending rows and write them; return whether to go on."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._is_closing or self._move is not None)
        self._hurry.wait(_COLLECT_S)
        with self._changed:
            if not self._is_closing:
                self._hurry.clear()
            if self._move is not None:
                self._carry_over(*self._move)
                self._move = None
                self._changed.notify_all()
            if not self._pending:
                return not self._is_closing
            self._writing, self._pending = self._pending, RowChanges()
        self.writing_since = time.monotonic()
        try:
            self._write_all(self._writing)
        except sqlite3.Error as error:
            self.writing_since = None
            if not self.is_refused:
                _logger.warning(
                    "the registry could not be written; it is tried again", extra={"reason": str(error)}
                )
            with self._changed:
                self.is_refused = (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _OF_THE_DISK
                self._writing.update(self._pending)
                self._pending, self._writing = self._writing, RowChanges()
                self._changed.notify_all()
                # Closing, the rows are in the folders: the next server finds them there.
                return not self._changed.wait_for(lambda: self._is_closing, _RETRY_S)
        self.writing_since = None
        self._on_commit([*self._writing.rows.values()])
        with self._changed:
            self.is_refused, self._writing = False, RowChanges()
            self._changed.notify_all()
        return True

    def _write_all(self, batch: RowChanges) -> None:
        """Write everything; a row that SQLite cannot hold is left out, and named: it costs no other one."""
        try:
            self._write(batch)
        except _UNFIT:
            for process_id, row in batch.rows.items():
                try:
                    self._write(RowChanges({process_id: row}))
                except _UNFIT:
                    _logger.exception("the registry cannot hold a process", extra={"process_id": process_id})
            self._write(RowChanges({}, batch.removed, batch.counters))

    def _write(self, batch: RowChanges) -> None:
        with self._turn, _transaction(self._connection) as connection:
            connection.executemany(_UPSERT, [row.to_row() for row in batch.rows.values()])
            connection.executemany(_DELETE, [(one,) for one in batch.removed])
            connection.executemany("INSERT OR REPLACE INTO counters VALUES (?, ?)", batch.counters.items())
        # The first read after a commit notes in the WAL's index how far it looks (sqlite.org/walformat.html,
        # section 2.3.1). On a disk that has been frozen meanwhile that is a page fault, in which this process
        # holds a lock on its own memory, and all of its threads stop.
        self._connection.execute("SELECT 1 FROM counters LIMIT 1").fetchone()
        if self._is_in_memory:
            self._forgotten = (self._forgotten | batch.removed).difference(batch.rows)

    def _carry_over(self, open_file: Callable[[], sqlite3.Connection], moved: Callable[[], None]) -> None:
        """Move the rows from memory into the file; if the disk refuses again, everything stays as it is."""
        try:
            file = open_file()
        except (sqlite3.Error, OSError):
            return
        try:
            with self._turn, _transaction(file):
                rows = self._connection.execute(f"SELECT {', '.join(COLUMNS)} FROM processes")  # noqa: S608 - our names
                file.executemany(_UPSERT, rows)
                file.executemany(_DELETE, [(one,) for one in self._forgotten])
                file.executemany(_MERGE, self._connection.execute("SELECT name, value FROM counters"))
        except sqlite3.Error:
            file.close()
            return
        moved()  # a reader may still use the connection in memory: it closes with the last reference
        self._connection, self._turn, self._is_in_memory = file, contextlib.nullcontext(), False
        self._forgotten = set()


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Commit what the block writes, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
