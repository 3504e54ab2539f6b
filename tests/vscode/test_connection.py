"""The extension's connection: settings, token, dialling again, and that nothing is left behind."""

import pytest

from tests.support.server import free_port
from tests.vscode.conftest import OpenWindow
from tests.vscode.document_server import DocumentServer

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("end", ["close", "drop", "stop"])
def test_a_lost_connection_is_dialled_again_and_the_terminals_are_known(
    document: DocumentServer, open_window: OpenWindow, end: str
) -> None:
    window = open_window(document.url)
    caller = document.caller()
    caller.ask("create_terminal", request_id="t")
    if end == "stop":
        document.stop()
        window.until(lambda: "again" in window.status)
        document.start()
    else:
        getattr(caller, end)()
    again = document.caller()
    window.until_connected()
    assert again.ask("execute", {"command": "true", "terminalId": "t"})["type"] == "success"
    assert len(window.tabs) == 1


def test_an_answer_does_not_come_on_another_connection(
    document: DocumentServer, open_window: OpenWindow
) -> None:
    window = open_window(document.url, integration="whole")
    caller = document.caller()
    caller.ask("create_terminal", request_id="t")
    running = caller.request("execute", {"command": "read -r line", "terminalId": "t"})
    window.until(lambda: window.tab().executed)
    caller.drop()
    again = document.caller()
    again.ask("execute", {"command": "end it", "terminalId": "t"})  # is typed into what reads
    window.until_logged("not sent, the connection is gone: success " + running)
    assert again.ask("ping")["type"] == "pong"
    assert again.unasked.empty()


def test_without_autoconnect_it_waits_for_the_command_and_stays_away_when_lost(
    document: DocumentServer, open_window: OpenWindow
) -> None:
    window = open_window(document.url, settings={"outlive.autoConnect": False})
    window.until(lambda: "not connected" in window.status)
    window.do("command", name="outlive.connect")
    document.caller().drop()
    window.until_logged("no connection")
    window.until(lambda: "not connected" in window.status)
    assert any("connected to" in text for text in window.messages)


def test_disconnect_ends_it_and_connect_begins_again(
    document: DocumentServer, open_window: OpenWindow
) -> None:
    window = open_window(document.url)
    window.until_connected()
    document.caller()
    window.do("command", name="outlive.disconnect")
    window.until(lambda: "not connected" in window.status)
    window.do("command", name="outlive.connect")
    window.until_connected()
    assert document.caller().ask("ping")["type"] == "pong"


def test_a_server_that_is_not_there_is_an_error_for_who_asked(open_window: OpenWindow) -> None:
    url = f"ws://localhost:{free_port()}"
    window = open_window(url, settings={"outlive.autoConnect": False})
    window.do("command", name="outlive.connect")
    window.until(lambda: window.messages)
    assert window.messages[0].startswith(f"outlive: no connection to {url}: ")
    assert "ECONNREFUSED" in window.messages[0]


@pytest.mark.parametrize("url", ["http://localhost:1", "nonsense", ""])
def test_an_address_that_is_none_is_said(open_window: OpenWindow, url: str) -> None:
    window = open_window(url, settings={"outlive.autoConnect": False})
    window.do("command", name="outlive.connect")
    window.until(lambda: window.messages)
    assert "no connection" in window.messages[0]
    window.leave()


def test_the_token_travels_in_the_query_and_the_secret_goes_before_the_setting(
    document: DocumentServer, open_window: OpenWindow
) -> None:
    window = open_window(document.url, settings={"outlive.token": "from setting"})
    assert document.caller().path == "/?token=from+setting"
    window.do("command", name="outlive.setToken", choices=["secret&1"])
    assert document.caller().path == "/?token=secret%261"
    assert window.do("memory")["secrets"] == {"outlive.token": "secret&1"}
    window.do("command", name="outlive.setToken", choices=[""])
    assert document.caller().path == "/?token=from+setting"
    assert window.do("memory")["secrets"] == {}
    assert not any("secret" in line or "from setting" in line for line in window.log)


def test_a_changed_address_is_dialled(document: DocumentServer, open_window: OpenWindow) -> None:
    window = open_window(f"ws://localhost:{free_port()}")
    window.until(lambda: "again" in window.status)
    window.do("configure", settings={"outlive.url": document.url})
    assert document.caller().ask("ping")["type"] == "pong"


def test_nothing_is_left_behind_when_vs_code_lets_go(
    document: DocumentServer, open_window: OpenWindow
) -> None:
    window = open_window(document.url, integration="whole")
    caller = document.caller()
    caller.ask("create_terminal", request_id="t")
    caller.request("execute", {"command": "sleep 100", "terminalId": "t"})
    window.until(lambda: window.tab().executed)
    window.leave()


def test_nothing_is_left_behind_while_it_waits_to_dial_again(open_window: OpenWindow) -> None:
    window = open_window(f"ws://localhost:{free_port()}")
    window.until(lambda: "again" in window.status)
    window.leave()


def test_after_a_reload_of_the_window_the_terminals_are_known_again(
    document: DocumentServer, open_window: OpenWindow
) -> None:
    window = open_window(document.url)
    caller = document.caller()
    for terminal_id in ("kept", "closed"):
        caller.ask("create_terminal", request_id=terminal_id)
    window.do("close_tab", terminal=window.tab(name="MCP Terminal 2").number, reason="User")
    window.until(lambda: "closed" not in window.do("memory")["workspace"]["outlive.ownTerminals"])
    window.do("reload")
    again = document.caller()
    assert again.ask("execute", {"command": "true", "terminalId": "kept"})["type"] == "success"
    assert again.ask("execute", {"command": "true", "terminalId": "closed"})["type"] == "error"
    assert window.tab().typed == ["true"]


def test_what_only_an_outlive_server_can_do_is_said_to_be_so(
    document: DocumentServer, open_window: OpenWindow
) -> None:
    window = open_window(document.url)
    document.caller()
    window.until_connected()
    for command in ("newTerminal", "showTerminal", "endTerminal"):
        window.do("command", name=f"outlive.{command}")
        assert "has no terminals of its own" in window.messages[-1]
    window.do("command", name="outlive.disconnect")
    window.do("command", name="outlive.newTerminal")
    assert "Not connected" in window.messages[-1]
