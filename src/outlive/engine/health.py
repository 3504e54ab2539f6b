"""`Health`: whether commands can be started just now, and what is known of the places where they run."""

import asyncio
import time

from outlive.backends.contract import Backend, NodeState
from outlive.core.errors import BackendUnavailable
from outlive.engine.recovery.disk_watch import DiskWatch
from outlive.engine.recovery.reconciliation import Reconciliation
from outlive.store.registry import Registry

_FINDING_S = 1.0
_PROBE = "ready"  # a counter that is written to see whether the registry can be


class Health:
    """Answers probes. On the engine's loop only."""

    def __init__(
        self, backend: Backend, registry: Registry, *, disk: DiskWatch, reconciliation: Reconciliation
    ) -> None:
        """Take what a start depends on."""
        self._backend = backend
        self._registry = registry
        self._disk = disk
        self._reconciliation = reconciliation

    async def check(self) -> None:
        """Return when the keeper has answered and the registry was written just now: commands can be started.

        Raises:
            BackendUnavailable: One of them does not answer within its deadline (10 s at most; 1 s as long as something is
                being found again, which `details` show).
            OutliveError: What `disk` says of a state folder that cannot be written.
        """
        await self._disk.check()
        progress = self._reconciliation.progress
        try:
            async with asyncio.timeout(None if progress is None else _FINDING_S):
                await self._backend.status()
        except TimeoutError:
            text = "The keeper has not answered yet since this server was started."
            details = {} if progress is None else {"finding": progress.view()}
            raise BackendUnavailable("keeper_unavailable", text, details=details) from None
        self._registry.count_to(_PROBE, int(time.time()))
        await self._registry.flush()
        await self._disk.check()  # what the registry was refused is known now

    def nodes(self) -> dict[str, NodeState]:
        """Return what is known of other servers that run commands for this one, by name."""
        return self._backend.nodes()

    async def keeper_status(self) -> dict[str, object]:
        """Return what the keeper says about itself."""
        return await self._backend.status()
