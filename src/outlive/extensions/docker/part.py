"""Docker's share of a server: the backend `docker`, and its containers while the server runs."""

import asyncio
import contextlib
import functools
import shutil
from typing import Self

from outlive.backends.contract import Backend
from outlive.backends.routing import Route
from outlive.core.command import Command
from outlive.core.errors import ConfigInvalid, OutliveError
from outlive.core.events import Event, ProcessClosed, StartRejected
from outlive.core.file_words import OtherRoot
from outlive.core.identity import ProcessId
from outlive.core.location import DOCKER
from outlive.core.process import Owner
from outlive.discovery.keeper import place_runner
from outlive.engine.commands.resolver import Resolved
from outlive.extensions.docker.api import DockerSettings, check_host, docker_host
from outlive.extensions.docker.containers import Containers
from outlive.extensions.docker.folders import was_used
from outlive.extensions.docker.options import DockerOptions
from outlive.extensions.docker.starts import ContainerStarts
from outlive.extensions.server_part import Built, Given, ServerPart
from outlive.kernel.own_code import own_code
from outlive.kernel.sockets import connect_own


class DockerPart(ServerPart):
    """Has commands run in containers (see `ContainerPlaces`), and removes those that nothing uses.

    Nothing is asked of a daemon before one is needed.
    """

    def __init__(self, given: Given) -> None:
        """Take the server.

        Raises:
            ConfigInvalid: All commands are to run in containers, and no image is named.
            StartFailed: `docker_unavailable`: or the daemon is not on this machine.
        """
        super().__init__(given)
        options = given.settings.of(DockerOptions)
        if given.settings.backend == DOCKER:
            check_host(docker_host(given.environ))
            if not options.docker_image:
                text = (
                    "Commands are to run in containers (--backend docker, USE_DOCKER), but no image is named."
                )
                hint = "Name one: --image debian:12, or OUTLIVE_DOCKER_IMAGE=debian:12."
                raise ConfigInvalid("config_invalid", text, hint=hint)
        called = filter(None, [shutil.which("outlive", path=given.environ.get("PATH", ""))])
        self._removing: set[asyncio.Task[None]] = set()
        self.containers = self
        self._all = Containers(
            given.layout,
            DockerSettings(
                host=docker_host(given.environ),
                pull=options.docker_pull,
                idle_s=options.docker_idle_s,
                own=(*own_code(), *called, *given.own_files),
            ),
            connect=connect_own,
            runner=functools.cache(functools.partial(place_runner, given.layout)),
            living=self._living,
        )

    def backends(self, local: Backend) -> dict[str, Route]:
        """Return the one place, whose processes are the keeper's."""
        return {DOCKER: Route(kind="container", backend=local, ready=self._all.ready)}

    def join(self, built: Built) -> None:
        """Take the engine."""
        self._engine = engine = built.engine
        self._starts = ContainerStarts(
            self.given.settings,
            self._all,
            working_folder=self.given.working_folder,
            is_strict=engine.settings.is_strict,
        )

    async def prepare(self, command: Command, owner: Owner, process_id: ProcessId) -> Resolved:
        """Return what will run, and in which container (see `ContainerStarts.prepare`)."""
        return await self._starts.prepare(command, owner, process_id)

    def open_root(self, container: str) -> OtherRoot:
        """Open the root folder of a running container. Blocks."""
        return self._all.open_root(container)

    async def __aenter__(self) -> Self:
        """Look for containers that no process uses, and see to those of processes that end."""
        kinds = (ProcessClosed, StartRejected)
        self._unsubscribe = self._engine.events.subscribe(self._remove_own, kinds=kinds)
        if await asyncio.to_thread(was_used, self.given.layout):
            await self._engine.queries.known()  # none may be taken for one that no process uses
        await self._all.open()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """See to no more ends."""
        self._unsubscribe()

    async def end(self) -> None:
        """Close what the engine's last starts needed."""
        await self._all.close()

    def _living(self) -> set[str]:
        """Return the names of the containers in which a process lives, or will."""
        return {
            name
            for process in self._engine.queries.live()
            if (name := process.record.location.container) is not None
            and not (process.status.is_closed and process.record.descendants == 0)
        }

    def _remove_own(self, event: Event) -> None:
        """Remove a process's own container when nothing of the process is left, or it never ran."""
        match event:
            case ProcessClosed():
                name = event.record.location.container
            case StartRejected():
                name = event.container
            case _:
                return
        if name is not None:
            self._removing.add(task := asyncio.create_task(self._let_go(name), name=f"let go of {name}"))
            task.add_done_callback(self._removing.discard)

    async def _let_go(self, name: str) -> None:
        # Where the daemon is away it is removed later, as all that no process uses.
        with contextlib.suppress(OutliveError):
            await self._all.let_go(name)
