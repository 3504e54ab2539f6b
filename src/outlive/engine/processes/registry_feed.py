"""Keeping the registry up to date without haste: changed processes are written together, some five times a second.

A short command is written once, at its end. What a crash of the server cuts off is in the process folders.
"""

import asyncio

from outlive.core.identity import id_to_bytes
from outlive.engine.processes.live_table import LiveTable
from outlive.engine.processes.process import Process
from outlive.store.registry import Registry
from outlive.store.rows import StoredProcess

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
