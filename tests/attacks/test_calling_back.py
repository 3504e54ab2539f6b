"""A command that we started calls back on every socket: it gets nowhere without a token of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlive.kernel.state_files import read_pid
from tests.attacks.attacking import Requests, create_token, inside
from tests.attacks.pid_reuse import DOORS, KERNELS
from tests.support.fixtures import ServerFactory
from tests.support.server import OutliveServer, run_outlive

pytestmark = [pytest.mark.walls, pytest.mark.thorough]

_KEEPER = ("hello", "stop", "end", "retire")
_DOORS = ("unix", "tcp", "tcp6")


@pytest.mark.promise("A.inside")
@pytest.mark.parametrize("way", ["child", "cleared", "daemon", "grandchild"])
def test_a_command_is_let_in_nowhere_by_its_user(besieged: OutliveServer, tmp_path: Path, way: str) -> None:
    mine = Requests(besieged)
    victim = mine.start("echo a secret; sleep 60")["process_id"]
    found = inside(besieged, tmp_path, way=way, target=victim)
    for door in _DOORS:
        assert found[door] == [401, "inside_process"], found
        assert found[f"{door} read"] == [401, "inside_process"], found
    for operation in _KEEPER:
        assert found[f"keeper {operation}"] == "inside_process", found
    assert mine("GET", f"/v1/processes/{victim}").body["state"] == "running"
    mine("POST", f"/v1/processes/{victim}/control", body={"action": "cancel", "grace": 0})


@pytest.mark.promise("A.inside", "A.token", "A.owner")
def test_with_a_token_it_is_that_tokens_principal_and_the_keeper_stays_shut(
    besieged: OutliveServer, tmp_path: Path
) -> None:
    mine = Requests(besieged)
    victim = mine.start("echo a secret; sleep 60")["process_id"]
    token = create_token(besieged, "run", name="caller")
    found = inside(besieged, tmp_path, way="daemon", target=victim, token=token)
    for door in _DOORS:
        assert found[door] == [201, None], found
        assert found[f"{door} read"] == [404, "process_not_found"], found
    for operation in _KEEPER:
        assert found[f"keeper {operation}"] == "inside_process", found
    mine("POST", f"/v1/processes/{victim}/control", body={"action": "cancel", "grace": 0})


@pytest.mark.promise("A.inside")
@pytest.mark.parametrize("way", ["child", "daemon"])
def test_what_a_command_starts_with_a_token_is_bound_no_less_than_it_is_itself(
    besieged: OutliveServer, tmp_path: Path, way: str
) -> None:
    token = create_token(besieged, "admin")
    found = inside(besieged, tmp_path, way=way, target="x", token=token, profiles=("guarded", "open"))
    for door in _DOORS:
        assert found[door] == [403, "profile_too_weak"], found
    found = inside(
        besieged, tmp_path, way="cleared", target="x", token=token, profiles=("guarded", "guarded")
    )
    for door in _DOORS:
        assert found[door] == [201, None], found


@pytest.mark.promise("A.inside", "A.peer")
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_pid_of_a_dead_child_is_no_identity(tmp_path: Path, kernel: str) -> None:
    """A process outside got the pid of the child that connected, and the command was admin.

    "stopped": server or supervisor did not run while the child lived, and accept the connection later.
    """
    namespace = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    namespace += ["--pid", "--fork", "--mount-proc", "--kill-child"]
    done = subprocess.run(
        [*namespace, sys.executable, "-m", "tests.attacks.pid_reuse", kernel, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("own") == "200"
    assert {door: answer for door, answer in found.items() if answer not in {"401", "inside_process"}} == {}
    assert set(found) == set(DOORS)


@pytest.mark.promise("A.inside")
def test_a_command_whose_shim_was_killed_is_still_known_by_its_session_and_its_environment(
    serve: ServerFactory, tmp_path: Path
) -> None:
    """The ancestry of such a command ends at pid 1 (or at a keeper that adopts it)."""
    server = serve()
    mine = Requests(server)
    gate, answer = tmp_path / "gate", tmp_path / "answer"
    port = server.ready["ports"]["rest"]
    call = f"curl -s -o /dev/null -w '%{{http_code}}' http://localhost:{port}/v1/processes > {answer}"
    line = f"until [ -e {gate} ]; do sleep 0.02; done; {call}; mv {answer} {answer}.done; sleep 60"
    process = mine.start(line)
    record = read_pid(f"{server.state_dir}/processes/{process['process_id']}")
    assert record is not None
    os.kill(record.shim_pid, signal.SIGKILL)
    gate.touch()
    _wait_for(Path(f"{answer}.done"))
    assert Path(f"{answer}.done").read_text() == "401"
    mine("POST", f"/v1/processes/{process['process_id']}/control", body={"action": "cancel", "grace": 0})


@pytest.mark.promise("A.inside")
def test_a_daemon_is_known_when_guardian_and_supervisor_have_been_replaced(
    serve: ServerFactory, tmp_path: Path
) -> None:
    """Its shim was forked by a guardian that is gone, and is a child of pid 1 by now."""
    server = serve()
    victim = Requests(server).start("sleep 60")["process_id"]
    for part in ("guardian", "supervisor"):
        pid = _keeper(server)[part]["pid"]
        os.kill(pid, signal.SIGKILL)
        _until(lambda part=part, pid=pid: _keeper(server)[part]["pid"] not in {None, pid})  # type: ignore[misc] # bound at once
    _until(lambda: bool(_keeper(server)["redundant"]))
    found = inside(server, tmp_path, way="daemon", target=victim)
    for door in _DOORS:
        assert found[door] == [401, "inside_process"], found
    for operation in _KEEPER:
        assert found[f"keeper {operation}"] == "inside_process", found


def _keeper(server: OutliveServer) -> dict[str, Any]:
    done = run_outlive("keeper", "status", "--json", state_dir=server.state_dir)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.02)
