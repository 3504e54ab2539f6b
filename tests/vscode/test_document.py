"""The extension beside a server of document 003: every message in both directions, and what goes wrong."""

import json
from pathlib import Path

import pytest

from tests.vscode.conftest import OpenWindow
from tests.vscode.document_server import Caller, DocumentServer
from tests.vscode.driving import Window

pytestmark = pytest.mark.thorough

_TYPED = "Command executed: {}\nNote: Direct output capture requires custom pseudoterminal implementation."


@pytest.fixture
def connected(document: DocumentServer, open_window: OpenWindow) -> tuple[Caller, Window]:
    """A server of the document and a window whose shells have no integration."""
    window = open_window(document.url)
    return document.caller(), window


def _shell(document: DocumentServer, open_window: OpenWindow, integration: str) -> tuple[Caller, Window]:
    """Open a window with one terminal, "t", whose shell is integrated in this way."""
    window = open_window(document.url, integration=integration)
    caller = document.caller()
    caller.ask("create_terminal", request_id="t")
    return caller, window


def test_it_connects_by_itself_to_the_root_and_tells_what_it_is(connected: tuple[Caller, Window]) -> None:
    caller, window = connected
    window.until_connected()
    assert caller.path == "/"
    assert caller.headers["Outlive-Extension"] == "1"
    assert "Origin" not in caller.headers
    window.do("command", name="outlive.status")
    assert "a server of another kind" in window.messages[-1]


def test_a_ping_gets_a_pong_and_nothing_else(connected: tuple[Caller, Window]) -> None:
    caller, _ = connected
    assert caller.ask("ping", request_id="ping-1") == {"type": "pong", "id": "ping-1"}


def test_the_first_scenario_as_printed(connected: tuple[Caller, Window], tmp_path: Path) -> None:
    caller, window = connected
    made = caller.ask("create_terminal", {"terminalName": "Build Terminal"}, request_id="req-1")
    assert made == {
        "type": "terminal_created",
        "id": "req-1",
        "data": {"terminalId": "req-1", "terminalName": "Build Terminal"},
    }
    there = tmp_path / "there"
    command = f"echo built > {there}"
    done = caller.ask("execute", {"command": command, "terminalId": "req-1"}, request_id="req-2")
    assert done == {"type": "success", "id": "req-2", "data": {"output": _TYPED.format(command)}}
    tab = window.tab(name="Build Terminal", kind="shell")
    assert tab.typed == [command]
    caller.ask("execute", {"command": "exit", "terminalId": "req-1"})
    window.until(lambda: tab.is_closed)  # the shell has read the first line before the second
    assert there.read_text() == "built\n"


def test_the_second_scenario_as_printed(connected: tuple[Caller, Window]) -> None:
    caller, _ = connected
    assert caller.ask("close_terminal", {"terminalId": "non-existing-id"}, request_id="req-3") == {
        "type": "error",
        "id": "req-3",
        "data": {"error": "Terminal non-existing-id not found"},
    }


def test_terminals_without_a_name_are_numbered(connected: tuple[Caller, Window]) -> None:
    caller, window = connected
    names = [
        caller.ask("create_terminal", data)["data"]["terminalName"]
        for data in ({}, None, {"terminalName": ""})
    ]
    assert names == ["MCP Terminal 1", "MCP Terminal 2", "MCP Terminal 3"]
    assert [tab.name for tab in window.tabs.values()] == names


def test_execute_without_a_terminal_makes_one_that_is_called_like_the_request(
    connected: tuple[Caller, Window],
) -> None:
    caller, window = connected
    done = caller.ask("execute", {"command": "true"}, request_id="req-9")
    assert done["data"] == {"output": _TYPED.format("true")}
    assert window.tab().name == "MCP Terminal 1"
    assert caller.ask("execute", {"command": "echo again", "terminalId": "req-9"})["type"] == "success"
    assert window.tab().typed == ["true", "echo again"]
    assert len(window.tabs) == 1


