"""Docker without outlive, as docs/comparison.md says: what it keeps of a command, and what it reaches."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.comparison.trial import EXIT_CODE, Trial, until, wait_for_end
from tests.support.dockerd import Dockerd
from tests.support.processes import all_pids, is_stopped

pytestmark = pytest.mark.docker


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    """A command whose gate is mounted at /trial."""
    made = Trial(tmp_path)
    yield made
    made.close()


class Docker:
    """The `docker` command for one daemon, and one container that runs the trial's command."""

    def __init__(self, daemon: Dockerd, trial: Trial) -> None:
        self.daemon = daemon
        self._mount = f"{trial.folder}:/trial"
        self._script = trial.script(gate="/trial/gate")
        self._name = "trial"

    def start(self) -> subprocess.Popen[bytes]:
        """Run it attached, as a user types it, until it waits at its gate; return the client."""
        words = ["run", "--name", self._name, "-v", self._mount, "outlive-test", "sh", "-c", self._script]
        client = subprocess.Popen(
            ["docker", "-H", self.daemon.host, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(self.logs, "before")
        return client

    def ask(self, *words: str) -> str:
        """Return what a command of docker's says (blocks)."""
        done = subprocess.run(
            ["docker", "-H", self.daemon.host, *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout

    def logs(self) -> str:
        """What the command has written."""
        return self.ask("logs", self._name)

    def status(self) -> str:
        """`running`, `exited` and so on."""
        return self.ask("inspect", "-f", "{{.State.Status}}", self._name)

    def exit_code(self) -> int:
        """Return the exit code that is kept; 0 while it runs."""
        return int(json.loads(self.ask("inspect", "-f", "{{.State.ExitCode}}", self._name)))

    def pids(self) -> list[int]:
        """Return the pids, as this machine counts them, of all that lives in the container."""
        (container,) = self.ask("ps", "-q", "--no-trunc").split()
        return [pid for pid in all_pids() if container in _read(f"/proc/{pid}/cgroup")]


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_docker_keeps_output_and_exit_code_when_its_client_dies(own_dockerd: Dockerd, trial: Trial) -> None:
    docker = Docker(own_dockerd, trial)
    client = docker.start()
    client.kill()
    client.wait()
    trial.open_gate()
    until(docker.logs, "after")
    until(docker.status, "exited")
    assert docker.exit_code() == EXIT_CODE


async def test_docker_with_live_restore_keeps_both_when_its_daemon_dies(
    own_dockerd: Dockerd, trial: Trial
) -> None:
    """Our script gives the daemon `--live-restore`, which is no default.

    The command ends when a daemon lives again.
    """
    docker = Docker(own_dockerd, trial)
    client = await asyncio.to_thread(docker.start)
    await own_dockerd.kill()
    client.wait()
    await asyncio.to_thread(own_dockerd.start)
    trial.open_gate()
    await asyncio.to_thread(until, docker.logs, "after")
    await asyncio.to_thread(until, docker.status, "exited")
    assert docker.exit_code() == EXIT_CODE


async def test_docker_loses_the_last_output_of_a_command_that_ends_while_no_daemon_lives(
    own_dockerd: Dockerd, trial: Trial
) -> None:
    docker = Docker(own_dockerd, trial)
    client = await asyncio.to_thread(docker.start)
    pids = docker.pids()
    await own_dockerd.kill()
    client.wait()
    trial.open_gate()
    for pid in pids:
        await asyncio.to_thread(wait_for_end, pid)
    await asyncio.to_thread(own_dockerd.start)
    await asyncio.to_thread(until, docker.status, "exited")
    print(docker.exit_code(), docker.logs())
    assert docker.exit_code() == EXIT_CODE
    assert "before" in docker.logs()
    assert "after" not in docker.logs()


def test_docker_pauses_and_ends_setsid_children_too(own_dockerd: Dockerd, trial: Trial) -> None:
    docker = Docker(own_dockerd, trial)
    client = docker.start()
    pids = docker.pids()
    assert len(pids) == 2
    docker.ask("pause", "trial")
    assert [pid for pid in pids if not is_stopped(pid)] == []
    docker.ask("unpause", "trial")
    docker.ask("kill", "trial")
    client.wait()
    for pid in pids:
        wait_for_end(pid)
