"""Keeping the registry up to date without haste: changed processes are written together, some five times a second.

A short command is written once, at its end. What a crash of the server cuts off is in the process folders.

The table of live processes: by key, and by what questions name: the connection and the principal.

On a shared server one caller's list, tools and stops look at that caller's processes, not at those of all callers.
"""

import asyncio
from collections.abc import Collection

from outlive.core.errors import LimitExceeded
from outlive.core.identity import id_to_bytes
from outlive.engine.processes.process import Process
from outlive.store.registry import Registry
from outlive.store.rows import ProcessFilter, StoredProcess


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
        """From now on a process is not live any more; return whether it was."""
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

    def check_count(self, principal: str, most: int | None) -> None:
        """Let a principal start one more process, or wait for its turn.

        Raises:
            LimitExceeded: `process_limit`: `most` of them run or wait already.
        """
        known = self._of_principal.get(principal, {})
        if most is None or len(known) < most:
            return  # as nearly always: which of them have ended is asked only when there are as many
        count = sum(not one.is_ended for one in known.values())
        if count >= most:
            raise LimitExceeded(
                "process_limit",
                f"{count} processes of this principal run or wait already, and no more than {most} may.",
                hint="Wait until some end, cancel some, or raise --max-processes.",
                details={"processes": count, "limit": most},
            )

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


_PAUSE_S = 0.2
_REGISTRY_FEED_SLICE = 100  # snapshots in one turn of the loop: about 2 ms


class RegistryFeed:
    """Collects changed processes; lets go of finished ones when their last state is committed."""

    def __init__(self, registry: Registry, live: LiveTable) -> None:
        """Nothing has changed yet."""
        self._registry = registry
        self._live = live
        self._changed: dict[bytes, Process] = {}
        self._timer: asyncio.TimerHandle | None = None

    def note(self, process: Process) -> None:
        """Write this process's state soon."""
        self._changed[process.key] = process
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE_S, self._write_some)

    def forget(self, process: Process) -> None:
        """Write nothing more of a finished process, and let go of it: it is being removed."""
        self._changed.pop(process.key, None)
        self._live.release(process)

    async def close(self) -> None:
        """Hand over what is left; the registry commits it when it closes."""
        if self._timer is not None:
            self._timer.cancel()
        while self._changed:
            self._write_some()
            await asyncio.sleep(0)
        if self._timer is not None:
            self._timer.cancel()

    def committed(self, rows: list[StoredProcess]) -> None:
        """Let go of the processes whose last state is safe now."""
        for row in rows:
            if row.record.is_finished:
                process = self._live.by_key.get(id_to_bytes(row.record.process_id))
                if process is not None and process.is_finished and process.key not in self._changed:
                    self._live.release(process)

    def _write_some(self) -> None:
        keys = list(self._changed)[:_REGISTRY_FEED_SLICE]
        if keys:
            self._registry.put(*[self._changed.pop(key).stored for key in keys])
        again = asyncio.get_running_loop().call_later
        self._timer = again(0 if self._changed else _PAUSE_S, self._write_some) if keys else None
