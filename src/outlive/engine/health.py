"""`Health`: whether commands can be started just now, and what is known of the places where they run.

What keeps the state folder from being written: `DiskWatch`, the one place that every door asks (decision
136).

A server whose disk is full, read-only or gone lives on: it reads, ends commands and removes them, starts
nothing, and says `degraded`. Once the disk takes writes again the registry goes back into its file, and
everything is as before.
"""

import asyncio
import contextlib
import logging
import math
import os
import time

from outlive.backends.contract import Backend, NodeState
from outlive.backends.keeper_link import identity_of
from outlive.core.errors import BackendUnavailable, OutliveError, StoreCorrupt, error_from_slug
from outlive.core.hints import MEANINGS
from outlive.core.layout import Degraded, Layout
from outlive.core.values import dataclass
from outlive.engine.recovery.reconciliation import Reconciliation
from outlive.kernel.disk import look_at_space, probe
from outlive.kernel.folder_identity import moved_to
from outlive.store.registry import Registry

_logger = logging.getLogger(__name__)

_LOOK_S = 1.0  # how old what is answered may be; a look is a few system calls in a thread


class DiskWatch:
    """Looks at the state folder and its disk when a request needs it, and while something is wrong.

    Used from the engine's loop.
    """

    def __init__(self, root: str, registry: Registry) -> None:
        self._root = root
        self._folders = (Layout(root).waiting, Layout(root).notes)
        self._registry = registry
        self._identity: tuple[int, int] | None = None
        self._folder = -1
        self._is_wanted = asyncio.Event()
        self._has_looked = asyncio.Event()
        self._looked_at = math.inf  # until it is open there is nothing to look at
        self._turn = asyncio.Lock()
        self._found: Degraded | None = None
        self.moved: asyncio.Future[str]  # the folder's new path, once it was moved
        self.free_bytes = 0  # of the file system, for this user, at the last look

    @property
    def degraded(self) -> Degraded | None:
        """Why nothing can be written now; None: everything can."""
        return "disk_silent" if self._registry.is_silent else self._found

    async def open(self) -> None:
        """Take the state folder as it is now: another one in its place later on is not ours."""
        self._looked_at = -math.inf
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        self._folder = await asyncio.to_thread(os.open, self._root, flags)
        self._identity = await asyncio.to_thread(identity_of, self._root)
        self.moved = asyncio.get_running_loop().create_future()
        await self.look()

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._folder)

    async def look(self) -> Degraded | None:
        """Look now; return what is found, which is reported from now on.

        A registry in memory is put back into its file.

        By trying where the registry was refused: a quota, or an error of the disk, is not seen otherwise.
        """
        if self._registry.is_silent:  # a look would wait as well
            return "disk_silent"
        async with self._turn:
            is_doubtful = self._registry.is_refused or self._registry.is_in_memory
            found = await asyncio.to_thread(self._find, is_doubtful=is_doubtful)
            if found is None and self._registry.is_in_memory:
                await self._registry.move_to_disk()
                if self._registry.is_in_memory:
                    found = "disk_full"  # it has room again, but not for all of it
        if found != self._found:
            if found is None:
                _logger.warning("the state folder can be written again")
            else:
                _logger.warning("the state folder cannot be written", extra={"degraded": found})
        self._found, self._looked_at = found, time.monotonic()
        self._has_looked.set()
        place = await asyncio.to_thread(moved_to, self._folder) if found == "folder_gone" else None
        if place is not None and not self.moved.done():
            self.moved.set_result(place)
        return found

    async def refresh(self) -> None:
        """Have it looked at, unless that was done within the last second; wait for that, a second at most.

        Not while the disk is silent: a look would find nothing out.
        """
        if time.monotonic() - self._looked_at > _LOOK_S and not self._registry.is_silent:
            self._has_looked.clear()
            self.look_soon()
            try:
                async with asyncio.timeout(_LOOK_S):
                    await self._has_looked.wait()
            except TimeoutError:  # a disk that does not answer keeps callers waiting no longer, once a second
                self._looked_at = time.monotonic()

    def look_soon(self) -> None:
        """Have it looked at in the background, once a second at most."""
        self._is_wanted.set()

    async def view(self) -> dict[str, str]:
        """Return the member that answers have while the disk takes nothing: `degraded`; else none."""
        await self.refresh()
        found = self.degraded
        return {} if found is None else {"degraded": found}

    async def sentence(self) -> str:
        """Return the same for people, in one line; empty while everything is as it should be."""
        await self.refresh()
        if (found := self.degraded) is None:
            return ""
        error = self._error(found)
        return f"degraded: {error.code}. {error.message} {error.hint}"

    async def check(self) -> None:
        """Look now.

        Raises:
            OutliveError: `disk_full`, `read_only` or `folder_gone`.
        """
        if (found := await self.look()) is not None:
            raise self._error(found)

    def check_in_place(self) -> None:
        """Return at once, by what was found last, and have the next caller know more.

        Raises:
            OutliveError: `folder_gone`.
        """
        self.look_soon()
        if self._found == "folder_gone":
            raise self._error(self._found)

    @staticmethod
    def _error(found: Degraded) -> OutliveError:
        return error_from_slug(found, MEANINGS[found])

    async def run(self) -> None:
        """Look when that is wanted, and once a second while something is wrong, for ever."""
        while True:
            if self._found is None:
                await self._is_wanted.wait()
            self._is_wanted.clear()
            await self._try_to_look()
            await asyncio.sleep(_LOOK_S)

    async def _try_to_look(self) -> None:
        try:
            await self.look()
        except (OSError, StoreCorrupt) as error:
            _logger.warning("the state folder cannot be looked at", extra={"reason": str(error)})

    def _find(self, *, is_doubtful: bool) -> Degraded | None:
        if identity_of(self._root) != self._identity:
            return "folder_gone"
        for folder in self._folders:  # a person may have removed one
            if not os.path.isdir(folder):
                with contextlib.suppress(OSError):
                    os.makedirs(folder, mode=0o700, exist_ok=True)
        found, free_bytes = look_at_space(self._root)
        if free_bytes is not None:
            self.free_bytes = free_bytes
        return probe(self._root) if found is None and is_doubtful else found


