"""A container comes to run, once, however many ask; what is in the way is said."""

import asyncio
import os
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

import pytest

from outlive.core.errors import BackendUnavailable, OutliveError, StartFailed
from tests.extensions.docker.images import load_image
from tests.extensions.docker.runners import compile_runner
from tests.extensions.docker.site import Site
from tests.support.dockerd import Dockerd
from tests.support.processes import descendants, wait_dead

pytestmark = pytest.mark.docker

_NOBODY = 65534


async def _refusal(site: Site, *, runner: str | None = None, **changes: object) -> OutliveError:
    made = site.containers(runner=runner)
    name = await made.remember(site.plan(**changes))
    with pytest.raises(OutliveError) as caught:
        await made.ready(name)
    return caught.value


async def test_a_container_runs_and_its_runner_is_its_first_process(site: Site) -> None:
    name = await site.ready()
    container = await site.only()
    assert site.init(name) == container["State"]["Pid"]
    assert os.readlink(f"/proc/{site.init(name)}/exe").endswith("outlive-runner")
    labels = container["Config"]["Labels"]
    assert (labels["outlive.container"], labels["outlive.state"]) == (name, site.label)


async def test_one_that_runs_is_found_without_a_call_to_the_daemon(site: Site) -> None:
    name = await site.ready()
    other = site.containers(host="unix:///nonexistent/docker.sock")
    await other.ready(name)
    await other.ready(name)
    await asyncio.sleep(1.1)  # beyond the time for which a live first process is enough
    await other.ready(name)
    assert site.runner_calls == 1


async def test_asking_whether_it_answers_leaves_nothing_inside(site: Site) -> None:
    name = await site.ready()
    for _ in range(10):
        await site.containers().ready(name)
    await wait_dead(*descendants(site.init(name)))


async def test_callers_for_one_name_wait_for_one_making(site: Site) -> None:
    made = site.containers()
    name = await made.remember(site.plan())
    await asyncio.gather(*(made.ready(name) for _ in range(20)))
    assert site.runner_calls == 1
    await site.only()


async def test_callers_for_one_name_hear_of_one_failure(site: Site) -> None:
    made = site.containers()
    name = await made.remember(site.plan(image="outlive-test-none"))
    began = time.monotonic()
    outcomes = await asyncio.gather(*(made.ready(name) for _ in range(50)), return_exceptions=True)
    assert {getattr(outcome, "code", outcome) for outcome in outcomes} == {"image_missing"}
    again = time.monotonic()
    with pytest.raises(StartFailed):
        await made.ready(name)  # who asks later is not told an old story
    assert again - began < 25 * (time.monotonic() - again) + 1


async def test_a_cancelled_caller_leaves_the_making_to_the_next(site: Site) -> None:
    for delay_s in (0.0, 0.02, 0.1):
        made = site.containers()
        name = await made.remember(site.plan())
        first = asyncio.create_task(made.ready(name))
        second = asyncio.create_task(made.ready(name))
        await asyncio.sleep(delay_s)
        is_in_time = first.cancel()
        assert is_in_time or delay_s  # a daemon may have made it in a tenth of a second
        await second
        container = await site.only()
        assert first.cancelled() == is_in_time
        await container.delete(force=True)


async def test_servers_that_race_end_at_the_same_container(site: Site) -> None:
    for count in (2, 4, 8):
        servers = [site.containers() for _ in range(count)]
        name = await servers[0].remember(site.plan())
        await asyncio.gather(*(server.ready(name) for server in servers))
        container = await site.only()
        assert site.init(name) == container["State"]["Pid"]
        await container.delete(force=True)


@pytest.mark.parametrize("how", ["killed", "stopped", "removed", "paused", "runner killed"])
async def test_one_that_went_away_runs_again(site: Site, how: str) -> None:
    made = site.containers()
    name = await made.remember(site.plan())
    await made.ready(name)
    before = site.init(name)
    container = await site.only()
    match how:
        case "killed":
            await container.kill()
        case "stopped":
            await container.stop(t=1)
        case "removed":
            await container.delete(force=True)
        case "paused":
            await container.pause()
            made = site.containers()  # nothing is known of it but its folder
            (site.state / "containers" / name / "init").unlink()
        case _:
            os.kill(before, signal.SIGKILL)
            await wait_dead(before)
    await made.ready(name)
    container = await site.only()
    assert container["State"]["Status"] == "running"
    assert site.init(name) == container["State"]["Pid"]
    assert (site.init(name) == before) == (how == "paused")


