"""Another principal's commands over MCP: by command id, process id, pid, request id, session id, workspace
and key.
"""

import json
import shlex
from typing import Any

import pytest

from tests.attacks.attacking import Requests, create_token
from tests.mcp_http.raw_caller import BACKGROUND, RawCaller
from tests.mcp_stdio.hosting import words
from tests.support.server import OutliveServer


def _caller(server: OutliveServer, token: str | None = None) -> RawCaller:
    return RawCaller.begin(server.mcp_url, {"Authorization": f"Bearer {token}"} if token else None)


def _structured(caller: RawCaller, tool: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 -- whatever a tool takes
    answer: dict[str, Any] = caller.call(tool, 5, **arguments).json["result"]["structuredContent"]
    return answer


@pytest.mark.promise("A.owner")
def test_another_principals_command_is_not_there_by_any_name(own_server: OutliveServer) -> None:
    mine, yours = _caller(own_server), _caller(own_server, create_token(own_server, "admin"))
    started = _structured(mine, "command_execute", command="echo a secret; sleep 60", background=True)
    assert "running" in mine.call("run", command="sleep 60", wait_s=0, key="k", tags={"a": "b"}).text
    mine.call(BACKGROUND, 77, cmd="sleep 60")
    (listed,) = [
        one for one in _structured(mine, "list_processes")["processes"] if one["command"].startswith("echo a")
    ]
    assert not _structured(yours, "command_get_status", command_id=started["id"])["found"]
    assert _structured(yours, "command_list_history")["count"] == 0
    assert _structured(yours, "list_processes")["count"] == 0
    assert yours.call("terminate_process", pid=listed["pid"]).json["result"]["isError"]
    for name in (started["id"], listed["process_id"], "p1", "p2", "p3"):
        calls: tuple[tuple[str, dict[str, Any]], ...] = (
            ("read", {"id": name}),
            ("wait", {"ids": [name], "wait_s": 0}),
            ("send", {"id": name, "text": "x"}),
            ("control", {"id": name, "action": "pause"}),
            ("stop", {"ids": [name]}),
        )
        for tool, arguments in calls:
            answer = yours.call(tool, **arguments)
            assert answer.json["result"]["isError"], tool
            assert "secret" not in answer.text
    assert yours.call("list", all=True).text == "[no processes]"
    other = yours.call("run", command="echo mine", key="k").text
    assert "mine" in other  # the same key, and a command of its own
    assert yours.cancel(77).status == 204  # a request of that id in a session of its own: nothing ends
    assert _structured(mine, "list_processes")["count"] == 3
    for one in _structured(mine, "list_processes")["processes"]:
        mine.call("control", id=one["process_id"], action="signal", signal="KILL")


@pytest.mark.promise("A.owner")
def test_another_principals_mcp_session_is_unknown(besieged: OutliveServer) -> None:
    mine, token = _caller(besieged), create_token(besieged, "admin")
    thief = RawCaller(mine.url, mine.session_id, {"Authorization": f"Bearer {token}"})
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert mine.post(message).status == 200
    assert thief.post(message).status == 404


@pytest.mark.promise("A.scope")
def test_a_token_that_may_read_runs_no_tool_that_does_something(besieged: OutliveServer) -> None:
    reader = _caller(besieged, create_token(besieged, "read"))
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("command_execute", {"command": "date"}),
        ("command_execute_script", {"script_content": "date"}),
        ("execute_linux_shell_command", {"cmd": "date"}),
        (BACKGROUND, {"cmd": "date"}),
        ("terminate_process", {"pid": 1}),
        ("run", {"command": "date"}),
        ("send", {"id": "x", "text": "x"}),
        ("control", {"id": "x", "action": "cancel"}),
    )
    for tool, arguments in calls:
        result = reader.call(tool, **arguments).json["result"]
        assert result["isError"], tool
        assert "scope 'run'" in result["content"][0]["text"], tool
    with reader.stream(BACKGROUND, cmd="date") as response:
        assert b"scope 'run'" in response.read()
    assert reader.call("list").text.startswith("[nothing is running;")


@pytest.mark.promise("A.inside", "A.token")
def test_the_relay_inside_a_command_shows_the_token_that_it_was_given(besieged: OutliveServer) -> None:
    mine = Requests(besieged)
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    hello = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    line = f"printf '%s\\n' {shlex.quote(hello)} | {shlex.join(words(besieged.state_dir))}"
    refused = json.loads(mine.output(mine.start(line)["process_id"]).splitlines()[0])
    assert "inside_process" in json.dumps(refused)
    env = {"OUTLIVE_TOKEN": create_token(besieged)}
    welcome = json.loads(mine.output(mine.start(line, env=env)["process_id"]).splitlines()[0])
    assert welcome["result"]["serverInfo"]["name"] == "outlive"