_FINDING_S = 1.0
_ANSWER_S = 5.0  # keeper and registry answer within milliseconds, under load within a second
_PROBE = "ready"  # a counter that is written to see whether the registry can be


@dataclass(eq=False, slots=True)
class Health:
    """Answers probes. On the engine's loop only."""

    backend: Backend
    registry: Registry
    disk: DiskWatch
    reconciliation: Reconciliation

    async def check(self) -> None:
        """Return when the keeper has answered and the registry was written just now: commands can be started.

        Raises:
            BackendUnavailable: One of them does not answer within its deadline (5 s at most; 1 s as long as
                something is being found again, which `details` show).
            OutliveError: What `disk` says of a state folder that cannot be written.
        """
        try:
            async with asyncio.timeout(_ANSWER_S):
                await self._try_all()
        except TimeoutError:
            await self.disk.check()  # a frozen disk makes all of them silent
            raise BackendUnavailable("timeout", f"No answer within {_ANSWER_S:.0f} s.") from None

    async def _try_all(self) -> None:
        await self.disk.check()
        # Before the keeper is asked: a frozen disk silences both, and the registry tells it apart.
        self.registry.count_to(_PROBE, int(time.time()))
        progress = self.reconciliation.progress
        try:
            async with asyncio.timeout(None if progress is None else _FINDING_S):
                await self.backend.status()
        except TimeoutError:
            text = "The keeper has not answered yet since this server was started."
            details = {} if progress is None else {"finding": progress.view()}
            raise BackendUnavailable("keeper_unavailable", text, details=details) from None
        await self.registry.flush()
        await self.disk.check()  # what the registry was refused is known now

    def nodes(self) -> dict[str, NodeState]:
        """Return what is known of other servers that run commands for this one, by name."""
        return self.backend.nodes()

    async def keeper_status(self) -> dict[str, object]:
        """Return what the keeper says about itself."""
        return await self.backend.status()