async def test_a_folder_that_was_removed_is_written_again(site: Site) -> None:
    made = site.containers()
    name = await made.remember(site.plan())
    await made.ready(name)
    site.forget_state()
    await (await site.only()).kill()
    await made.ready(name)
    assert site.init(name) == (await site.only())["State"]["Pid"]


async def test_without_its_plan_nothing_is_made(site: Site) -> None:
    with pytest.raises(StartFailed) as caught:
        await site.containers().ready("session-0123456789abcdef")
    assert caught.value.code == "container_failed"


async def test_a_newer_image_is_used_when_the_container_stands_still(site: Site) -> None:
    image = "outlive-test-newer"
    await load_image(site.docker, image, note="old")
    try:
        name = await site.ready(site.plan(image=image))
        container = await site.only()
        await container.stop(t=1)
        await load_image(site.docker, image, note="new")
        await site.containers().ready(name)
        assert (await site.only()).id != container.id
    finally:
        for left in await site.all():
            await left.delete(force=True)
        await site.docker.images.delete(image, force=True)


async def test_a_missing_image_is_said_with_how_to_get_it(site: Site) -> None:
    error = await _refusal(site, image="outlive-test-none:3")
    assert error.code == "image_missing"
    assert "docker pull outlive-test-none:3" in error.hint
    assert await site.all() == []


async def test_an_image_that_cannot_be_got_is_said(site: Site) -> None:
    made = site.containers(pull=True)
    name = await made.remember(site.plan(image="127.0.0.1:1/none"))
    with pytest.raises(StartFailed) as caught:
        await made.ready(name)
    assert caught.value.code == "image_missing"
    assert "could not be got" in caught.value.message


async def test_an_image_that_goes_away_leaves_the_running_container_alone(site: Site) -> None:
    image = "outlive-test-gone"
    await load_image(site.docker, image, note="")
    name = await site.ready(site.plan(image=image))
    await site.docker.images.delete(image, force=True)
    await site.containers().ready(name)
    await (await site.only()).stop(t=1)
    with pytest.raises(StartFailed) as caught:
        await site.containers().ready(name)
    assert caught.value.code == "image_missing"


async def test_a_name_that_is_taken_by_another_container_is_said(site: Site) -> None:
    plan = site.plan()
    name = f"outlive-{site.label[:8]}-{plan.name}"
    foreign = await site.docker.containers.create({"Image": "outlive-test", "Cmd": ["true"]}, name=name)
    try:
        error = await _refusal(site)
        assert error.code == "container_failed"
        assert name in error.message
        await foreign.show()  # it is left alone
    finally:
        await foreign.delete(force=True)


async def test_an_unknown_runtime_is_said(site: Site) -> None:
    error = await _refusal(site, runtime="no-such-runtime")
    assert error.code == "container_failed"
    assert "'no-such-runtime'" in error.message
    assert "--docker-runtime" in error.hint
    assert await site.all() == []


async def test_an_unknown_network_is_said(site: Site) -> None:
    error = await _refusal(site, network="no-such-network")
    assert error.code == "container_failed"
    assert "no-such-network" in error.message
    assert await site.all() == []


async def test_an_image_for_an_unknown_machine_is_said(site: Site) -> None:
    image = "outlive-test-other"
    await load_image(site.docker, image, note="", architecture="s390x")
    try:
        error = await _refusal(site, image=image)
        assert error.code == "container_failed"
        assert "'s390x'" in error.message
    finally:
        await site.docker.images.delete(image, force=True)


async def test_an_image_with_a_named_user_needs_a_number(site: Site) -> None:
    image = "outlive-test-named"
    await load_image(site.docker, image, note="", user="node")
    try:
        error = await _refusal(site, image=image)
        assert "'node'" in error.message
        assert "--docker-user" in error.hint
        await site.ready(site.plan(image=image, user="0:0"))
    finally:
        for left in await site.all():
            await left.delete(force=True)
        await site.docker.images.delete(image, force=True)


