"""The extension beside the real server: terminals of the engine's in VS Code's tabs, whatever dies
meanwhile.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.attacking import create_token
from tests.support.processes import Gate
from tests.support.server import OutliveServer
from tests.vscode.agent import Agent
from tests.vscode.conftest import OpenWindow
from tests.vscode.driving import Tab, Window

pytestmark = pytest.mark.thorough

_MARKS = re.compile(r"\x1b\][^\x07]*\x07|\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]")


def _plain(text: str) -> str:
    """Return what a terminal got without what a person does not see."""
    return _MARKS.sub("", text)


class Person:
    """Somebody before a window of VS Code, and an agent at the same server."""

    def __init__(self, server: OutliveServer, window: Window) -> None:
        self.server = server
        self.window = window
        self.agent = Agent(server)

    def terminal(self, name: str | None = None) -> tuple[str, Tab]:
        """Have the agent open a terminal in VS Code; return its id and its tab."""
        before = max(self.window.tabs, default=0)
        return self.agent.create(name), self.window.tab(kind="pty", after=before)

    def type(self, tab: Tab, text: str) -> None:
        """Type into a tab."""
        self.window.do("type", terminal=tab.number, text=text)

    def until_shown(self, tab: Tab, pattern: str) -> None:
        """Wait until the tab shows something."""
        self.window.until(lambda: re.search(pattern, _plain(tab.text)), f"{pattern!r} in {tab.name}")

    def is_whole(self, terminal_id: str, tab: Tab) -> None:
        """See that the tab got every byte of the terminal's log once, and nothing else."""
        log = self.agent.rest.raw
        self.window.until(
            lambda: tab.text == log(terminal_id).decode(), "the tab shows the log, byte for byte"
        )


@pytest.fixture
def person(own_server: OutliveServer, open_window: OpenWindow) -> Person:
    """A person at a server of their own."""
    return _person(own_server, open_window)


def _person(server: OutliveServer, open_window: OpenWindow, **words: object) -> Person:
    window = open_window(server.bridge_url, **words)
    window.until_connected()
    return Person(server, window)


@pytest.fixture
def opened_gate(tmp_path: Path) -> Iterator[Gate]:
    """A gate that loops wait at."""
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.open()


def test_a_command_of_an_agent_is_captured_and_shown(person: Person) -> None:
    terminal_id, tab = person.terminal("Agent's")
    assert tab.name == "Agent's"
    person.agent.captures_whole(terminal_id)
    person.until_shown(tab, "\r\n30000\r\n")
    person.is_whole(terminal_id, tab)
    person.window.do("command", name="outlive.status")
    assert "an outlive server; 1 of its terminals shown" in person.window.messages[-1]


def test_a_loud_command_is_shown_whole(person: Person) -> None:
    """Several bursts of 256 KiB, between which the socket rests."""
    terminal_id, tab = person.terminal()
    person.type(tab, "seq 1 400000\r")
    person.until_shown(tab, "[\r\n]400000\r\n")
    person.is_whole(terminal_id, tab)


def test_what_is_typed_in_the_tab_reaches_the_shell(person: Person) -> None:
    terminal_id, tab = person.terminal()
    person.type(tab, "echo $((6*7)) für dich\r")
    person.until_shown(tab, "[\r\n]42 für dich\r\n")
    person.is_whole(terminal_id, tab)


def test_the_size_of_the_tab_is_the_terminals(person: Person) -> None:
    terminal_id, tab = person.terminal()
    person.window.do("size", terminal=tab.number, columns=117, rows=31)
    person.type(tab, "stty size\r")
    person.until_shown(tab, "31 117")
    person.server.restart()
    person.window.until_connected()
    person.window.do("size", terminal=tab.number, columns=90, rows=20)
    person.window.until(lambda: person.agent.output(terminal_id, "stty size") == "20 90")


