"""A disk that takes nothing, seen from outside: the server starts, tells, reads, ends and removes, and is
whole again later.
"""

import contextlib
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from outlive.kernel.files import is_written
from outlive.kernel.state_files import read_end
from tests.keeper.client import until
from tests.keeper.disks import fill_up, freezable_disk, frozen, read_only, small_disk, take_inodes
from tests.mcp_http.raw_caller import RawCaller
from tests.rest.rest_caller import RestCaller
from tests.support.processes import Marker, is_alive
from tests.support.rpc import RpcFailure, connect
from tests.support.server import OutliveServer, run_outlive

pytestmark = [
    pytest.mark.root("only root may mount a small file system"),
    pytest.mark.thorough,
    pytest.mark.promise("F.degraded"),
]

_DISK_BYTES = 64 << 20  # of which the reserve is a sixteenth, 4 MiB
_PIECES = 2000 // 16  # a piece is an inode, and of them a sixteenth, too
_HISTORY = 5
_LATE_S = 6  # a timeout that comes in a spell which begins some seconds before it


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB and 2000 inodes."""
    with small_disk(tmp_path / "disk", _DISK_BYTES) as folder:
        yield folder


@pytest.fixture
def server(disk: Path) -> Iterator[OutliveServer]:
    """A server there, which is left with space again."""
    with OutliveServer(disk / "state") as one:
        yield one


def _cli(server: OutliveServer, *words: str) -> str:
    said = run_outlive(*words, state_dir=server.state_dir)
    assert said.returncode == 0, (words, said.stdout, said.stderr)
    return said.stdout


def _rpc(server: OutliveServer, method: str, **params: object) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        async with connect(server.url) as client:
            return await client.request(method, **params)

    return anyio.run(ask)


def _greeting(server: OutliveServer) -> dict[str, Any]:
    async def look() -> dict[str, Any]:
        async with connect(server.url) as client:
            return dict(client.hello)

    return anyio.run(look)


def _mcp(server: OutliveServer) -> RawCaller:
    return RawCaller.begin(server.mcp_url)


def _live(server: OutliveServer) -> tuple[list[str], str]:
    """Run some commands to their end, and leave one running; returns the ids of both."""
    ended = []
    for number in range(_HISTORY):
        started = _rpc(server, "execute", command=f"head -c 50000 /dev/zero; exit {number}", detach=True)
        ended.append(started["process_id"])
        _rpc(server, "wait", process_id=started["process_id"])
    runs = _rpc(server, "execute", command="while :; do echo tick; sleep 0.1; done", detach=True)
    return ended, runs["process_id"]


def _wait_reserve(server: OutliveServer) -> None:
    """Return when the reserve is whole."""
    until(lambda: len(list(server.state_dir.glob("reserve/*"))) >= _PIECES, "the reserve")


def _check_doors(server: OutliveServer, word: str) -> None:
    """See that every door says it, and what looks at the folder itself."""
    _check_server(server, word)
    assert json.loads(_cli(server, "keeper", "status", "--json"))["degraded"] == word
    said = run_outlive("doctor", "--json", state_dir=server.state_dir)
    found = next(one for one in json.loads(said.stdout)["checks"] if one["name"] == "state folder")
    assert (found["ok"], word in found["detail"]) == (False, True)


def _check_server(server: OutliveServer, word: str) -> None:
    """See that every door of the server says it."""
    rest = RestCaller(server.rest_url)
    ready = rest.send("GET", "/readyz")
    assert (ready.status, ready.json["degraded"], ready.json["slug"]) == (503, word, word)
    assert rest.call("GET", "/health").json["degraded"] == word
    assert rest.call("GET", "/v1/processes").json["degraded"] == word
    assert rest.call("GET", "/api/async/processes/list/").json["degraded"] == word
    assert _greeting(server)["degraded"] == word
    assert _rpc(server, "list")["degraded"] == word
    listed = _mcp(server).call("list_processes").json["result"]
    assert listed["structuredContent"]["degraded"] == word
    assert word in listed["content"][0]["text"]
    assert f"degraded: {word}" in _mcp(server).call("list").text
    assert json.loads(_cli(server, "ps", "--json"))["degraded"] == word
    assert word in run_outlive("ps", state_dir=server.state_dir).stderr


def _check_readable(server: OutliveServer, ended: list[str], runs: str) -> None:
    listed = {one["process_id"]: one for one in _rpc(server, "list")["processes"]}
    assert [listed[one]["exit_code"] for one in ended] == list(range(_HISTORY))
    assert listed[runs]["state"] == "running"
    assert _cli(server, "logs", ended[0]) == "\0" * 50_000
    assert "exit 4" in _cli(server, "inspect", ended[4])


def _check_whole(server: OutliveServer) -> None:
    """See that the server starts commands again, without having been restarted, and says nothing any more."""
    rest = RestCaller(server.rest_url)
    until(lambda: rest.send("GET", "/readyz").status == 200, "readiness")
    assert "degraded" not in rest.call("GET", "/health").json
    assert "degraded" not in _rpc(server, "list")
    started = _rpc(server, "execute", command="exit 7", detach=True)
    assert _rpc(server, "wait", process_id=started["process_id"])["exit_code"] == 7
    _wait_reserve(server)


@pytest.mark.parametrize("lack", ["space", "inodes"])
def test_a_server_starts_without_room_and_tells_so_at_every_door(
    server: OutliveServer, disk: Path, lack: str
) -> None:
    ended, runs = _live(server)
    _wait_reserve(server)
    server.kill()
    taken = [fill_up(disk)] if lack == "space" else take_inodes(disk)
    server.start()
    _check_doors(server, "disk_full")
    _check_readable(server, ended, runs)
    began = time.monotonic()
    with pytest.raises(RpcFailure, match="disk_full") as refused:
        _rpc(server, "execute", command="true")
    assert refused.value.hint
    assert time.monotonic() - began < 10, "a start hung"
    _rpc(server, "control", action="CANCEL", process_id=runs)
    assert _rpc(server, "wait", process_id=runs, wait_s=15)["cause"] == "cancel"
    before = os.statvfs(disk)
    _rpc(server, "remove", process_id=ended[0])
    after = os.statvfs(disk)
    assert (after.f_bfree, after.f_ffree) > (before.f_bfree, before.f_ffree), "removing frees space"
    for path in taken:
        path.unlink()
    _check_whole(server)
    assert ended[0] not in {one["process_id"] for one in _rpc(server, "list")["processes"]}


def test_on_a_full_disk_history_is_removed_from_the_command_line_and_through_rest(
    server: OutliveServer, disk: Path
) -> None:
    ended, runs = _live(server)
    _wait_reserve(server)
    first = fill_up(disk)
    until(lambda: _rpc(server, "list").get("degraded") == "disk_full", "to be told so")
    rest = RestCaller(server.rest_url)
    before = os.statvfs(disk).f_bfree
    assert rest.call("DELETE", f"/v1/processes/{ended[0]}").json["removed"] is True
    assert os.statvfs(disk).f_bfree > before
    assert rest.call("GET", "/v1/processes").json["degraded"] == "disk_full"
    ballast = [first.rename(disk / "ballast before"), fill_up(disk)]  # what was removed is taken, too
    assert json.loads(_cli(server, "prune", "--dry-run", "--json"))["degraded"] == "disk_full"
    before = os.statvfs(disk).f_bfree
    said = run_outlive("prune", "--yes", state_dir=server.state_dir)
    assert (said.returncode, "degraded: disk_full" in said.stderr) == (0, True), said
    assert "4 processes removed" in said.stderr
    assert os.statvfs(disk).f_bfree > before
    assert [one["process_id"] for one in _rpc(server, "list")["processes"]] == [runs]
    for path in ballast:
        path.unlink()
    _check_whole(server)


def test_a_registry_in_memory_goes_back_into_its_file(server: OutliveServer, disk: Path) -> None:
    """The file cannot be opened for writing on a full disk once its helpers -wal and -shm are gone."""
    ended, runs = _live(server)
    server.stop()  # in order: SQLite removes -wal and -shm
    ballast, inodes = fill_up(disk), take_inodes(disk)
    server.start()
    _check_readable(server, ended, runs)
    _rpc(server, "remove", process_id=ended[1])
    _rpc(server, "control", action="CANCEL", process_id=runs)
    _rpc(server, "wait", process_id=runs, wait_s=15)
    for path in (ballast, *inodes):
        path.unlink()
    _check_whole(server)
    server.kill()
    with sqlite3.connect(server.state_dir / "registry.db") as file:
        rows = dict(file.execute("SELECT process_id, cause FROM processes"))
    file.close()
    assert rows[runs] == "cancel"
    assert ended[1] not in rows
    assert set(ended[:1] + ended[2:]) <= set(rows)
    assert not list(server.state_dir.glob("*damaged*")), "nothing was damaged"
    server.start()


def test_what_waits_for_its_turn_waits_until_there_is_space(server: OutliveServer, disk: Path) -> None:
    first = _rpc(server, "execute", command="sleep 600", detach=True, group="one", group_limit=1)
    second = _rpc(server, "execute", command="exit 5", detach=True, group="one")
    third = _rpc(server, "execute", command="exit 6", detach=True, group="one")
    _wait_reserve(server)
    ballast = fill_up(disk)
    _rpc(server, "control", action="CANCEL", process_id=third["process_id"])
    _rpc(server, "control", action="CANCEL", process_id=first["process_id"])
    assert _rpc(server, "wait", process_id=first["process_id"], wait_s=15)["timed_out"] is False
    assert _rpc(server, "wait", process_id=second["process_id"], wait_s=1.5)["timed_out"] is True
    ballast.unlink()
    assert _rpc(server, "wait", process_id=second["process_id"], wait_s=20)["exit_code"] == 5
    assert _rpc(server, "get", process_id=third["process_id"])["cause"] == "cancel"


def test_the_command_that_has_filled_the_disk_can_be_ended_and_removed(tmp_path: Path) -> None:
    """What it left in its pipe takes room that is kept for that; the disk is empty afterwards."""
    with small_disk(tmp_path / "disk", _DISK_BYTES) as folder, OutliveServer(folder / "state") as server:
        _wait_reserve(server)
        filling = _rpc(server, "execute", command="yes | head -c 600000000", detach=True)["process_id"]
        until(lambda: _rpc(server, "get", process_id=filling)["stalled"], "a full disk", patience_s=30.0)
        until(lambda: "degraded" in _rpc(server, "list"), "to be told so")
        _rpc(server, "control", action="CANCEL", process_id=filling)
        assert _rpc(server, "wait", process_id=filling, wait_s=15)["timed_out"] is False
        _rpc(server, "remove", process_id=filling)
        _check_whole(server)


def test_on_a_read_only_file_system_commands_are_read_and_ended(server: OutliveServer, disk: Path) -> None:
    ended, runs = _live(server)
    leaving = _rpc(server, "execute", command="sleep 600", detach=True)["process_id"]
    with read_only(disk):
        until(lambda: _rpc(server, "list").get("degraded") == "read_only", "to be told so")
        _check_doors(server, "read_only")
        _check_readable(server, ended, runs)
        with pytest.raises(RpcFailure, match="read_only"):
            _rpc(server, "execute", command="true")
        with pytest.raises(RpcFailure, match="read_only"):
            _rpc(server, "remove", process_id=ended[0])
        for number, process_id in ((15, runs), (9, leaving)):
            _rpc(server, "signal", process_id=process_id, signal=number)
            found = _rpc(server, "wait", process_id=process_id, wait_s=15)
            assert (found["timed_out"], found["exit_code"]) == (False, -number)
    _check_whole(server)
    server.restart()
    assert _rpc(server, "get", process_id=leaving)["exit_code"] == -9, "it was written down later"
    until(lambda: server.keeper_status().processes == 0, "an empty keeper")
    assert "Traceback" not in (server.state_dir / "keeper.log").read_text()


def test_on_a_read_only_file_system_cancels_and_timeouts_end_deaf_trees(
    server: OutliveServer, disk: Path, marker: Marker
) -> None:
    """Neither the stop nor the end can be recorded then: both are carried out, told, and recorded later."""
    deaf = f"trap '' TERM; (trap '' TERM; setsid {marker.sleep}; :) & {marker.sleep}; sleep 600"
    cancelled = _rpc(server, "execute", command=deaf, detach=True)["process_id"]
    late = _rpc(server, "execute", command=deaf, detach=True, timeout=_LATE_S, grace=0.5)["process_id"]
    until(lambda: len(marker.pids()) == 4, "both trees")
    with read_only(disk):
        until(lambda: _rpc(server, "list").get("degraded") == "read_only", "to be told so")
        _rpc(server, "control", action="CANCEL", process_id=cancelled, grace=0.5)
        for process_id, cause in ((cancelled, "cancel"), (late, "timeout")):
            found = _rpc(server, "wait", process_id=process_id, wait_s=30)
            assert (found["timed_out"], found["exit_code"], found["cause"]) == (False, -9, cause)
        assert marker.pids() == []
        removed = RestCaller(server.rest_url).call("DELETE", f"/v1/processes/{late}", expect=507).json
        assert removed["slug"] == "read_only"
        said = run_outlive("prune", "--yes", state_dir=server.state_dir)
        assert (said.returncode, said.stderr.count("degraded: read_only")) == (1, 1), said
    _check_whole(server)
    server.restart()
    for process_id, cause in ((cancelled, "cancel"), (late, "timeout")):
        found = _rpc(server, "get", process_id=process_id)
        assert (found["exit_code"], found["cause"]) == (-9, cause)


def test_an_end_that_no_shim_could_record_is_recorded_before_the_process_is_done(
    server: OutliveServer, tmp_path: Path
) -> None:
    """The command ends while the file system is read-only.

    What it left running ends when it is not, and completes the process.
    """
    go, leave = tmp_path / "go", tmp_path / "leave"
    line = f"until [ -e {go} ]; do sleep 0.05; done; (until [ -e {leave} ]; do sleep 0.05; done) & exit 5"
    started = _rpc(server, "execute", command=line, detach=True, after_exit="wait")["process_id"]
    shell = _rpc(server, "get", process_id=started)["pid"]
    folder = server.state_dir / "processes" / started
    with read_only(server.state_dir.parent):
        go.touch()
        until(lambda: not is_alive(shell), "its end")
        until(lambda: _rpc(server, "list").get("degraded") == "read_only", "to be told so")
    assert read_end(str(folder)) is None, "recorded in spite of it: this proves nothing"
    leave.touch()
    assert _rpc(server, "wait", process_id=started, wait_s=15)["exit_code"] == 5
    until(lambda: is_written(str(folder / "done")), "its record")
    ended = read_end(str(folder))
    assert ended is not None
    assert (ended.kind, ended.number) == ("exited", 5)
    server.restart()
    assert _rpc(server, "get", process_id=started)["exit_code"] == 5


def test_a_keeper_that_dies_on_a_read_only_file_system_comes_back_with_it(
    server: OutliveServer, disk: Path
) -> None:
    """Without a supervisor nothing can be ended.

    The shims hold everything, and each verb says what is wrong.
    """
    _, runs = _live(server)
    with read_only(disk):
        status = server.keeper_status()
        assert status.supervisor_pid is not None
        os.kill(status.supervisor_pid, 9)
        until(lambda: server.keeper_status().supervisor_pid is None, "its end")
        said = run_outlive("keeper", "status", state_dir=server.state_dir)
        assert (said.returncode, "read_only" in said.stdout, "Traceback" in said.stderr) == (0, True, False)
        said = run_outlive("serve", state_dir=server.state_dir)
        assert (said.returncode != 0, "Traceback" in said.stderr) == (True, False)
    until(lambda: server.keeper_status().supervisor_pid, "the next supervisor", patience_s=30.0)
    _check_whole(server)
    assert _rpc(server, "get", process_id=runs)["state"] == "running"
    assert "Traceback" not in (server.state_dir / "keeper.log").read_text()


@pytest.mark.parametrize("dies", [False, True])
def test_a_frozen_disk_hides_nothing_and_what_was_cancelled_meanwhile_ends(
    tmp_path: Path, *, dies: bool
) -> None:
    """Lists and probes answer from memory.

    A supervisor that waits for its disk does not count as hung: killed, it would forget what it was asked.
    """
    with freezable_disk(tmp_path / "disk", _DISK_BYTES) as disk, OutliveServer(disk / "state") as server:
        rest = RestCaller(server.rest_url)
        _, started = _live(server)
        _mcp(server)  # the first session makes a key, which is written down
        status = server.keeper_status()
        with frozen(disk):
            stopping = rest.send("POST", f"/v1/processes/{started}/control", {"action": "cancel"})
            assert (stopping.status, stopping.json["slug"]) == (504, "timeout")
            _check_server(server, "disk_silent")
            listed = rest.call("GET", "/v1/processes").json
            assert {one["process_id"] for one in listed["processes"]} >= {started}
            assert "running" in _cli(server, "ps")
            if dies:
                for pid in (status.supervisor_pid, status.guardian_pid):
                    assert pid is not None
                    os.kill(pid, 9)
        until(lambda: _rpc(server, "get", process_id=started)["cause"] == "cancel", "its end")
        until(lambda: rest.send("GET", "/readyz").status == 200, "the disk")
        assert (server.keeper_status().supervisor_pid == status.supervisor_pid) is not dies


def _remove_beside_its_server(folder: Path) -> None:
    """The server may write a file into it meanwhile: as with `rm -rf`, whoever wants it gone says it once
    more.
    """
    for _ in range(100):
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)
        if not folder.exists():
            return
    raise AssertionError("it comes back")


def test_a_server_whose_folder_is_gone_is_not_ready_and_leaves_the_next_one_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with OutliveServer(folder) as server:
        assert RestCaller(server.rest_url).call("GET", "/readyz").status == 200
        # A server that has not reached its keeper yet, which is slow under load, waits 25 s for one that
        # cannot come any more.
        _rpc(server, "execute", command="true")
        _remove_beside_its_server(folder)
        answer = RestCaller(server.rest_url).send("GET", "/readyz")
        assert (answer.status, answer.json["slug"], answer.json["degraded"]) == (
            503,
            "folder_gone",
            "folder_gone",
        )
        assert RestCaller(server.rest_url).call("GET", "/health").json["degraded"] == "folder_gone"
        with pytest.raises(RpcFailure, match="folder_gone"):
            _rpc(server, "execute", command="true")
        with OutliveServer(folder) as other:  # a new one in its place
            assert server.stop() == 0
            assert (folder / "server.sock").exists()
            assert (folder / "server.json").exists()
            assert not (folder / "server.stopped").exists()
            assert "Nothing runs" in run_outlive("ps", "--no-start", state_dir=folder).stderr
            assert other.is_running
