"""README.md works as printed: the two commands exist, and the two-minute tour is taken for real."""

import re
import shutil
import signal
from pathlib import Path

import pytest

from tests.docs.consoles import PATIENCE_S, Console, commands
from tests.docs.pages import ROOT, page, section
from tests.support.processes import wait_state_folder_empty

_README = page("README.md")
_TARGETS = set(re.findall(r"^([a-z-]+):", page("Makefile"), re.MULTILINE))

# What each command of the tour says, in their order; a command that is new in the README needs a line here.
_TOUR = {
    "outlive serve": r"outlive .* is ready",
    "python examples/jsonrpc_client.py": r"(?s)Process started: PID \d+.*line 1\nline 2\nline 3\n.*exit code 0",
    "python examples/survive.py": r"All \d+ lines came exactly once, and the exit code is \d+",
    "outlive keeper status": r"supervisor  pid \d+",
    "outlive keeper stop": r"The keeper has ended",
}


def test_every_make_command_of_the_readme_exists() -> None:
    two = re.findall(r"^    make ([a-z-]+) ", section(_README, "## Two commands"), re.MULTILINE)
    assert two == ["run", "test"]
    assert set(re.findall(r"`make ([a-z-]+)`", _README)) | set(two) <= _TARGETS


def test_every_page_that_the_readme_names_exists() -> None:
    named = re.findall(r"`((?:docs|examples)/[\w./-]+|[A-Z]+\.md)`", _README)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.promise("S0.18", "S0.14.resume")
def test_the_two_minute_tour_works_as_printed(tmp_path: Path) -> None:
    """On any free port, in the way the README names for a port that is taken: others may serve on this machine."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    console = Console(tmp_path)
    tour = [command for command, _ in commands(section(_README, "## Two minutes"))]
    assert len(tour) == len(_TOUR)
    assert "`--jsonrpc-port 8004`" in _README
    assert "`--url ws://127.0.0.1:8004/ws/mcp`" in _README
    serve, *rest = tour
    with console.server(f"{serve} --jsonrpc-port 0") as (server, banner):
        url = re.search(r"ws://\S+/ws/mcp", banner)
        assert url is not None
        said = {serve: banner}
        for command in rest:
            if "keeper stop" in command:
                server.send_signal(signal.SIGINT)  # "Ctrl-C in the first terminal"
                assert server.wait(PATIENCE_S) == 0
            typed = f"{command} --url {url[0]}" if "jsonrpc_client" in command else command
            ran = console.run(typed)
            assert ran.returncode == 0, f"{command}:\n{ran.stdout}{ran.stderr}"
            said[command] = ran.stdout + ran.stderr
    for (begin, pattern), (command, text) in zip(_TOUR.items(), said.items(), strict=True):
        assert command.startswith(begin)
        assert re.search(pattern, text), f"{command}:\n{text}"
    assert wait_state_folder_empty(tmp_path / "demo-state") == {}
