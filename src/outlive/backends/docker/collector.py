"""Containers that nobody uses are removed, and their folders with them: `Collector` decides when.

One of a session of commands goes when nobody has lived in it for a while, one that was a process's own when that
process is over. Only containers with this state folder's label are ever touched.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from outlive.backends.docker import folders
from outlive.backends.docker.api import DockerApi, NoSuchContainer
from outlive.backends.docker.entrance import has_commands
from outlive.backends.docker.recipe import Labels, is_set_aside
from outlive.backends.docker.settings import DockerSettings
from outlive.core.errors import OutliveError
from outlive.core.layout import Layout

_logger = logging.getLogger(__name__)

_SWEEPS_PER_IDLE = 4
_LONGEST_PAUSE_S = 60.0
# Between `ready` and the process that lives there lies its start; afterwards nobody will ever use a strict one again.
_STRICT_S = 60.0


def is_strict(name: str) -> bool:
    """Tell whether the container of this name is one process's own (`ContainerPlan.name`)."""
    return name.startswith("strict-")


class Collector:
    """Knows when each container was last used; for one event loop. What is live is never touched."""

    def __init__(
        self,
        layout: Layout,
        settings: DockerSettings,
        *,
        state: Callable[[], str],
        living: Callable[[], set[str]],
        alone: Callable[[str], AbstractAsyncContextManager[None]],
        forget: Callable[[str], None],
    ) -> None:
        """`alone(name)` is entered by whoever makes or removes a container; `forget` hears what is about to be removed; the others as in `Containers`."""
        self._layout = layout
        self._settings = settings
        self._state = state
        self._living = living
        self._alone = alone
        self._forget = forget
        self._used_at: dict[str, float] = {}

    def touch(self, name: str) -> None:
        """Take note that a container is being used."""
        self._used_at[name] = time.monotonic()

    async def run(self) -> None:
        """Look for what nobody uses from time to time, for ever."""
        pause_s = min(self._settings.idle_s / _SWEEPS_PER_IDLE, _LONGEST_PAUSE_S)
        while True:
            try:
                await self.sweep()
            except (OutliveError, OSError) as error:  # the daemon is away: another time
                _logger.debug("unused containers could not be looked for", extra={"reason": str(error)})
            await asyncio.sleep(pause_s)

    async def sweep(self) -> None:
        """Remove what is due. Containers that are seen for the first time count as used now.

        Raises:
            OutliveError: The daemon does not answer, or refuses.
        """
        if not await asyncio.to_thread(folders.was_used, self._layout):
            return  # Docker was never used here: the client is not even loaded
        async with DockerApi(self._settings) as api:
            found = await self._found(api)
            await self._remove_aside(api)
        names = {*found, *await asyncio.to_thread(folders.list_names, self._layout)}
        living, now = self._living(), time.monotonic()
        for name in names:
            if name in living:
                self._used_at[name] = now
            self._used_at.setdefault(name, now)
        self._used_at = {
            name: at for name, at in self._used_at.items() if name in names or now - at < _STRICT_S
        }
        for name in sorted(names):
            if self._is_due(name):
                await self.remove(name, is_due=lambda name=name: self._is_due(name))  # type: ignore[misc] # a default binds it

    async def remove(self, name: str, *, is_due: Callable[[], bool]) -> None:
        """Remove a container and its folder, unless somebody lives in it or `is_due` says no once nobody makes it any more.

        Raises:
            OutliveError: The daemon does not answer, or refuses; it is tried again later.
        """
        async with self._alone(name):
            if name in self._living() or not is_due():
                return
            self._forget(
                name
            )  # first: from now on `ready` waits for us, and does not believe what still runs
            async with DockerApi(self._settings) as api:
                for container_id in (await self._found(api)).get(name, []):
                    await api.remove(container_id)
            await asyncio.to_thread(folders.remove_folder, self._layout, name)
            self._used_at.pop(name, None)
        _logger.info("container removed", extra={"container": name})

    async def _remove_aside(self, api: DockerApi) -> None:
        """Remove those that get no more commands as soon as nothing lives in them."""
        for one in await api.find({Labels.STATE: await asyncio.to_thread(self._state)}):
            if not is_set_aside(one):
                continue
            with contextlib.suppress(NoSuchContainer):
                pid = int((await api.inspect(str(one["Id"])))["State"].get("Pid") or 0)
                # One that never ran lends its volume, for a moment (`Streaming.lend_runner`).
                is_lender = one["State"] == "created" and time.time() - one["Created"] < _STRICT_S
                if not is_lender and not await asyncio.to_thread(has_commands, pid):
                    await api.remove(str(one["Id"]))

    def _is_due(self, name: str) -> bool:
        stays_s = min(_STRICT_S, self._settings.idle_s) if is_strict(name) else self._settings.idle_s
        return time.monotonic() - self._used_at.get(name, time.monotonic()) >= stays_s

    async def _found(self, api: DockerApi) -> dict[str, list[str]]:
        """Return the ids of this state folder's containers by their names."""
        state = await asyncio.to_thread(self._state)
        found: dict[str, list[str]] = {}
        for one in await api.find({Labels.STATE: state}):
            found.setdefault(str(one["Labels"].get(Labels.CONTAINER, "")), []).append(str(one["Id"]))
        found.pop("", None)
        return found
