"""Terminals of the engine's in a real VS Code: what an agent captures, what a person sees, and what outlives
what.
"""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.server import OutliveServer
from tests.vscode.agent import Agent
from tests.vscode.code_server.editor import Editor, editor
from tests.vscode.installed import Installed

pytestmark = [pytest.mark.code_server, pytest.mark.timeout(300)]


def _until(is_so: Callable[[], object]) -> None:
    """Wait for another program, which can only be asked."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.fixture(scope="module")
def outlive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    """The server of all tests here."""
    with OutliveServer(tmp_path_factory.mktemp("s") / "state") as started:
        yield started


@pytest.fixture(scope="module")
def vscode(
    installed: Installed, outlive: OutliveServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Editor]:
    """A window of VS Code, connected to the server."""
    with editor(installed, tmp_path_factory.mktemp("vscode"), url=outlive.bridge_url) as opened:
        opened.open()
        yield opened


@pytest.fixture(scope="module")
def agent(outlive: OutliveServer, vscode: Editor) -> Agent:
    """An agent at the server, once the window is connected."""
    found = Agent(outlive)
    _until(found.is_served)
    found.create("first")  # with the one before, enough for VS Code to show tabs
    return found


def test_commands_of_an_agent_are_captured_whole_and_shown(agent: Agent, vscode: Editor) -> None:
    terminal_id = agent.create("captured")
    vscode.do("front", name="captured")
    agent.captures_whole(terminal_id)
    shown = vscode.until("^30000$")
    assert shown[shown.index("30000") - 1] == "29999"


def test_the_terminal_has_the_size_of_the_panel(agent: Agent, vscode: Editor) -> None:
    terminal_id = agent.create("sized")
    vscode.do("front", name="sized")
    vscode.type("stty size")
    vscode.until(r"^\d+ \d+$")

    def columns() -> int:
        return int(agent.output(terminal_id, "stty size").split()[1])

    wide = columns()
    assert wide != 80
    vscode.do("viewport", width=900, height=800)
    _until(lambda: columns() < wide)
    vscode.do("viewport", width=1200, height=800)
    _until(lambda: columns() == wide)


def test_what_is_typed_reaches_the_shell_and_a_reload_finds_it_again(agent: Agent, vscode: Editor) -> None:
    terminal_id = agent.create("kept")
    vscode.do("front", name="kept")
    vscode.type("MARK=still-here; echo before the reload")
    vscode.until("^before the reload$")
    vscode.do("reload")
    _until(agent.is_served)
    vscode.do("panel")
    vscode.do("tab", name="kept")
    vscode.until("^before the reload$")
    vscode.type("echo $MARK")
    vscode.until("^still-here$")
    assert agent.output(terminal_id, "echo $MARK") == "still-here"


def test_a_killed_server_leaves_the_terminal_as_it_was(
    agent: Agent, vscode: Editor, outlive: OutliveServer
) -> None:
    terminal_id = agent.create("survivor")
    vscode.do("front", name="survivor")
    vscode.type("MARK=alive; for n in $(seq 1 100); do echo number $n; sleep 0.05; done")
    vscode.until("^number 20$")
    outlive.kill()
    outlive.start()
    shown = vscode.until("^number 100$")
    numbers = [line for line in shown if line.startswith("number ")]
    last = len(numbers)
    assert numbers == [f"number {n}" for n in range(101 - last, 101)]  # none twice, none left out
    vscode.type("echo $MARK")
    vscode.until("^alive$")
    assert agent.execute(terminal_id, "(exit 7)")["exit_code"] == 7


def test_closing_the_tab_detaches_and_ending_it_ends_the_shell(agent: Agent, vscode: Editor) -> None:
    _until(agent.is_served)  # the window has come back after the test before
    terminal_id = agent.create("detached")
    vscode.do("front", name="detached")
    vscode.type("echo to be seen again")
    vscode.until("^to be seen again$")
    vscode.do("command", name="Terminal: Kill the Active Terminal Instance")
    assert agent.output(terminal_id, "echo unseen") == "unseen"
    vscode.do("command", name="outlive: Show Terminal...")
    vscode.do("pick", name="detached")
    vscode.until("^unseen$")
    vscode.do("command", name="outlive: End Terminal")
    _until(lambda: terminal_id not in agent.open_ids())


def test_a_person_opens_a_terminal_in_the_windows_folder(agent: Agent, vscode: Editor) -> None:
    known = agent.open_ids()
    vscode.do("command", name="outlive: New Terminal")
    _until(lambda: len(agent.open_ids()) == len(known) + 1)
    vscode.until("/folder[#$] ?$")
    vscode.type("pwd")
    vscode.until("^/.*/folder$")
