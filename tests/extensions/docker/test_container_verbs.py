"""`outlive containers ls` and `rm`, as somebody calls them at a shell."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.client import Process
from tests.extensions.docker.server_house import DockerHouse, until
from tests.support.server import run_outlive

pytestmark = pytest.mark.docker


class _Shell:
    """The command line beside a server in Docker mode."""

    def __init__(self, house: DockerHouse, host: str) -> None:
        self.house = house
        self._env = {"DOCKER_HOST": host}

    def run(self, *words: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
        """Run `outlive containers` with these words; return its exit code, output and complaints."""
        done = run_outlive("containers", *words, state_dir=self.house.state, env=env or self._env)
        return done.returncode, done.stdout, done.stderr

    def listed(self) -> list[dict[str, object]]:
        """Return what `ls --json` says."""
        code, out, _ = self.run("ls", "--json")
        assert code == 0
        found: list[dict[str, object]] = json.loads(out)["containers"]
        return found


@pytest.fixture
def shell(tmp_path: Path, docker_host: str) -> Iterator[_Shell]:
    """A server in Docker mode."""
    with DockerHouse(tmp_path, docker_host) as house:
        yield _Shell(house, docker_host)


def _living(shell: _Shell, **options: str) -> Process:
    process = shell.house.start("cat", stdin="pipe", **options)
    until(lambda: any(process.process_id in one["process_ids"] for one in shell.listed()))  # type: ignore[operator] # a list
    return process


def test_containers_are_listed_with_image_age_and_processes(shell: _Shell) -> None:
    """The processes that live there by their ids; one that has ended is in no line."""
    assert shell.run("ls") == (0, "", "There are no containers of this state folder.\n")
    shell.house.start("true").wait(30)
    process = _living(shell)
    own = _living(shell, isolation="strict")
    shared, strict = shell.listed()
    assert (shared["image"], shared["state"]) == ("outlive-test", "running")
    assert (shared["process_ids"], strict["process_ids"]) == ([process.process_id], [own.process_id])
    code, out, _ = shell.run("ls")
    assert code == 0
    assert out.splitlines()[0].split() == ["NAME", "IMAGE", "AGE", "STATE", "PROCESSES"]
    assert str(strict["name"]).startswith("strict-")
    assert process.process_id[-6:] in out
    process.cancel(0)
    until(lambda: shell.listed()[0]["process_ids"] == [])


def test_one_in_which_processes_live_is_removed_by_force_only(shell: _Shell) -> None:
    """Its processes end with it, and the next command has a new one."""
    process = _living(shell)
    [container] = shell.listed()
    name = str(container["name"])
    code, _, err = shell.run("rm", name)
    assert code == 1
    assert "live 1 processes" in err
    assert "--force" in err
    assert shell.run("rm", "--force", name[:12]) == (0, "", f"{name} is removed\n")
    assert process.wait(30).exit_signal == 9
    assert shell.listed() == []
    assert shell.house.start("exit 4").wait(30).exit_code == 4


def test_an_unused_one_is_removed_and_what_is_not_there_is_said(shell: _Shell) -> None:
    """The others are removed all the same."""
    shell.house.start("true").wait(30)
    until(lambda: shell.listed()[0]["process_ids"] == [])
    name = str(shell.listed()[0]["name"])
    code, out, err = shell.run("rm", "--json", "no-such-one", name)
    assert (code, json.loads(out)) == (1, {"removed": [name]})
    assert "No container of this state folder is named 'no-such-one'" in err
    assert "outlive containers ls" in err
    assert shell.listed() == []


def test_a_daemon_that_is_not_there_is_said(shell: _Shell, tmp_path: Path) -> None:
    """With what is in the way."""
    code, _, err = shell.run("ls", env={"DOCKER_HOST": f"unix://{tmp_path}/no.sock"})
    assert code == 1
    assert "cannot be reached: there is no such socket" in err
