"""A state folder at a Docker daemon: `Site` makes `Containers` on it, looks into containers, and removes them
at the end.
"""

import asyncio
import contextlib
import dataclasses
import os
import shutil
from pathlib import Path
from typing import Any, Self

import aiodocker

from outlive.core.layout import Layout
from outlive.core.location import ContainerPlan
from outlive.extensions.docker import folders
from outlive.extensions.docker.api import DockerSettings
from outlive.extensions.docker.containers import Containers
from outlive.kernel.sockets import connect_unix

IMAGE = "outlive-test"


class Site:
    """One state folder and one workspace.

    `living` are the names of the containers in use; the test fills it.
    """

    def __init__(self, folder: Path, *, host: str, runner: str) -> None:
        self.state = folder / "state"
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.state.mkdir(mode=0o700)
        self.layout = Layout(str(self.state))
        self.settings = DockerSettings(host=host)
        self.runner = runner
        self.living: set[str] = set()
        self.runner_calls = 0
        self.label = ""  # what marks this folder's containers
        self._servers = contextlib.AsyncExitStack()
        self.docker: aiodocker.Docker

    async def __aenter__(self) -> Self:
        """Connect to the daemon, beside the product."""
        self.label = await asyncio.to_thread(folders.label_of, self.layout)
        self.docker = aiodocker.Docker(url=self.settings.host)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Remove what is left."""
        await self._servers.aclose()
        for container in await self.all():
            with contextlib.suppress(aiodocker.DockerError):  # one that is being removed
                await container.delete(force=True)
        await self.docker.close()

    def plan(self, **changes: Any) -> ContainerPlan:  # noqa: ANN401 -- each field has its own type
        """Return a plan for the workspace."""
        plan = ContainerPlan(image=IMAGE, workspace=str(self.workspace), principal="owner")
        return dataclasses.replace(plan, **changes)

    def containers(self, *, runner: str | None = None, **settings: Any) -> Containers:  # noqa: ANN401 -- the same
        """Return another server's view of this state folder; closed with the site."""

        def found(_machine: str) -> str:
            self.runner_calls += 1
            return runner or self.runner

        made = Containers(
            self.layout,
            dataclasses.replace(self.settings, **settings),
            connect=connect_unix,
            runner=found,
            living=lambda: self.living,
        )
        self._servers.push_async_callback(made.close)
        return made

    async def ready(self, plan: ContainerPlan | None = None, **settings: Any) -> str:  # noqa: ANN401 -- the same
        """Have a container run, and return its name."""
        made = self.containers(**settings)
        name = await made.remember(plan or self.plan())
        await made.ready(name)
        return name

    async def all(self) -> list[aiodocker.containers.DockerContainer]:
        """Return this folder's containers, as the daemon has them."""
        filters = {"label": [f"outlive.state={self.label}"]}
        return await self.docker.containers.list(all=True, filters=filters)

    async def only(self) -> aiodocker.containers.DockerContainer:
        """Return the one container, inspected."""
        found = await self.all()
        assert len(found) == 1, found
        await found[0].show()
        return found[0]

    async def inside(self, *words: str) -> tuple[int, str]:
        """Run a command in the one container, by the daemon's own means; return its exit code and output."""
        container = await self.only()
        made = await container.exec([*words])
        output = b""
        async with made.start(detach=False) as stream:
            while (message := await stream.read_out()) is not None:
                output += message.data
        return int((await made.inspect())["ExitCode"]), output.decode().strip()

    def init(self, name: str) -> int:
        """Return the pid that stands in the container's folder."""
        return int((self.state / "containers" / name / "init").read_text())

    def forget_state(self) -> None:
        """Remove everything that the state folder knows of its containers."""
        shutil.rmtree(self.state / "containers")
        os.makedirs(self.state / "containers", exist_ok=True)
