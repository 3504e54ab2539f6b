"""Every way of calling back that was thought of, at every door of two servers of one user, as root and as an
ordinary user: a command of either is let in by none of them.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import uvicorn

import outlive
from tests.attacks.attacking import NOBODY
from tests.attacks.calling_lines import LINES
from tests.sandbox.ordinary import CAN_BECOME, as_nobody
from tests.support.run_mark import open_folder_of_run
from tests.support.server import OutliveServer, outlive_command

pytestmark = [pytest.mark.walls, pytest.mark.thorough, pytest.mark.timeout(600)]

_SCRIPT = Path(__file__).with_name("calling.py")
_PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
# Namespaces of their own bound these (decision 219).
_BOUNDED = {way for way, line in LINES.items() if line.startswith("unshare ")}
_PATIENCE_S = 400.0
_FEWEST = {"open": 55, "workspace": 40, "offline": 40}  # ways that a machine has to have
# What is no way in: refused, not there, hung up on, or a way that this machine does not have.
_LET_IN = ("200", "201", "answered")


def _of_nobody(folder: Path) -> list[str]:
    """Return how an ordinary user calls outlive, [] where that one cannot.

    The interpreter of the tests may be closed to others.

    The program for shims is compiled into `folder`.
    """
    paths = ":".join(str(Path(module.__file__ or "").parents[1]) for module in (outlive, uvicorn))
    words = as_nobody(
        "env",
        f"PYTHONPATH={paths}",
        f"OUTLIVE_CONFIG={os.devnull}",
        f"HOME={folder}",
        _PYTHON,
        "-m",
        "outlive",
    )
    done = (
        subprocess.run([*words, "--version"], capture_output=True, check=False, cwd="/")
        if CAN_BECOME
        else None
    )
    return words if done is not None and done.returncode == 0 else []


class Ground:
    """Two servers of one user, who may be another one than ours, and a folder where their commands may
    work.
    """

    def __init__(self, servers: Sequence[OutliveServer], folder: Path, become: list[str]) -> None:
        self.servers = servers
        self.folder = folder
        self._become = become

    def words(self, name: str) -> list[str]:
        """Return the words that try everything, and write `name`.json."""
        place = self.folder / name
        place.mkdir()
        place.chmod(0o777)
        doors: dict[str, object] = {}
        for server in self.servers:
            doors[f"{server.state_dir.name} tcp"] = server.ready["ports"]["rest"]
            doors[f"{server.state_dir.name} unix"] = f"{server.state_dir}/server.sock"
            doors[f"{server.state_dir.name} keeper"] = f"{server.state_dir}/keeper.sock"
        at = {
            "doors": doors,
            "lines": LINES,
            "out": str(place / "found.json"),
            "folder": str(place),
        }
        return [_PYTHON, "-I", "-S", str(shutil.copy(_SCRIPT, place)), json.dumps(at)]

    def start(self, server: OutliveServer, *words: str, profile: str) -> None:
        """Start a command of one of the servers."""
        options = ["--profile", profile, "--"]
        done = subprocess.run(
            [
                *outlive_command(),
                "run",
                "--state-dir",
                str(server.state_dir),
                "--detach",
                *options,
                *words,
            ],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr

    def outside(self, *words: str) -> None:
        """Run a program of that user that outlive has not started."""
        subprocess.run([*self._become, *words], cwd="/", check=True, timeout=_PATIENCE_S)

    def found(self, name: str) -> dict[str, dict[str, str]]:
        """Return {way: {door: answer}} once it was written."""
        path = self.folder / name / "found.json"
        deadline = time.monotonic() + _PATIENCE_S
        while not path.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        found: dict[str, dict[str, str]] = json.loads(path.read_text())
        return found


@pytest.fixture(params=["own user", "uid 65534"])
def ground(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    """Servers of the one who runs the tests, and of an ordinary user."""
    become: list[str] = []
    folder = open_folder_of_run()
    if request.param != "own user":
        if not (words := _of_nobody(folder)):
            pytest.skip("only root can be another user, who has to be able to read our packages")
        become = as_nobody()
        monkeypatch.setenv("OUTLIVE_TEST_COMMAND", shlex.join(words))
        os.chown(folder, NOBODY, NOBODY)
    work = folder / "work"
    work.mkdir()
    work.chmod(0o777)
    try:
        with OutliveServer(folder / "a") as first, OutliveServer(folder / "b") as second:
            yield Ground([first, second], work, become)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.promise("A.inside")
@pytest.mark.parametrize("profile", _FEWEST)
def test_a_command_is_let_in_by_none_of_the_ways(ground: Ground, profile: str) -> None:
    for server in ground.servers:
        name = server.state_dir.name
        ground.start(server, *ground.words(name), profile=profile)
    for server in ground.servers:
        found = ground.found(server.state_dir.name)
        made = {
            way
            for way, answers in found.items()
            if not any(one.startswith("not ") for one in answers.values())
        }
        assert len(made) >= _FEWEST[profile], found
        let_in = {way: answers for way, answers in found.items() if set(answers.values()) & set(_LET_IN)}
        assert let_in == {}


def test_outside_of_outlive_the_same_ways_are_let_in(ground: Ground) -> None:
    """What is tried above is no mistake: who is not of ours gets in so, but for what cannot be told of it."""
    ground.start(ground.servers[0], "sleep", "600", profile="open")
    ground.outside(*ground.words("outside"))
    found = ground.found("outside")
    doors = [door for door in next(iter(found.values())) if not door.endswith("keeper")]
    assert len(doors) == 4
    for door in doors:
        let_in = [way for way, answers in found.items() if answers[door] in _LET_IN]
        assert len(let_in) >= _FEWEST["open"] - len(_BOUNDED), (door, found)
        assert not set(let_in) & _BOUNDED
