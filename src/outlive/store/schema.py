"""The registry's tables, and how an older file is brought to the newest version: migrations by `PRAGMA user_version`.

The registry is an index and can be rebuilt from the process folders. So a file that is damaged, or that a newer program wrote,
is set aside rather than repaired. Reading and writing rows is the business of `registry` and `writer`.
"""

import contextlib
import os
import sqlite3
from collections.abc import Callable
from urllib.parse import quote

AUDIT_LOG = "audit_log"  # the counter that names the audit log (`AuditTrail.log_number`)

# One script for each version; a released one never changes. The columns are `rows.COLUMNS`, in that order.
MIGRATIONS = (
    # 1: one row for each process. Partial indexes: most processes have no connection or command id, and are finished.
    """
    CREATE TABLE processes (
        process_id TEXT PRIMARY KEY NOT NULL,
        command_id TEXT,
        principal TEXT NOT NULL,
        connection_id TEXT,
        request_id TEXT,
        command TEXT NOT NULL,
        shell TEXT,
        cwd TEXT NOT NULL,
        stdio TEXT NOT NULL,
        stdin TEXT NOT NULL,
        state TEXT NOT NULL,
        pid INTEGER,
        cause TEXT NOT NULL,
        exit_code INTEGER,
        exit_signal INTEGER,
        error TEXT,
        created_ns INTEGER NOT NULL,
        started_ns INTEGER,
        ended_ns INTEGER,
        stdout_bytes INTEGER NOT NULL,
        stderr_bytes INTEGER NOT NULL,
        complete_stdout INTEGER,
        complete_stderr INTEGER,
        is_complete INTEGER NOT NULL,
        is_closed INTEGER NOT NULL,
        has_gaps INTEGER NOT NULL,
        descendants INTEGER NOT NULL,
        is_detached INTEGER NOT NULL,
        timeout_s REAL,
        grace_s REAL NOT NULL,
        output_limit INTEGER,
        tags TEXT,
        group_name TEXT
    ) WITHOUT ROWID;
    CREATE INDEX processes_by_connection ON processes (connection_id, process_id) WHERE connection_id NOT NULL;
    CREATE INDEX processes_by_command_id ON processes (command_id) WHERE command_id NOT NULL;
    CREATE INDEX processes_unfinished ON processes (process_id) WHERE is_closed = 0;
    CREATE TABLE counters (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) WITHOUT ROWID;
    """,
    # 2: the profile in which a process runs, and the names of its secret variables.
    """
    ALTER TABLE processes ADD COLUMN sandbox TEXT;
    ALTER TABLE processes ADD COLUMN secret_names TEXT;
    """,
    # 3: processes that are the shell of a terminal.
    """
    ALTER TABLE processes ADD COLUMN terminal TEXT;
    """,
    # 4: processes that run elsewhere, in a container or on a node.
    """
    ALTER TABLE processes ADD COLUMN location TEXT;
    """,
    # 5: the end by the clock since boot, by which records age (`retention`).
    """
    ALTER TABLE processes ADD COLUMN ended_boot_id TEXT;
    ALTER TABLE processes ADD COLUMN ended_boottime_ns INTEGER;
    """,
    # 6: output that was lost.
    """
    ALTER TABLE processes ADD COLUMN lost_bytes INTEGER;
    """,
    # 7: an index for each filter of a list (`registry.select_processes`). Tags are in a table of their own, which triggers
    # keep up to date, so that they can be indexed.
    """
    CREATE INDEX processes_by_principal ON processes (principal, is_detached, process_id);
    CREATE INDEX processes_by_state ON processes (principal, is_detached, state, process_id);
    CREATE INDEX processes_by_pid ON processes (principal, pid, process_id) WHERE pid NOT NULL;
    CREATE INDEX processes_by_group ON processes (principal, group_name, process_id) WHERE group_name NOT NULL;
    CREATE INDEX processes_left ON processes (principal, process_id) WHERE descendants > 0;
    CREATE TABLE process_tags (
        owner TEXT NOT NULL,
        tag TEXT NOT NULL,
        content TEXT NOT NULL,
        process_id TEXT NOT NULL,
        PRIMARY KEY (owner, tag, content, process_id)
    ) WITHOUT ROWID;
    CREATE INDEX process_tags_by_process ON process_tags (process_id);
    INSERT INTO process_tags
        SELECT principal, one.key, one.value, process_id FROM processes, json_each(tags) AS one WHERE tags NOT NULL;
    CREATE TRIGGER processes_tagged AFTER INSERT ON processes BEGIN
        DELETE FROM process_tags WHERE process_id = new.process_id;
        INSERT INTO process_tags SELECT new.principal, key, value, new.process_id FROM json_each(new.tags);
    END;
    CREATE TRIGGER processes_untagged AFTER DELETE ON processes BEGIN
        DELETE FROM process_tags WHERE process_id = old.process_id;
    END;
    """,
    # 8: how many secrets are redacted in the command.
    """
    ALTER TABLE processes ADD COLUMN redacted INTEGER;
    """,
)


