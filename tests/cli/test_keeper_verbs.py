"""`outlive keeper status | upgrade | stop` on real keepers, with and without a server."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.launching import launched, run
from tests.support.fixtures import ServerFactory
from tests.support.processes import is_alive, wait_dead
from tests.support.rpc import connect
from tests.support.server import OutliveServer

_NOBODY = {
    "guardian": {"pid": None},
    "supervisor": {"pid": None},
    "processes": 0,
    "redundant": False,
}


def _keeper(verb: str, state_dir: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # What stays stopped in a test (`stays_stopped`) is not continued by a verb, either.
    env = {name: os.environ[name] for name in ("OUTLIVE_DEGRADE",) if name in os.environ}
    return run("keeper", verb, "--state-dir", str(state_dir), *words, env=env)


def _status(state_dir: Path) -> dict[str, Any]:
    answer = _keeper("status", state_dir, "--json")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("\n") == 1
    document: dict[str, Any] = json.loads(answer.stdout)
    return document


def test_without_a_keeper_the_verbs_say_so(tmp_path: Path) -> None:
    state_dir = tmp_path / "nothing"
    assert _status(state_dir) == _NOBODY
    assert "No keeper runs" in _keeper("status", state_dir).stdout
    stopped = _keeper("stop", state_dir)
    assert (stopped.returncode, stopped.stderr) == (0, "No keeper runs.\n")
    upgraded = _keeper("upgrade", state_dir)
    assert upgraded.returncode == 1
    assert "No keeper answers" in upgraded.stderr
    assert not state_dir.exists()


async def test_status_counts_and_stop_refuses_while_processes_live(own_server: OutliveServer) -> None:
    async with connect(own_server.url) as client:
        started = await client.execute("sleep 1000", detach=True)
        status = _status(own_server.state_dir)
        assert status["processes"] == 1
        assert status["redundant"] is True
        assert is_alive(status["guardian"]["pid"])
        assert is_alive(status["supervisor"]["pid"])
        text = _keeper("status", own_server.state_dir).stdout
        assert str(status["supervisor"]["pid"]) in text
        assert "held twice" in text
        refused = _keeper("stop", own_server.state_dir)
        assert refused.returncode == 1
        assert "One process lives" in refused.stderr
        assert "--kill" in refused.stderr
        assert is_alive(started["pid"])
    own_server.stop()
    killed = _keeper("stop", own_server.state_dir, "--kill")
    assert killed.returncode == 0, killed.stderr
    assert not is_alive(started["pid"])
    assert _status(own_server.state_dir) == _NOBODY


async def test_upgrade_replaces_both_and_every_command_goes_on(own_server: OutliveServer) -> None:
    async with connect(own_server.url) as client:
        started = await client.execute("echo one; sleep 1000", detach=True)
        before = _status(own_server.state_dir)
        answer = _keeper("upgrade", own_server.state_dir, "--json")
        assert answer.returncode == 0, answer.stderr
        upgraded = json.loads(answer.stdout)
        assert upgraded["old"] == {part: before[part]["pid"] for part in ("supervisor", "guardian")}
        assert not set(upgraded["new"].values()) & set(upgraded["old"].values())
        assert upgraded["processes"] == 1
        print(f"upgraded in {upgraded['ms']} ms")
        for pid in upgraded["old"].values():
            assert not is_alive(pid)
        assert is_alive(started["pid"])
        assert "Upgraded in" in _keeper("upgrade", own_server.state_dir).stdout


@pytest.mark.thorough
async def test_stop_kill_reaches_processes_that_nobody_keeps_any_more(tmp_path: Path) -> None:
    """Server, supervisor and guardian dead at once: only a new keeper can end what they left."""
    state_dir = tmp_path / "state"
    with launched(state_dir, "--print-json", "--jsonrpc-port", "0") as server:
        port = server.ready()["ports"]["jsonrpc"]
        async with connect(f"ws://127.0.0.1:{port}/ws/mcp") as client:
            started = await client.execute("sleep 1000", detach=True)
        status = _status(state_dir)
        for pid in (server.process.pid, status["guardian"]["pid"], status["supervisor"]["pid"]):
            os.kill(pid, signal.SIGSTOP)
        for pid in (server.process.pid, status["guardian"]["pid"], status["supervisor"]["pid"]):
            os.kill(pid, signal.SIGKILL)
        await wait_dead(status["supervisor"]["pid"])
        await wait_dead(status["guardian"]["pid"])
        assert _status(state_dir) == {**_NOBODY, "processes": 1}
        stopped = _keeper("stop", state_dir, "--kill")
        assert stopped.returncode == 0, stopped.stderr
        assert not is_alive(started["pid"])


@pytest.mark.usefixtures("stays_stopped")
@pytest.mark.thorough
def test_a_supervisor_that_hangs_is_asked_again_when_it_was_replaced(serve: ServerFactory) -> None:
    server = serve(OUTLIVE_KEEPER_HUNG_TICKS=1)  # by default the guardian waits 5 s
    hung = _status(server.state_dir)["supervisor"]["pid"]
    os.kill(hung, signal.SIGSTOP)
    assert _status(server.state_dir)["supervisor"]["pid"] not in {hung, None}


@pytest.mark.usefixtures("stays_stopped")
@pytest.mark.slow
def test_a_keeper_that_hangs_as_a_whole_is_reported_in_time(own_server: OutliveServer) -> None:
    status = _status(own_server.state_dir)
    pids = [status[part]["pid"] for part in ("guardian", "supervisor")]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        answer = _keeper("status", own_server.state_dir)
        assert answer.returncode == 1
        assert "did not answer in time" in answer.stderr
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_a_bad_setting_of_the_server_does_not_keep_anybody_from_the_keeper(tmp_path: Path) -> None:
    answer = run("keeper", "status", "--state-dir", str(tmp_path), env={"MAX_SESSIONS": "many"})
    assert answer.returncode == 0
