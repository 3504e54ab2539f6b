"""A copy of the registry that fits the process folders of a backup: `RegistryCopy`.

It is taken before the folders are read, by SQLite's online backup (sqlite.org/backup.html), which waits for
no writer and no reader. A log may then be longer than its row knows, which the next server finds in the
folder; it is never shorter. Rows of processes that have been removed meanwhile are taken out again.

The copy is in memory: a row has a kilobyte, and a backup that is killed leaves no file with commands in it.
"""

import contextlib
import json
import os
import sqlite3
from collections.abc import Collection
from urllib.parse import quote

from outlive.store.writer import AUDIT_LOG

_WAIT_S = 10.0  # for a writer that has the file to itself, at a checkpoint


class RegistryCopy:
    """The registry as it was when this was made; `close` it in the end."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        self._is_there = os.path.exists(path)
        if not self._is_there:
            return
        try:
            kept = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=_WAIT_S)
            with contextlib.closing(kept):
                kept.backup(self._connection)
                self._connection.execute("SELECT count(*) FROM processes").fetchone()
        except sqlite3.Error:
            self._is_there = False

    def content(self, process_ids: Collection[str], *, forgets_audit: bool = False) -> bytes | None:
        """Return the file with the rows of these processes only; None where there is none.

        With `forgets_audit` it knows of no audit log: one that is left out of the backup was not removed by
        an attacker.
        """
        if not self._is_there:
            return None
        # As one parameter: SQLite takes 32766 variables at most (sqlite.org/limits.html), and there may be
        # more processes.
        kept = json.dumps(sorted(process_ids))
        delete = "DELETE FROM processes WHERE process_id NOT IN (SELECT value FROM json_each(?))"
        self._connection.execute(delete, [kept])
        if forgets_audit:
            self._connection.execute("DELETE FROM counters WHERE name = ?", [AUDIT_LOG])
        return self._connection.serialize()

    def close(self) -> None:
        """Let go of the memory."""
        self._connection.close()
