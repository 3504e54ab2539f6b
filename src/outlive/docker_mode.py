"""From settings to Docker mode: `docker_containers`. Beside `app`, which wires them."""

import asyncio
import contextlib
import functools
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from outlive.backends.docker.api import DockerSettings, docker_host
from outlive.backends.docker.containers import Containers
from outlive.backends.docker.runner_build import runner_binary
from outlive.config import Settings
from outlive.core.errors import OutliveError, StartFailed
from outlive.core.events import Event, ProcessClosed, StartRejected
from outlive.core.layout import Layout
from outlive.engine.engine import Engine
from outlive.keeper.common.program import place_program
from outlive.keeper.sandbox.capabilities import own_code
from outlive.kernel.sockets import connect_own


def docker_containers(
    settings: Settings,
    layout: Layout,
    *,
    living: Callable[[], set[str]],
    own_files: Sequence[str],
    environ: Mapping[str, str] = os.environ,
) -> Containers:
    """Return what makes and removes containers; `living` are those in use, `own_files` outlive's settings.

    Nothing is asked of a daemon before one is needed.
    """
    called = filter(None, [shutil.which("outlive", path=environ.get("PATH", ""))])

    def runner(machine: str) -> str:
        try:
            path = place_program(layout, str(runner_binary(machine, Path(layout.programs))))
            os.chmod(path, 0o555)  # noqa: S103 - a container's user may be another one
        except OSError as error:
            text = f"Outlive's program cannot be put into the state folder: {error.strerror}."
            raise StartFailed("docker_unavailable", text) from error
        return path

    return Containers(
        layout,
        DockerSettings(
            host=docker_host(environ),
            pull=settings.docker_pull,
            idle_s=settings.docker_idle_s,
            own=(*own_code(), *called, *own_files),
        ),
        connect=connect_own,
        runner=functools.cache(runner),
        living=living,
    )


def living_containers(engine: Engine) -> set[str]:
    """Return the names of the containers in which a process lives, or will."""
    return {
        name
        for process in engine.queries.live()
        if (name := process.record.location.container) is not None
        and not (process.status.is_closed and process.record.descendants == 0)
    }


def remove_when_closed(engine: Engine, containers: Containers) -> Callable[[], None]:
    """Let go of a process's own container when nothing of the process is left, or it never ran.

    Return what ends that.
    """
    removing: set[asyncio.Task[None]] = set()

    async def remove(name: str) -> None:
        # Where the daemon is away it is removed later, as all that no process uses.
        with contextlib.suppress(OutliveError):
            await containers.let_go(name)

    def hear(event: Event) -> None:
        match event:
            case ProcessClosed():
                name = event.record.location.container
            case StartRejected():
                name = event.container
            case _:
                return
        if name is not None:
            removing.add(task := asyncio.create_task(remove(name), name=f"let go of {name}"))
            task.add_done_callback(removing.discard)

    return engine.events.subscribe(hear, kinds=(ProcessClosed, StartRejected))