async def test_an_image_without_anything_in_it_does(site: Site) -> None:
    await site.ready(site.plan(image="outlive-test-bare"))


async def test_one_that_ends_at_once_is_said_with_its_exit_code(site: Site, tmp_path: Path) -> None:
    ends = compile_runner(tmp_path / "ends", "int main(void) { return 9; }")
    error = await _refusal(site, runner=ends)
    assert error.code == "container_failed"
    assert error.details == {"exit_code": 9, "oom": False}
    assert "exit code 9" in error.message
    assert await site.all() == []


async def test_one_that_takes_too_much_memory_at_once_is_said(site: Site, tmp_path: Path) -> None:
    takes = (
        "#include <stdlib.h>\n#include <string.h>\nint main(void) { for (;;) memset(malloc(1 << 20), "
        "1, 1 << 20); }"
    )
    error = await _refusal(site, runner=compile_runner(tmp_path / "takes", takes), memory_bytes=16 << 20)
    assert error.code == "container_failed"
    assert error.details["oom"] is True
    assert "--docker-memory" in error.hint


async def test_whoever_listens_in_the_runners_place_is_not_believed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlive.extensions.docker.runner._LISTENS_S", 0.3)
    name = await site.ready()
    path = site.layout.runner_socket(name)
    os.unlink(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as impostor:
        folder = os.open(os.path.dirname(path), os.O_PATH)
        impostor.bind(f"/proc/self/fd/{folder}/runner.sock")
        os.close(folder)
        impostor.listen()
        before = site.init(name)
        await site.containers().ready(name)  # made anew: nothing lived there
    assert site.init(name) == (await site.only())["State"]["Pid"] != before


async def test_no_daemon_is_said(site: Site) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/d.sock"
        with pytest.raises(StartFailed) as caught:
            await site.ready(host=f"unix://{path}")
        assert caught.value.code == "docker_unavailable"
        assert "there is no such socket" in caught.value.message
        with socket.socket(socket.AF_UNIX) as closed:
            closed.bind(path)
        with pytest.raises(StartFailed) as caught:
            await site.ready(host=f"unix://{path}")
        assert "no process listens" in caught.value.message


async def test_a_daemon_that_does_not_answer_is_given_up(site: Site) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{folder}/d.sock")
        silent.listen()
        with pytest.raises(BackendUnavailable) as caught:
            await site.ready(host=f"unix://{folder}/d.sock", answer_s=0.2)
    assert caught.value.code == "docker_timeout"


@pytest.mark.root("only root can become somebody else")
async def test_a_user_who_may_not_talk_to_the_daemon_is_told_of_the_group(
    site: Site, own_dockerd: Dockerd
) -> None:
    os.chmod(own_dockerd.folder.parent, 0o711)  # noqa: S103 -- somebody else is to reach the socket
    made = site.containers(host=own_dockerd.host)
    name = await made.remember(site.plan())
    for folder in (site.state, site.state / "containers", site.state / "containers" / name):
        os.chown(folder, _NOBODY, -1)
    os.chown(site.state / "containers" / name / "plan", _NOBODY, -1)
    parents = [folder for folder in site.state.parents if folder.stat().st_mode & 1 == 0]
    modes = {folder: folder.stat().st_mode for folder in parents}
    for folder in parents:
        folder.chmod(0o711)
    os.seteuid(_NOBODY)
    try:
        with pytest.raises(StartFailed) as caught:
            await made.ready(name)
    finally:
        os.seteuid(0)
        for folder, mode in modes.items():
            folder.chmod(mode)
    assert caught.value.code == "docker_unavailable"
    assert "group docker" in caught.value.hint


async def test_without_the_client_package_it_is_said_how_to_get_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "aiodocker", None)
    with pytest.raises(StartFailed) as caught:
        await site.ready()
    assert caught.value.code == "docker_unavailable"
    assert "outlive[docker]" in caught.value.hint
