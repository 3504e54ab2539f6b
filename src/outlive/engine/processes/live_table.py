"""The table of live processes: by key, and by what questions name: the connection and the principal.

On a shared server one caller's list, tools and stops look at that caller's processes, not at those of all callers.
"""

from collections.abc import Collection

from outlive.engine.processes.process import Process
from outlive.store.rows import ProcessFilter


class LiveTable:
    """Processes that can still change. Used on the event loop; no I/O.

    Attributes:
        by_key: They by the 16-byte form of their id. `enter` and `leave` alone change it.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self.by_key: dict[bytes, Process] = {}
        self._of_connection: dict[str, dict[bytes, Process]] = {}
        self._of_principal: dict[str, dict[bytes, Process]] = {}

    def enter(self, process: Process) -> None:
        """From now on a process is live, instead of another object of the same id if there is one."""
        if process.key in self.by_key:
            self.leave(process)
        self.by_key[process.key] = process
        self._of_principal.setdefault(process.principal, {})[process.key] = process
        if process.connection_id is not None:
            self._of_connection.setdefault(process.connection_id, {})[process.key] = process

    def leave(self, process: Process) -> bool:
        """From now on a process is not live any more; tell whether it was."""
        known = self.by_key.pop(process.key, None)
        if known is None:
            return False
        _remove(self._of_principal, known.principal, known.key)
        if known.connection_id is not None:
            _remove(self._of_connection, known.connection_id, known.key)
        return True

    def release(self, process: Process) -> None:
        """Let go of a process that cannot change any more."""
        if self.leave(process):
            process.close_logs()

    def of_connection(self, connection_id: str) -> list[Process]:
        """Return what a connection started, in no order; a copy."""
        return list(self._of_connection.get(connection_id, {}).values())

    def of_principal(self, principal: str) -> Collection[Process]:
        """Return what a principal started, over any connection, in no order: no copy, so go through it without an await."""
        return self._of_principal.get(principal, {}).values()

    def candidates(self, wanted: ProcessFilter) -> Collection[Process]:
        """Return those of which some may match, all that do among them, in no order; as `of_principal` no copy."""
        if wanted.connection_id is not None:
            return self._of_connection.get(wanted.connection_id, {}).values()
        if wanted.principal is not None:
            return self.of_principal(wanted.principal)
        return self.by_key.values()


def _remove(index: dict[str, dict[bytes, Process]], name: str, key: bytes) -> None:
    """Take a process out of an index, and its name with the last one: names come and go for ever."""
    others = index[name]
    del others[key]
    if not others:
        del index[name]
