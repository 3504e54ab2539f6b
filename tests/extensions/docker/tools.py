"""This machine's own tools inside the tests' containers, and the containers' removal."""

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import aiodocker

from outlive.core.layout import Layout
from outlive.extensions.docker import folders
from tests.extensions.docker.site import IMAGE
from tests.faults import writer

PYTHON = os.path.realpath(sys.executable)


def tool_mounts() -> str:
    """Return the value of --docker-mounts that shows the containers our programs, read-only: the image has
    busybox only.
    """
    wanted = ["/usr", "/lib", "/lib64", str(Path(writer.__file__).parent)]
    if not os.path.realpath(sys.base_prefix).startswith("/usr/"):
        wanted.append(os.path.realpath(sys.base_prefix))
    return ",".join(f"{path}:{path}:ro" for path in wanted if os.path.exists(path))


def serve_words(workspace: Path, *, backend: str = "docker") -> tuple[str, ...]:
    """Return the options of a server whose commands run in containers, where they have this machine's
    tools.
    """
    return (
        *("--backend", backend, "--image", IMAGE),
        *("--docker-workspace", str(workspace), "--docker-mounts", tool_mounts()),
    )


def containers_left(host: str, state_dir: Path) -> list[str]:
    """Return the names of all containers of a state folder (blocks)."""
    return asyncio.run(_look(host, Layout(str(state_dir)), is_last=False))


def remove_containers(host: str, state_dir: Path) -> None:
    """Remove them all (blocks)."""
    asyncio.run(_look(host, Layout(str(state_dir)), is_last=True))


async def _look(host: str, layout: Layout, *, is_last: bool) -> list[str]:
    label = await asyncio.to_thread(folders.label_of, layout)
    names = []
    async with aiodocker.Docker(url=host) as docker:
        for container in await docker.containers.list(
            all=True, filters={"label": [f"outlive.state={label}"]}
        ):
            names.append(str(container["Names"][0]))
            if is_last:
                with contextlib.suppress(aiodocker.DockerError):  # one that is being removed
                    await container.delete(force=True, v=True)
    return names