def test_a_closed_terminal_is_gone(connected: tuple[Caller, Window]) -> None:
    caller, window = connected
    caller.ask("create_terminal", request_id="t")
    closed = caller.ask("close_terminal", {"terminalId": "t"}, request_id="c")
    assert (closed["type"], closed["id"], type(closed["data"]["output"])) == ("success", "c", str)
    window.until(lambda: window.tabs[1].is_closed)
    for kind, data in (("close_terminal", {}), ("execute", {"command": "true"})):
        assert caller.ask(kind, {"terminalId": "t", **data})["data"] == {"error": "Terminal t not found"}


def test_a_terminal_that_the_user_has_closed_is_gone(connected: tuple[Caller, Window]) -> None:
    caller, window = connected
    caller.ask("create_terminal", request_id="t")
    window.do("close_tab", terminal=window.tab().number, reason="User")
    assert caller.ask("execute", {"command": "true", "terminalId": "t"})["data"] == {
        "error": "Terminal t not found"
    }


@pytest.mark.parametrize(
    ("kind", "data", "error"),
    [
        ("execute", None, "execute needs data.command"),
        ("execute", {"terminalId": "x"}, "execute needs data.command"),
        ("execute", {"command": ["ls"]}, "data.command must be a string"),
        ("execute", {"command": "ls", "terminalId": "x"}, "Terminal x not found"),
        ("execute", {"command": "ls", "terminalId": 7}, "data.terminalId must be a string"),
        ("close_terminal", None, "close_terminal needs data.terminalId"),
        ("close_terminal", {"terminalId": None}, "close_terminal needs data.terminalId"),
        ("create_terminal", {"terminalName": 7}, "data.terminalName must be a string"),
    ],
)
def test_what_is_missing_or_wrong_is_said(
    connected: tuple[Caller, Window], kind: str, data: dict[str, object] | None, error: str
) -> None:
    caller, window = connected
    assert caller.ask(kind, data, request_id="r") == {"type": "error", "id": "r", "data": {"error": error}}
    assert window.tabs == {}


def test_an_id_that_is_taken_makes_no_second_terminal(connected: tuple[Caller, Window]) -> None:
    caller, window = connected
    assert caller.ask("create_terminal", request_id="same")["type"] == "terminal_created"
    for kind, data in (("create_terminal", {}), ("execute", {"command": "true"})):
        assert caller.ask(kind, data, request_id="same")["data"] == {"error": "Terminal same already exists"}
    assert len(window.tabs) == 1
    assert window.tab().typed == []


@pytest.mark.parametrize(
    "frame",
    [
        "{",
        "",
        "null",
        "[]",
        '"ping"',
        "{}",
        '{"type": "ping"}',
        '{"type": "ping", "id": 7}',
        '{"type": 7, "id": "x"}',
        '{"type": "sing", "id": "x"}',
        '{"type": "constructor", "id": "x"}',
        '{"type": "pong", "id": "x"}',
        '{"type": "success", "id": "nobody", "data": {"output": ""}}',
        '{"type": "terminals", "id": "x", "data": {"terminals": 7}}',
        '{"type": "show_terminal", "id": "x", "data": {"terminalId": "t", "path": "elsewhere"}}',
        '{"type": "show_terminal", "id": "x"}',
        '{"type": "terminal_closed", "id": "x"}',
        b"\x00\xff",
    ],
)
def test_what_cannot_be_understood_is_ignored(connected: tuple[Caller, Window], frame: str | bytes) -> None:
    caller, window = connected
    caller.send(frame)
    assert caller.ask("ping")["type"] == "pong"
    assert caller.unasked.empty()
    assert window.tabs == {}


def test_requests_are_answered_side_by_side(document: DocumentServer, open_window: OpenWindow) -> None:
    """A command that runs keeps neither a ping nor another terminal waiting."""
    open_window(document.url, integration="whole")
    caller = document.caller()
    for terminal_id in ("a", "b"):
        caller.ask("create_terminal", request_id=terminal_id)
    slow = caller.request("execute", {"command": "sleep 1; echo slow", "terminalId": "a"})
    assert caller.ask("execute", {"command": "echo quick", "terminalId": "b"})["data"] == {
        "output": "quick\n"
    }
    assert caller.ask("ping")["type"] == "pong"
    assert caller.answer(slow)["data"] == {"output": "slow\n"}


