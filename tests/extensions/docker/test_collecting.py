"""What nobody uses goes, and nothing else does."""

import asyncio
import os
import random
import time

import pytest

from outlive.core.errors import OutliveError
from outlive.extensions.docker.api import DockerApi
from outlive.extensions.docker.containers import Containers
from tests.extensions.docker.site import Site
from tests.support.processes import is_alive

pytestmark = pytest.mark.docker

_IDLE_S = 0.4


async def _gone(site: Site, *, within_s: float = 20.0) -> None:
    async with asyncio.timeout(within_s):
        while await site.all() or os.listdir(site.layout.containers):  # noqa: ASYNC110 -- the daemon is asked
            await asyncio.sleep(0.05)


async def _looked_again(made: Containers, times: int = 4) -> None:
    """Wait for longer than a container that nobody uses would stay."""
    await asyncio.sleep(_IDLE_S * times)


async def test_an_idle_container_goes_with_its_folder_and_is_made_again(site: Site) -> None:
    made = site.containers(idle_s=_IDLE_S)
    await made.open()
    name = await made.remember(site.plan())
    await made.ready(name)
    await _gone(site)
    assert await made.remember(site.plan()) == name
    await made.ready(name)
    await site.only()


async def test_one_in_which_somebody_lives_stays_and_goes_later(site: Site) -> None:
    made = site.containers(idle_s=_IDLE_S)
    name = await made.remember(site.plan())
    site.living.add(name)
    await made.open()
    await made.ready(name)
    await _looked_again(made)
    assert (await site.only())["State"]["Running"]
    site.living.clear()
    await _gone(site)


async def test_one_that_is_used_stays(site: Site) -> None:
    made = site.containers(idle_s=_IDLE_S)
    await made.open()
    name = await made.remember(site.plan())
    await made.ready(name)
    init = site.init(name)
    deadline = time.monotonic() + _IDLE_S * 4
    while time.monotonic() < deadline:
        await made.ready(name)
        await asyncio.sleep(_IDLE_S / 10)
    assert site.init(name) == init


async def test_a_strict_one_goes_when_its_process_is_let_go_of(site: Site) -> None:
    made = site.containers()
    name = await made.remember(site.plan(process_id="0123"))
    assert name.startswith("strict-")
    site.living.add(name)
    await made.ready(name)
    await made.let_go(name)
    await site.only()
    site.living.clear()
    await made.let_go(name)
    assert await site.all() == []
    assert os.listdir(site.layout.containers) == []


async def test_letting_go_leaves_a_shared_one_alone(site: Site) -> None:
    made = site.containers()
    name = await made.remember(site.plan())
    await made.ready(name)
    await made.let_go(name)
    await site.only()


async def test_what_an_earlier_server_left_is_found_by_its_label(site: Site) -> None:
    name = await site.ready()
    await site.ready(site.plan(process_id="0123"))
    site.forget_state()
    later = site.containers(idle_s=_IDLE_S)
    await later.open()
    await _gone(site)
    assert name not in os.listdir(site.layout.containers)


async def test_a_folder_whose_container_is_gone_goes(site: Site) -> None:
    made = site.containers(idle_s=_IDLE_S)
    await made.remember(site.plan())  # never made
    await made.open()
    await _gone(site)


async def test_containers_of_others_are_left_alone(site: Site) -> None:
    config = {"Image": "outlive-test", "Cmd": ["sleep", "60"]}
    labels = {"outlive.state": "0" * 16, "outlive.container": "session-0"}
    foreign = [
        await site.docker.containers.create(config),
        await site.docker.containers.create(config | {"Labels": labels}),
    ]
    try:
        await site.ready()
        made = site.containers(idle_s=_IDLE_S)
        await made.open()
        await _gone(site)
        for container in foreign:
            await container.show()
    finally:
        for container in foreign:
            await container.delete(force=True)


async def test_closing_removes_nothing(site: Site) -> None:
    made = site.containers()
    await made.open()
    name = await made.remember(site.plan())
    await made.ready(name)
    await made.close()
    assert (await site.only())["State"]["Running"]
    await site.containers(host="unix:///nonexistent").ready(name)


async def test_without_a_daemon_nothing_is_removed_and_nothing_breaks(site: Site) -> None:
    await site.ready()
    made = site.containers(idle_s=_IDLE_S, host="unix:///nonexistent")
    await made.open()
    await _looked_again(made)
    await made.close()
    assert len(os.listdir(site.layout.containers)) == 1
    name = os.listdir(site.layout.containers)[0]
    strict = await made.remember(site.plan(process_id="0123"))
    with pytest.raises(OutliveError):
        await made.let_go(strict)
    assert set(os.listdir(site.layout.containers)) == {name, strict}


async def test_a_start_that_meets_the_removal_has_a_container_afterwards(site: Site, storm_seed: int) -> None:
    made = site.containers(idle_s=0.04)
    await made.open()
    pauses = random.Random(storm_seed)
    removed = 0
    before = 0
    for _ in range(12):
        name = await made.remember(site.plan())
        await made.ready(name)
        site.living.add(name)
        init = site.init(name)
        removed += init != before
        before = init
        await asyncio.sleep(0.15)  # a removal that had begun would have ended
        assert is_alive(init)
        assert (await site.only())["State"]["Pid"] == init
        site.living.clear()
        await asyncio.sleep(pauses.uniform(0.04, 0.12))
    assert removed > 2


async def test_ready_does_not_believe_what_is_being_removed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = site.containers()
    name = await made.remember(site.plan(process_id="0123"))
    await made.ready(name)
    before = site.init(name)
    remove = DockerApi.remove
    is_removing, may_go_on = asyncio.Event(), asyncio.Event()

    async def late(self: DockerApi, container_id: str) -> None:
        is_removing.set()
        await may_go_on.wait()
        await remove(self, container_id)

    monkeypatch.setattr(DockerApi, "remove", late)
    async with asyncio.TaskGroup() as group:
        group.create_task(made.let_go(name))
        await is_removing.wait()
        starting = group.create_task(_start(made, site))
        await asyncio.sleep(0.05)
        assert not starting.done()
        may_go_on.set()
    assert site.init(name) != before
    assert (await site.only())["State"]["Pid"] == site.init(name)


async def _start(made: Containers, site: Site) -> None:
    await made.ready(await made.remember(site.plan(process_id="0123")))
