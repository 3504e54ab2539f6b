"""Services with real processes: starts in order, readiness, restarts, stops, and going on after a server's
death.
"""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from outlive.core.errors import ProcessNotFound
from outlive.core.layout import Layout
from outlive.core.process import Owner
from outlive.extensions.services.operations import (
    DownRequest,
    RestartRequest,
    ServicesRequest,
)
from outlive.extensions.services.service_files import KeptStack
from tests.extensions.services.steps import (
    ME,
    Site,
    a_site,
    all_are,
    asked_for,
    bring_down,
    brought_up,
    files_with,
    is_there,
    only_file,
    processes_of,
    seen,
    text_of,
)
from tests.keeper.house import House
from tests.support.server import free_port


@pytest.mark.promise("V.order")
async def test_services_start_when_those_before_them_are_ready(site: Site, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    request = asked_for(
        tmp_path,
        db={
            "command": f"while [ ! -e {gate} ]; do sleep 0.02; done; echo listening; exec sleep 60",
            "ready": {"text": "listening"},
        },
        move={"command": "true", "after": ["db"], "ready": {"exit": True}},
        web={"command": ["sleep", "60"], "after": ["move"]},
    )
    async with brought_up(site, request):
        found = await seen(site, tmp_path, lambda one: one["db"].state == "running")
        assert (found["move"].state, found["web"].state) == ("waiting", "waiting")
        gate.touch()
        found = await seen(site, tmp_path, lambda one: one["web"].state == "ready")
        assert (found["db"].state, found["move"].state) == ("ready", "done")
        db, web = [await site.queries.find(found[name].process_id or "") for name in ("db", "web")]
        assert not web.status.is_ended
        assert (db.record.started_at or 0) < (web.record.started_at or 0)  # type: ignore[operator] # both ran
        assert web.record.tags["service"] == "web"


async def test_readiness_is_seen_by_port_by_http_and_by_pattern(site: Site, tmp_path: Path) -> None:
    port = free_port()
    server = f"exec {subprocess.list2cmdline([sys.executable])} -m http.server {port} --bind 127.0.0.1"
    slow = "echo starting 1; read line < gate; echo port 8123; exec sleep 60"
    os.mkfifo(tmp_path / "gate")
    request = asked_for(
        tmp_path,
        web={"command": server, "ready": {"port": port}},
        answers={"command": "sleep 60", "ready": {"http": f"http://127.0.0.1:{port}/"}, "after": ["web"]},
        wrong={"command": "sleep 60", "ready": {"http": f"http://127.0.0.1:{port}/none"}},
        said={"command": slow, "ready": {"pattern": "^port [0-9]+$"}},
    )
    async with brought_up(site, request):
        found = await seen(site, tmp_path, lambda one: one["answers"].state == "ready")
        assert (found["web"].state, found["wrong"].state, found["said"].state) == (
            "ready",
            "running",
            "running",
        )
        await asyncio.to_thread((tmp_path / "gate").write_text, "go\n")
        await seen(site, tmp_path, lambda one: one["said"].state == "ready")


@pytest.mark.thorough
@pytest.mark.promise("V.restart")
async def test_a_service_that_fails_is_started_again_after_longer_and_longer_rests(
    site: Site, tmp_path: Path
) -> None:
    line = "echo run; date +%s.%N >> times; exit 3"
    request = asked_for(
        tmp_path,
        web={
            "command": line,
            "restart": "on-failure",
            "backoff": {"first": 0.2, "most": 5},
            "max_restarts": 3,
        },
    )
    async with brought_up(site, request):
        found = await seen(site, tmp_path, lambda one: one["web"].state == "failed")
        assert (found["web"].restarts, found["web"].exit_code) == (3, 3)
        times = [float(one) for one in (tmp_path / "times").read_text().split()]
        rests = [after - before for before, after in itertools.pairwise(times)]
        assert len(rests) == 3
        assert all(rest >= least for rest, least in zip(rests, (0.2, 0.4, 0.8), strict=True))
        processes = await processes_of(site, "web", tmp_path)
        assert len(processes) == 4
        assert [await text_of(site, one) for one in processes] == [b"run\n"] * 4


async def test_up_again_leaves_alone_what_is_unchanged_and_stops_what_is_gone(
    site: Site, tmp_path: Path
) -> None:
    same, old, changed = {"command": "sleep 60"}, {"command": "sleep 61"}, {"command": "sleep 62"}
    async with brought_up(site, asked_for(tmp_path, same=same, old=old, changed=changed)):
        before = await seen(site, tmp_path, all_are("ready"))
        await site.services.up(asked_for(tmp_path, same=same, changed={"command": "sleep 63"}), ME)
        after = await seen(
            site,
            tmp_path,
            lambda one: (
                "old" not in one
                and one["changed"].state == "ready"
                and one["changed"].process_id != before["changed"].process_id
            ),
        )
        assert after["same"] == before["same"]
        assert (await site.queries.find(before["old"].process_id or "")).status.is_complete
        assert (await site.queries.find(before["changed"].process_id or "")).status.is_complete


@pytest.mark.thorough
@pytest.mark.promise("V.once")
async def test_the_next_server_goes_on_with_what_lives_and_starts_nothing_twice(
    own_house: House, tmp_path: Path
) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    backoff = {"first": 0.05, "most": 0.4}
    request = asked_for(
        folder,
        stays={"command": "sleep 60"},
        ends={"command": "read x < gate; exit 1", "restart": "on-failure", "backoff": backoff},
        rests={"command": "exit 1", "restart": "always", "backoff": {"first": 6, "most": 6}},
        slow={"command": "read x < ready; echo ready; exec sleep 60", "ready": {"text": "ready"}},
        last={"command": "sleep 60", "after": ["slow"]},
    )
    for name in ("gate", "ready"):
        os.mkfifo(folder / name)
    async with a_site(own_house.state_dir) as first:
        await first.services.up(request, ME)
        before = await seen(
            first,
            folder,
            lambda one: (
                (one["stays"].state, one["ends"].state, one["rests"].state, one["slow"].state)
                == ("ready", "ready", "backing_off", "running")
            ),
        )
    # While no server looks one ends, and one becomes ready.
    await asyncio.to_thread((folder / "gate").write_text, "go\n")
    await asyncio.to_thread((folder / "ready").write_text, "go\n")
    async with a_site(own_house.state_dir) as second:
        after = await seen(
            second,
            folder,
            lambda one: (
                one["ends"].restarts == 1 and one["ends"].state == "ready" and one["last"].state == "ready"
            ),
        )
        for name in ("stays", "slow"):
            assert after[name].process_id == before[name].process_id
        assert after["rests"].until == before["rests"].until
        until = before["rests"].until
        assert until is not None
        found = await seen(
            second, folder, lambda one: one["rests"].restarts >= 1 and one["rests"].state == "backing_off"
        )
        *_, second_run, first_run = await processes_of(second, "rests", folder)
        assert found["rests"].process_id != first_run == before["rests"].process_id
        assert (await second.queries.find(second_run)).record.created_at >= until
        for name in ("stays", "slow", "last"):
            assert len(await processes_of(second, name, folder)) == 1
        assert len(await processes_of(second, "ends", folder)) == 2
        await bring_down(second, folder)


@pytest.mark.promise("V.once")
async def test_a_start_that_was_kept_and_never_asked_for_is_asked_for_under_its_id(
    own_house: House, tmp_path: Path
) -> None:
    """What a server leaves behind that is killed between the two."""
    folder = tmp_path / "p"
    folder.mkdir()
    async with a_site(own_house.state_dir) as first:
        await first.services.up(asked_for(folder, web={"command": "sleep 60"}), ME)
        await bring_down(first, folder)
    file = only_file(own_house)
    kept = msgspec.json.decode(file.read_bytes(), type=KeptStack)
    one = kept.services["web"]
    wanted = (one.process_id or "")[:-6] + "zzzzzz"
    one.phase, one.is_wanted, one.process_id = type(one.phase)("starting"), True, wanted
    file.write_bytes(msgspec.json.encode(kept))
    async with a_site(own_house.state_dir) as second:
        found = await seen(second, folder, all_are("ready"))
        assert found["web"].process_id == wanted
        await bring_down(second, folder)


@pytest.mark.promise("V.environment")
async def test_a_service_gets_what_was_kept_and_its_files_which_are_kept_nowhere(
    own_house: House, tmp_path: Path
) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    secret = "hunter2-in-a-file"
    (folder / ".env").write_text(f"TOKEN={secret}\nLEVEL=file\n")
    os.environ["ONLY_OF_THE_SERVER"] = "x"
    line = 'echo "$TOKEN $LEVEL $KIND ${ONLY_OF_THE_SERVER-none}"; test -n "$PATH"; exec sleep 60'
    service = {
        "command": line,
        "environment": {"LEVEL": "own", "KIND": "a"},
        "env_file": [str(folder / ".env")],
        "ready": {"text": "own"},
    }
    try:
        async with a_site(own_house.state_dir) as site:
            await site.services.up(asked_for(folder, web=service), ME)
            found = await seen(site, folder, all_are("ready"))
            assert await text_of(site, found["web"].process_id) == f"{secret} own a none\n".encode()
            (folder / ".env").write_text("TOKEN=changed\n")
            await site.services.restart(RestartRequest(folder=str(folder), names=("web",)), ME)
            was = found["web"].process_id
            found = await seen(
                site, folder, lambda one: one["web"].process_id != was and one["web"].state == "ready"
            )
            assert await text_of(site, found["web"].process_id) == b"changed own a none\n"
            await bring_down(site, folder)
    finally:
        del os.environ["ONLY_OF_THE_SERVER"]
    assert files_with(secret, own_house) == []
    assert only_file(own_house).stat().st_mode & 0o777 == 0o600


async def test_a_file_of_variables_that_is_missing_fails_the_start_in_words(
    site: Site, tmp_path: Path
) -> None:
    request = asked_for(tmp_path, web={"command": "true", "env_file": [str(tmp_path / "none")]})
    async with brought_up(site, request):
        found = await seen(site, tmp_path, lambda one: one["web"].state == "failed")
        assert found["web"].error == f"env_file {tmp_path}/none: No such file or directory."


async def test_a_stop_sends_the_signal_that_was_chosen_and_kills_after_the_grace(
    site: Site, tmp_path: Path
) -> None:
    heeds = "trap 'echo got it; exit 0' INT; echo up; while :; do sleep 0.05; done"
    deaf = "trap '' INT TERM; echo up; while :; do sleep 0.05; done"
    request = asked_for(
        tmp_path,
        heeds={"command": heeds, "stop_signal": "INT", "grace": 15, "ready": {"text": "up"}},
        deaf={"command": deaf, "stop_signal": "INT", "grace": 0.3, "ready": {"text": "up"}},
    )
    await site.services.up(request, ME)
    found = await seen(site, tmp_path, all_are("ready"))
    await site.services.down(DownRequest(folder=str(tmp_path)), ME)
    after = await seen(site, tmp_path, all_are("stopped"))
    assert await text_of(site, found["heeds"].process_id) == b"up\ngot it\n"
    assert (after["heeds"].exit_code, after["deaf"].exit_code) == (0, -signal.SIGKILL)


async def test_a_server_is_wanted_while_there_is_something_to_see_to(
    own_house: House, tmp_path: Path
) -> None:
    mark = Layout(str(own_house.state_dir)).server_wanted
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    async with a_site(own_house.state_dir) as site:
        await site.services.up(asked_for(tmp_path / "a", web={"command": "sleep 60"}), ME)
        await site.services.up(asked_for(tmp_path / "b", job={"command": "true"}), ME)
        await seen(site, tmp_path / "b", all_are("done"))
        assert is_there(mark)
    async with a_site(own_house.state_dir) as site:
        assert is_there(mark)
        await bring_down(site, tmp_path / "a")
        assert not is_there(mark)


async def test_services_are_their_principals_alone(site: Site, tmp_path: Path) -> None:
    other = Owner(principal="other")
    async with brought_up(site, asked_for(tmp_path, web={"command": "sleep 60"})):
        assert (await site.services.list(ServicesRequest(), other)).stacks == []
        with pytest.raises(ProcessNotFound):
            await site.services.down(DownRequest(folder=str(tmp_path)), other)
        with pytest.raises(ProcessNotFound, match="Did you mean 'web'"):
            await site.services.restart(RestartRequest(folder=str(tmp_path), names=("wev",)), ME)
