"""The daemon dies by SIGKILL and comes back: containers live, and are found again."""

import asyncio
from pathlib import Path

import pytest

from outlive.core.errors import StartFailed
from tests.extensions.docker.site import Site
from tests.support.dockerd import Dockerd
from tests.support.processes import is_alive

pytestmark = pytest.mark.docker


async def test_containers_live_on_without_their_daemon(
    own_dockerd: Dockerd, tmp_path: Path, runner: str
) -> None:
    async with Site(tmp_path, host=own_dockerd.host, runner=runner) as site:
        made = site.containers()
        name = await made.remember(site.plan())
        await made.ready(name)
        init = site.init(name)

        await own_dockerd.kill()
        await made.ready(name)
        await asyncio.sleep(1.1)
        await made.ready(name)
        await site.containers().ready(name)  # a server that starts now finds it, too
        assert is_alive(init)
        another = await made.remember(site.plan(principal="another"))
        with pytest.raises(StartFailed) as caught:
            await made.ready(another)
        assert caught.value.code == "docker_unavailable"

        await asyncio.to_thread(own_dockerd.start)
        await made.ready(name)
        await made.ready(another)
        assert site.init(name) == init
        running = {(await container.show())["State"]["Pid"] for container in await site.all()}
        assert running == {init, site.init(another)}

        (site.state / "containers" / name / "init").unlink()
        await site.containers().ready(name)  # by its labels
        assert site.init(name) == init


async def test_a_making_that_the_daemons_death_interrupts_is_done_afterwards(
    own_dockerd: Dockerd, tmp_path: Path, runner: str
) -> None:
    async with Site(tmp_path, host=own_dockerd.host, runner=runner) as site:
        for delay_s in (0.05, 0.15, 0.25):
            made = site.containers(answer_s=5.0, start_s=5.0)
            name = await made.remember(site.plan(principal=str(delay_s)))
            making = asyncio.create_task(made.ready(name))
            await asyncio.sleep(delay_s)
            await own_dockerd.kill()
            outcome = (await asyncio.gather(making, return_exceptions=True))[0]
            assert outcome is None or getattr(outcome, "code", "") in {
                "docker_unavailable",
                "docker_timeout",
            }, outcome
            await asyncio.to_thread(own_dockerd.start)
            await made.ready(name)
            named = [one for one in await site.all() if one["Labels"]["outlive.container"] == name]
            assert len(named) == 1
            assert (await named[0].show())["State"]["Pid"] == site.init(name)
