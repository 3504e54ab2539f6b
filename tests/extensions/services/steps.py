"""What tests of services do again and again: bring up, wait for a state, look, bring down."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from outlive.core.layout import Layout
from outlive.core.process import Owner
from outlive.engine import Engine, ProcessFilter
from outlive.engine.queries import Queries
from outlive.extensions.services.operations import (
    DownRequest,
    ServicesRequest,
    ServiceView,
    StackView,
    UpRequest,
)
from outlive.extensions.services.services import Services
from outlive.operations.requests import convert_request
from tests.engine.engines import an_engine
from tests.keeper.house import House

ME = Owner(principal="uid:me")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """An engine, and services on it."""

    engine: Engine
    services: Services

    @property
    def queries(self) -> Queries:
        """Finds processes."""
        return self.engine.queries


@asynccontextmanager
async def a_site(state_dir: Path) -> AsyncIterator[Site]:
    """Open an engine on the real keeper, with services."""
    async with (
        an_engine(state_dir) as engine,
        Services(Layout(str(state_dir)), engine) as services,
    ):
        yield Site(engine=engine, services=services)


PATH = {"PATH": os.environ["PATH"]}


def asked_for(folder: Path, *names: str, **services: object) -> UpRequest:
    members = {"folder": str(folder), "names": names, "services": services, "environment": PATH}
    return convert_request(members, UpRequest)


async def seen(
    site: Site,
    folder: Path,
    claim: Callable[[dict[str, ServiceView]], bool],
    owner: Owner = ME,
) -> dict[str, ServiceView]:
    """Return the services once a claim holds for them."""
    revision: int | None = None
    async with asyncio.timeout(20):
        while True:
            asked = ServicesRequest(folder=str(folder), revision=revision, wait_s=15.0)
            (stack,) = (await site.services.list(asked, owner)).stacks
            found = by_name(stack)
            if claim(found):
                return found
            revision = stack.revision


def by_name(stack: StackView) -> dict[str, ServiceView]:
    return {one.name: one for one in stack.services}


def all_are(state: str) -> Callable[[dict[str, ServiceView]], bool]:
    return lambda services: all(one.state == state for one in services.values())


async def bring_down(site: Site, folder: Path) -> None:
    await site.services.down(DownRequest(folder=str(folder), grace=0.0), ME)
    await seen(
        site,
        folder,
        lambda found: all(one.state in {"stopped", "failed", "done"} for one in found.values()),
    )


@asynccontextmanager
async def brought_up(site: Site, request: UpRequest) -> AsyncIterator[None]:
    """Bring services up for a block; nothing of them is left."""
    await site.services.up(request, ME)
    try:
        yield
    finally:
        await bring_down(site, Path(request.folder))


async def text_of(site: Site, process_id: str | None) -> bytes:
    assert process_id is not None
    process = await site.queries.find(process_id)
    return process.raw_log.pread(0, 65536, 0)


def only_file(house: House) -> Path:
    (file,) = Path(Layout(str(house.state_dir)).services).glob("*.json")
    return file


def is_there(path: str) -> bool:
    return os.path.exists(path)


def files_with(text: str, house: House) -> list[str]:
    """Return the files of a state folder that hold a text, but for outputs."""
    words = ["grep", "-rlF", "--exclude=out", text, str(house.state_dir)]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.splitlines()


async def processes_of(site: Site, name: str, folder: Path) -> list[str]:
    wanted = ProcessFilter(project=str(folder), tags={"service": name})
    return [one.process_id for one in await site.queries.list(wanted)]
