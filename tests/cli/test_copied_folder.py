"""The command line on a copy of a state folder, and on one that was moved while its server serves it."""

import json
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from outlive.core.layout import Layout
from outlive.store.queue_store import QueueStore, WaitingCommand
from tests.cli.launching import run
from tests.keeper.client import until
from tests.keeper.house import House, sh
from tests.support.processes import is_alive, wait_state_folder_empty
from tests.support.rpc import connect
from tests.support.server import OutliveServer

pytestmark = pytest.mark.thorough


def _listed(state_dir: Path, *words: str) -> dict[str, dict[str, Any]]:
    done = run("ps", "--json", "--state-dir", str(state_dir), *words)
    assert done.returncode == 0, done.stderr
    return {row["process_id"]: row for row in json.loads(done.stdout)["processes"]}


def _end_all(state_dir: Path) -> None:
    """End the server that a verb has started, and the keeper."""
    assert run("keeper", "stop", "--kill", "--state-dir", str(state_dir)).returncode == 0
    assert not wait_state_folder_empty(state_dir)


@pytest.mark.promise("A.copy")
async def test_what_lives_is_lost_in_a_copy_and_says_why(own_server: OutliveServer) -> None:
    copy = own_server.state_dir.with_name("copy")
    async with connect(own_server.url) as client:
        process_id = (await client.execute("echo early; sleep 1000", detach=True))["process_id"]
        (pid,) = [row["pid"] for row in _listed(own_server.state_dir).values()]
    await anyio.run_process(["cp", "-a", str(own_server.state_dir), str(copy)])
    try:
        row = _listed(copy, "--all")[process_id]
        assert (row["state"], row["exit_code"]) == ("lost", None)
        assert "copied" in row["error"]
        assert run("kill", process_id, "--state-dir", str(copy)).returncode != 0
        assert run("keeper", "stop", "--kill", "--state-dir", str(copy)).returncode in {0, 1}
    finally:
        _end_all(copy)
    assert is_alive(pid)
    assert list(_listed(own_server.state_dir)) == [process_id]


@pytest.mark.promise("A.moved")
async def test_a_server_whose_folder_is_moved_leaves_it_to_the_next(own_server: OutliveServer) -> None:
    async with connect(own_server.url) as client:
        process_id = (await client.execute("echo early; sleep 1000", detach=True))["process_id"]
    old = json.loads((own_server.state_dir / "server.json").read_text())["pid"]
    place = own_server.state_dir.with_name("elsewhere")
    own_server.state_dir.rename(place)
    try:
        until(lambda: not is_alive(old), "the server's end")
        assert list(_listed(place)) == [process_id]
        assert run("kill", process_id, "--state-dir", str(place)).returncode == 0
        assert not own_server.state_dir.exists()
    finally:
        _end_all(place)


@pytest.mark.promise("A.copy")
def test_what_waits_is_not_started_a_second_time_in_a_copy(own_house: House) -> None:
    """It waits in the original, or ran there since."""
    process_id, _ = own_house.spec(*sh("echo twice"))
    room = QueueStore(own_house.layout)
    room.open()
    started = own_house.start(*sh("true"))
    own_house.client.wait_done(started)
    raw = (own_house.folder(started) / "spec").read_bytes()
    room.put(WaitingCommand(process_id, raw, b""))
    copied = own_house.state_dir.with_name("copy")
    shutil.copytree(own_house.state_dir, copied, ignore=shutil.ignore_patterns("*.sock", "sock"))
    with House(copied) as copy:
        waiting, _ = QueueStore(Layout(str(copied))).open()
        assert waiting == []
        assert b"lost" in (copy.folder(process_id) / "exit").read_bytes()
    assert [one.process_id for one in QueueStore(own_house.layout).open()[0]] == [process_id]
