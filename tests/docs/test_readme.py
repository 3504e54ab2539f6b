"""README.md works as printed: the two commands exist, and the two-minute tour is taken for real."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.docs.consoles import PATIENCE_S, Console, commands
from tests.docs.pages import ROOT, page, section
from tests.support.processes import wait_state_folder_empty
from tests.support.server import outlive_command

_README = page("README.md")
_TARGETS = set(re.findall(r"^([a-z-]+):", page("Makefile"), re.MULTILINE))

# What each command of the tour says, in their order; a command that is new in the README needs a line here.
_TOUR = [
    ("make run", r"outlive .* is ready"),
    ("outlive run -d --name count -c", r"^[0-9a-z]{26}\n"),
    ("outlive ps", r"running +\d+ .* for i in"),
    ("outlive logs -f count", r"^line 1\nline 2\nline 3\n"),
    ("outlive pause count", r"is paused"),
    ("outlive ps", r"paused"),
    ("outlive resume count", r"goes on"),
    ("outlive stop count", r"is being stopped"),
    ("outlive logs --tail 1 count", r"^line \d+\n$"),
    ("python examples/survive.py", r"All \d+ lines came exactly once, and the exit code is \d+"),
    ("outlive keeper status", r"supervisor  pid \d+"),
    ("outlive keeper stop --kill", r"The keeper has ended"),
]


def test_every_make_command_of_the_readme_exists() -> None:
    two = re.findall(r"^    make ([a-z-]+) ", section(_README, "## Two commands"), re.MULTILINE)
    assert two == ["run", "test"]
    assert set(re.findall(r"`make ([a-z-]+)`", _README)) | set(two) <= _TARGETS


def test_every_page_that_the_readme_names_exists() -> None:
    named = re.findall(r"`((?:docs|examples)/[\w./-]+|[A-Z]+\.md)`", _README)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_what_the_readme_does_not_promise_of_loopback_is_what_is_true() -> None:
    """Other accounts get 401 (tests/attacks asks every route).

    What runs or forwards as this user does not.
    """
    points = section(_README, "## What it does not promise").split("\n* ")
    (loopback,) = (" ".join(point.split()) for point in points if "TCP" in point)
    assert "Another account of the machine gets 401 at every TCP port without a token" in loopback
    assert all(words in loopback for words in ("a program of your own uid", "a forwarder", "MCP_API_KEY"))
    assert "runs commands as you" not in _README


@pytest.mark.promise("S0.14.resume")
@pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")
def test_the_two_minute_tour_works_as_printed(tmp_path: Path) -> None:
    """On any free port and in a state folder of its own: others may serve on this machine."""
    console = Console(_a_copy(tmp_path))
    state = tmp_path / "state"
    env = {"OUTLIVE_STATE_DIR": str(state), "OUTLIVE_JSONRPC_PORT": "0", "OUTLIVE_CONFIG": os.devnull}
    tour = [command for command, _ in commands(section(_README, "## Two minutes"))]
    assert [typed.startswith(begin) for typed, (begin, _) in zip(tour, _TOUR, strict=True)] == [True] * len(
        tour
    )
    with console.server(tour[0], **env) as (server, banner):
        assert re.search(_TOUR[0][1], banner)
        for command, (_, pattern) in zip(tour[1:], _TOUR[1:], strict=True):
            if "keeper stop" in command:
                console.interrupt(server)  # "Ctrl-C in the first terminal"
                server.wait(PATIENCE_S)
            said = _type(console, command, env)
            assert re.search(pattern, said), f"{command}:\n{said}"
    assert wait_state_folder_empty(state) == {}


def _a_copy(folder: Path) -> Path:
    """Return a folder with all that the tour needs of this one, and this Python's programs as its .venv."""
    copy = folder / "clone"
    copy.mkdir()
    shutil.copytree(ROOT / "examples", copy / "examples")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    for name in ("requirements", "scripts"):
        shutil.copytree(ROOT / name, copy / name)
    (copy / ".venv" / "bin").mkdir(parents=True)
    (copy / ".venv" / "bin" / "outlive").symlink_to(outlive_command()[0])
    (copy / ".venv" / ".ready").touch()  # set up already: newer than what it is made from
    return copy


def _type(console: Console, command: str, env: dict[str, str]) -> str:
    """Type a command, and Ctrl-C where it goes on for ever.

    What it names goes into `env`, as in one shell.
    """
    if command.startswith("ID=$("):
        ran = console.run(command.removeprefix("ID=$(").removesuffix(")"), **env)
        env["ID"] = ran.stdout.strip()
    elif " -f " in command:
        return _watch(console, command, env)
    else:
        ran = console.run(command, **env)
    assert ran.returncode == 0, f"{command}:\n{ran.stdout}{ran.stderr}"
    return ran.stdout + ran.stderr


def _watch(console: Console, command: str, env: dict[str, str]) -> str:
    """Return the first three lines of what goes on for ever; then press Ctrl-C."""
    with subprocess.Popen(
        ["bash", "-c", f"exec {command}"],
        cwd=console.folder,
        env=console.environment | env,
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        said = "".join(watching.stdout.readline() for _ in range(3))
        watching.send_signal(signal.SIGINT)
        assert watching.wait(PATIENCE_S) == 130
    return said