def test_output_is_captured_where_the_shell_is_integrated(
    document: DocumentServer, open_window: OpenWindow
) -> None:
    caller, window = _shell(document, open_window, "whole")
    command = r"printf 'a\033[1mb\033[0m\033]0;title\007\r\nc\n'; (exit 7)"
    assert caller.ask("execute", {"command": command, "terminalId": "t"})["data"] == {"output": "ab\nc\n"}
    assert window.tab().executed == [command]


@pytest.mark.parametrize("integration", ["none", "codeless"])
def test_without_a_sure_end_only_the_sentence_is_said(
    document: DocumentServer, open_window: OpenWindow, integration: str
) -> None:
    caller, _ = _shell(document, open_window, integration)
    assert caller.ask("execute", {"command": "echo x", "terminalId": "t"})["data"] == {
        "output": _TYPED.format("echo x")
    }


def test_several_lines_and_a_busy_terminal_are_typed(
    document: DocumentServer, open_window: OpenWindow
) -> None:
    caller, window = _shell(document, open_window, "whole")
    lines = "echo one\necho two"
    assert caller.ask("execute", {"command": lines, "terminalId": "t"})["data"] == {
        "output": _TYPED.format(lines)
    }
    asking = caller.request("execute", {"command": "read -r line; echo got $line", "terminalId": "t"})
    window.until(lambda: window.tab().executed)
    assert caller.ask("execute", {"command": "this", "terminalId": "t"})["data"] == {
        "output": _TYPED.format("this")
    }
    assert caller.answer(asking)["data"]["output"].endswith("got this\n")


def test_a_command_that_never_ends_is_answered_before_the_server_gives_up(
    document: DocumentServer, open_window: OpenWindow
) -> None:
    caller, _ = _shell(document, open_window, "endless")
    # The Caller waits 40 s, the document's server 30: the extension gives up after 20.
    assert caller.ask("execute", {"command": "echo x", "terminalId": "t"})["data"] == {
        "output": _TYPED.format("echo x")
    }


def test_a_terminal_that_closes_under_a_command_says_so(
    document: DocumentServer, open_window: OpenWindow
) -> None:
    caller, window = _shell(document, open_window, "whole")
    running = caller.request("execute", {"command": "sleep 100", "terminalId": "t"})
    window.until(lambda: window.tab().executed)
    window.do("close_tab", terminal=window.tab().number, reason="User")
    assert caller.answer(running)["data"] == {"error": "Terminal t was closed"}


def test_output_without_end_is_cut(document: DocumentServer, open_window: OpenWindow) -> None:
    caller, _ = _shell(document, open_window, "whole")
    output = caller.ask("execute", {"command": "yes | head -c 3000000", "terminalId": "t"})["data"]["output"]
    assert output.endswith("\n[the rest is left out]")
    assert 200_000 < len(output) < 300_000


def test_messages_say_nothing_that_the_document_does_not_have(connected: tuple[Caller, Window]) -> None:
    caller, _ = connected
    answers = [
        caller.ask("ping"),
        caller.ask("create_terminal", request_id="t"),
        caller.ask("execute", {"command": "true", "terminalId": "t"}),
        caller.ask("close_terminal", {"terminalId": "t"}),
        caller.ask("close_terminal", {"terminalId": "t"}),
    ]
    shapes = [(answer["type"], sorted(answer), sorted(answer.get("data", {}))) for answer in answers]
    assert shapes == [
        ("pong", ["id", "type"], []),
        ("terminal_created", ["data", "id", "type"], ["terminalId", "terminalName"]),
        ("success", ["data", "id", "type"], ["output"]),
        ("success", ["data", "id", "type"], ["output"]),
        ("error", ["data", "id", "type"], ["error"]),
    ]
    json.dumps(answers)
