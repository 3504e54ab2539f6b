"""Server and keeper are killed in the middle of a command in the foreground: every byte comes once, and it
ends as it would.
"""

import hashlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.comparing import Stage
from tests.keeper.client import until
from tests.support.processes import end, is_alive
from tests.support.server import OutliveServer, outlive_command

pytestmark = pytest.mark.thorough

_LINES = 3_000_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OutliveServer]:
    """A server to be killed."""
    with OutliveServer(tmp_path / "state") as own:
        yield own


def _kill_server(server: OutliveServer) -> None:
    server.restart()


def _kill_supervisor(server: OutliveServer) -> None:
    pid = server.keeper_status().supervisor_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def _kill_guardian(server: OutliveServer) -> None:
    pid = server.keeper_status().guardian_pid
    if pid is not None:
        os.kill(pid, signal.SIGKILL)


def _kill_all(server: OutliveServer) -> None:
    status = server.keeper_status()
    for pid in (status.supervisor_pid, status.guardian_pid):
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
    server.restart()


@pytest.mark.parametrize("kill", [_kill_server, _kill_supervisor, _kill_guardian, _kill_all])
def test_every_byte_comes_once_and_the_exit_code_too(
    server: OutliveServer, tmp_path: Path, kill: Callable[[OutliveServer], None]
) -> None:
    stage = Stage(server, tmp_path)
    line = f"seq 1 {_LINES // 3}; seq {_LINES // 3 + 1} {_LINES} & wait; exit 42"
    expected = hashlib.sha256(b"".join(b"%d\n" % number for number in range(1, _LINES + 1))).hexdigest()
    with stage.running(["sh", "-c", line], is_bare=False) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        digest, taken, kills = hashlib.sha256(), 0, 0
        while data := process.stdout.read(65536):
            digest.update(data)
            taken += len(data)
            if taken > (kills + 1) * 5_000_000 and kills < 3:
                kills += 1
                kill(server)
        assert process.wait(60) == 42
    assert kills == 3
    assert digest.hexdigest() == expected


def test_a_start_waits_for_a_keeper_that_is_being_replaced(server: OutliveServer) -> None:
    """As at every other door. The server cannot begin to replace it before the command was asked for."""
    status = server.keeper_status()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        for pid in (status.guardian_pid, status.supervisor_pid):
            assert pid is not None
            end(pid)
            until(lambda pid=pid: not is_alive(pid), "its end")  # type: ignore[misc] # bound now
        running = subprocess.Popen(
            [*outlive_command(), "run", "--", "cat"],
            env=os.environ | {"OUTLIVE_STATE_DIR": str(server.state_dir), "OUTLIVE_CONFIG": os.devnull},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        socket = f" {server.state_dir}/server.sock"
        until(lambda: Path("/proc/net/unix").read_text().count(socket) > 1, "a caller")
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert running.communicate(b"hello", timeout=60) == (b"hello", b"")
    assert running.returncode == 0


def test_a_server_that_was_killed_is_started_again(tmp_path: Path) -> None:
    state_dir = tmp_path / "state"
    env = os.environ | {
        "OUTLIVE_MCP_PORT": "off",
        "OUTLIVE_REST_PORT": "off",
        "OUTLIVE_BRIDGE_PORT": "off",
        "OUTLIVE_JSONRPC_PORT": "off",
    }
    words = [*outlive_command(), "run", "--state-dir", str(state_dir), "--", "sh", "-c"]
    try:
        with subprocess.Popen(
            [*words, "echo first; read line; echo got $line; exit 3"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == b"first\n"
            pid = int((state_dir / "server.lock").read_text().split()[0])
            os.kill(pid, signal.SIGKILL)
            process.stdin.write(b"second\n")
            process.stdin.close()
            assert process.stdout.read() == b"got second\n"
            assert process.wait(60) == 3
            again = int((state_dir / "server.lock").read_text().split()[0])
            assert again != pid
            os.kill(again, signal.SIGTERM)
    finally:
        subprocess.run(
            [*outlive_command(), "keeper", "stop", "--kill", "--state-dir", str(state_dir)],
            check=True,
            env=env,
        )


def test_input_from_a_pipe_is_whole_whatever_is_killed(server: OutliveServer, tmp_path: Path) -> None:
    stage = Stage(server, tmp_path)
    with stage.running(["sha256sum"], is_bare=False) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        digest = hashlib.sha256()
        for number in range(60):
            data = b"%08d" % number * 10_000
            digest.update(data)
            process.stdin.write(data)
            if number % 20 == 10:
                _kill_all(server)
        process.stdin.close()
        assert process.stdout.read().split()[0].decode() == digest.hexdigest()
        assert process.wait(60) == 0