@pytest.mark.parametrize("way", ["command", "profile"])
def test_the_user_opens_a_terminal_of_the_servers(
    own_server: OutliveServer, open_window: OpenWindow, tmp_path: Path, way: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    person = _person(own_server, open_window, folder=str(folder))
    if way == "command":
        person.window.do("command", name="outlive.newTerminal")
    else:
        person.window.do("profile")
    tab = person.window.tab(kind="pty")
    person.type(tab, "pwd\r")
    person.until_shown(tab, rf"[\r\n]{folder}\r\n")
    [terminal_id] = person.agent.open_ids()
    person.is_whole(terminal_id, tab)
    assert len(person.window.tabs) == 1


def test_terminals_that_are_there_already_are_shown_with_their_history(
    own_server: OutliveServer, open_window: OpenWindow
) -> None:
    agent = Agent(own_server)
    terminal_id = agent.create("early", target="engine")
    agent.execute(terminal_id, "echo before you came")
    person = _person(own_server, open_window)
    tab = person.window.tab(name="early")
    person.until_shown(tab, "[\r\n]before you came\r\n")
    person.is_whole(terminal_id, tab)


def test_closing_the_tab_only_detaches_and_is_explained_once(person: Person) -> None:
    terminal_id, tab = person.terminal("kept")
    other_id, other = person.terminal()
    for one in (tab, other):
        person.window.do("close_tab", terminal=one.number, reason="User")
    person.window.until(lambda: person.window.messages)
    assert person.agent.open_ids() == [terminal_id, other_id]
    assert person.agent.output(terminal_id, "echo unseen") == "unseen"

    person.window.do("reload")
    person.window.until_logged("received terminals", times=2)
    person.window.do("command", name="outlive.status")
    person.window.until(lambda: "0 of its terminals shown" in person.window.messages[-1])

    person.window.do("command", name="outlive.showTerminal", choices=["kept"])
    again = person.window.tab(name="kept", after=other.number)
    person.until_shown(again, "[\r\n]unseen\r\n")
    person.is_whole(terminal_id, again)
    assert len([text for text in person.window.messages if "goes on at the server" in text]) == 1


def test_a_reload_of_the_window_shows_the_same_shell_with_its_history(person: Person) -> None:
    terminal_id, tab = person.terminal()
    person.type(tab, "MARK=still-here; echo one\r")
    person.until_shown(tab, "[\r\n]one\r\n")
    person.window.do("reload")
    again = person.window.tab(kind="pty", after=tab.number)
    person.until_shown(again, "[\r\n]one\r\n")
    person.type(again, "echo $MARK\r")
    person.until_shown(again, "[\r\n]still-here\r\n")
    person.is_whole(terminal_id, again)


def test_a_killed_server_leaves_the_tab_its_shell_and_every_byte_once(
    person: Person, opened_gate: Gate
) -> None:
    terminal_id, tab = person.terminal("long")
    person.type(
        tab, f"for n in $(seq 1 300); do echo ä $n; sleep 0.01; done; {opened_gate.wait}; echo over\r"
    )
    person.until_shown(tab, "[\r\n]ä 50\r\n")
    person.server.kill()
    person.window.until(lambda: tab.name == "long (offline)")
    person.type(tab, "this is heard by nobody")
    assert tab.text.endswith("\x07")
    tab.text = tab.text.removesuffix("\x07")
    person.server.start()
    person.window.until(lambda: tab.name == "long")
    person.until_shown(tab, "[\r\n]ä 300\r\n")
    person.server.restart()
    opened_gate.open()
    person.until_shown(tab, "[\r\n]over\r\n")
    person.is_whole(terminal_id, tab)
    person.window.until_connected()
    assert [one.number for one in person.window.tabs.values() if not one.is_closed] == [tab.number]


def test_disconnect_and_connect_go_on_at_the_byte(person: Person) -> None:
    terminal_id, tab = person.terminal()
    for number in range(3):
        person.type(tab, f"seq 1 20000; echo over {number}\r")
        person.until_shown(tab, "[\r\n]1\r\n")
        person.window.do("command", name="outlive.disconnect")
        assert tab.name.endswith("(offline)")
        person.window.do("command", name="outlive.connect")
        person.until_shown(tab, f"[\r\n]over {number}\r\n")
    person.is_whole(terminal_id, tab)


def test_the_shells_end_is_the_tabs(person: Person) -> None:
    terminal_id, tab = person.terminal()
    person.type(tab, "exit 7\r")
    person.window.until(lambda: tab.is_closed)
    assert (tab.has_ended, tab.exit_code) == (True, 7)
    person.window.until(lambda: terminal_id not in person.agent.open_ids())
    assert person.window.messages == []


def test_end_terminal_ends_the_shell_and_what_ignores_a_hangup(person: Person) -> None:
    terminal_id, tab = person.terminal()
    person.type(tab, "trap '' HUP; echo trapped; sleep 1000\r")
    person.until_shown(tab, "[\r\n]trapped\r\n")
    person.window.do("bring", terminal=tab.number)
    person.window.do("command", name="outlive.endTerminal")
    person.window.until(lambda: tab.is_closed)
    assert tab.has_ended
    assert terminal_id not in person.agent.open_ids()
    assert person.agent.rest.wait(terminal_id)["state"] == "signaled"


def test_a_terminal_that_ends_while_the_server_is_away_is_gone_afterwards(
    person: Person, opened_gate: Gate
) -> None:
    _, tab = person.terminal()
    person.type(tab, f"{opened_gate.wait}; exit 3\r")
    person.until_shown(tab, "exit 3")
    person.server.kill()
    opened_gate.open()
    person.server.start()
    person.window.until(lambda: tab.is_closed)
    assert tab.exit_code == 3


def test_nothing_is_left_behind_and_the_shells_live_on(person: Person) -> None:
    terminal_id, tab = person.terminal()
    person.type(tab, "echo ready\r")
    person.until_shown(tab, "[\r\n]ready\r\n")
    person.window.leave()
    assert person.agent.output(terminal_id, "echo alive") == "alive"


def test_two_windows_show_one_terminal(person: Person, open_window: OpenWindow) -> None:
    terminal_id, first = person.terminal("both")
    second = _person(person.server, open_window)
    other = second.window.tab(name="both")
    second.type(other, "echo from the second\r")
    person.until_shown(first, "[\r\n]from the second\r\n")
    person.is_whole(terminal_id, first)
    second.is_whole(terminal_id, other)


def test_a_token_opens_both_doors_and_a_wrong_one_none(
    own_server: OutliveServer, open_window: OpenWindow
) -> None:
    token = create_token(own_server, "run", name="editor")
    window = open_window(own_server.bridge_url, settings={"outlive.token": "olv_wrong"})
    window.until_logged("no connection: refused with 401")
    window.do("command", name="outlive.setToken", choices=[token])
    window.until_connected()
    window.until(lambda: window.do("command", name="outlive.newTerminal") is None and window.tabs)
    tab = window.tab(kind="pty")
    window.do("type", terminal=tab.number, text="echo let in\r")
    window.until(lambda: "\rlet in\r\n" in _plain(tab.text))
    assert not any(token in line for line in window.log)