def open_registry(
    path: str, *, now_s: int, takes_writes: Callable[[], bool] = lambda: True
) -> sqlite3.Connection:
    """Open the registry for writing at the newest version; a file that cannot be used is set aside.

    If the disk refuses writes, which `takes_writes` finds out, nothing is set aside and the error is raised; `open_in_memory`
    is for that case. A file that is set aside keeps its name plus ".damaged-<now_s>"; the caller rebuilds the rows from the
    folders.
    """
    try:
        return _open(path)
    except (sqlite3.DatabaseError, _NewerVersion):
        if not takes_writes():
            raise  # the file is in order: the disk refuses writes
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(path + suffix, f"{path}{suffix}.damaged-{now_s}")
        return _open(path)


def peek_counter(path: str, name: str) -> int:
    """Return a counter of a registry that another program may be using; 0 where there is none. Changes nothing."""
    if not os.path.exists(path):
        return 0
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as connection:
            row = connection.execute("SELECT value FROM counters WHERE name = ?", [name]).fetchone()
    except sqlite3.Error:
        return 0
    return int(row[0]) if row else 0


def set_counter(path: str, name: str, value: int) -> None:
    """Set a counter in a registry that no server uses now; do nothing without a registry, or without its counters."""
    if not os.path.exists(path):
        return
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE counters SET value = ? WHERE name = ?", [value, name])
        connection.commit()


class _NewerVersion(Exception):
    """A newer program wrote the file."""


def open_in_memory(path: str) -> sqlite3.Connection:
    """Return a registry in memory with the content of the file `path`, as far as it can be read; the file is not touched."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    # Without a -shm file, which needs room on the disk, only what was checkpointed into the main file can be read.
    for how in ("mode=ro", "immutable=1"):
        try:
            with contextlib.closing(sqlite3.connect(f"file:{quote(path)}?{how}", uri=True)) as kept:
                kept.backup(connection)
                return _prepare(connection)
        except (sqlite3.Error, _NewerVersion):
            connection.close()
            connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    return _prepare(connection)


def _open(path: str) -> sqlite3.Connection:
    return _prepare(sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False))


def _prepare(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Bring a registry to the newest version; close the connection if that fails."""
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # NORMAL: a killed program loses nothing. A machine crash may lose the newest rows, which the folders hold.
        connection.execute("PRAGMA synchronous = NORMAL")
        # Counted from 1: as many scripts have been applied to this file.
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > len(MIGRATIONS):
            raise _NewerVersion  # noqa: TRY301 - the connection is closed below, as for every other failure
        for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
            # Script and version in one transaction: a kill leaves the old version complete or the new one.
            connection.executescript(f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {number}; COMMIT;")
        # One read: a file that is damaged beyond its header fails here, and not at a client's first request.
        connection.execute("SELECT count(*) FROM counters").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection
