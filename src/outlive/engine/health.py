"""`Health`: whether commands can be started just now, and what is known of the places where they run.

What keeps the state folder from being written: `DiskWatch`, the one place that every door asks (decision 136).

A server whose disk is full, read-only or gone lives on: it reads, ends commands and removes them, starts nothing, and says
`degraded`. Once the disk takes writes again the registry goes back into its file, and everything is as before.
"""

import asyncio
import logging
import os
import time

from outlive.backends.contract import Backend, NodeState
from outlive.core.errors import BackendUnavailable, OutliveError, StoreCorrupt, error_from_slug
from outlive.core.hints import MEANINGS
from outlive.core.layout import Degraded
from outlive.engine.recovery.reconciliation import Reconciliation
from outlive.keeper.common.disk import look_at, probe
from outlive.store.registry import Registry

_logger = logging.getLogger(__name__)

_LOOK_S = 1.0  # one system call in a thread


class DiskWatch:
    """Looks at the state folder's disk once a second. Used from the engine's loop.

    Attributes:
        degraded: Why nothing can be written now; None: everything can.
    """

    def __init__(self, root: str, registry: Registry) -> None:
        """Name the state folder; nothing is looked at yet."""
        self._root = root
        self._registry = registry
        self._identity: tuple[int, int] | None = None
        self._turn = asyncio.Lock()
        self.degraded: Degraded | None = None

    async def open(self) -> None:
        """Take the state folder as it is now: another one in its place later on is not ours."""
        self._identity = await asyncio.to_thread(_identity, self._root)
        await self.look()

    async def look(self) -> Degraded | None:
        """Look now; return what is found, which is reported from now on. A registry in memory is put back into its file.

        By trying where the registry was refused: a quota, or an error of the disk, is not seen otherwise.
        """
        async with self._turn:
            is_doubtful = self._registry.is_refused or self._registry.is_in_memory
            found = await asyncio.to_thread(self._find, is_doubtful=is_doubtful)
            if found is None and self._registry.is_in_memory:
                await self._registry.move_to_disk()
                if self._registry.is_in_memory:
                    found = "disk_full"  # it has room again, but not for all of it
        if found != self.degraded:
            if found is None:
                _logger.warning("the state folder can be written again")
            else:
                _logger.warning("the state folder cannot be written", extra={"degraded": found})
        self.degraded = found
        return found

    def view(self) -> dict[str, str]:
        """Return the member that answers have while the disk takes nothing: `degraded`; else none."""
        return {} if self.degraded is None else {"degraded": self.degraded}

    def sentence(self) -> str:
        """Return the same for people, in one line; empty while everything is as it should be."""
        if self.degraded is None:
            return ""
        error = self._error(self.degraded)
        return f"degraded: {error.code}. {error.message} {error.hint}"

    async def check(self) -> None:
        """Look now.

        Raises:
            OutliveError: `disk_full`, `read_only` or `folder_gone`.
        """
        if (found := await self.look()) is not None:
            raise self._error(found)

    @staticmethod
    def _error(found: Degraded) -> OutliveError:
        return error_from_slug(found, MEANINGS[found])

    async def run(self) -> None:
        """Look from time to time, for ever."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                await self.look()
            except (OSError, StoreCorrupt) as error:
                _logger.warning("the state folder cannot be looked at", extra={"reason": str(error)})

    def _find(self, *, is_doubtful: bool) -> Degraded | None:
        if _identity(self._root) != self._identity:
            return "folder_gone"
        return probe(self._root) if is_doubtful else look_at(self._root)


def _identity(root: str) -> tuple[int, int] | None:
    try:
        found = os.stat(root)
    except OSError:
        return None
    return found.st_dev, found.st_ino


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
