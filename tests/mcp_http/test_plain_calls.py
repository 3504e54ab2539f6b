"""Plain tool calls, which the door answers without the SDK, are answered exactly as the SDK answers them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_http.raw_caller import RawCaller
from tests.support.server import OutliveServer

_VOLATILE = re.compile(r'cmd_\d+_\d+|\d{4}-\d\d-\d\dT[\d:.]+|(?<=duration\\":)[\d.]+|(?<="duration":)[\d.]+')
_ROUNDABOUT = {"tests.example/unknown": 1}  # a key of _meta that nobody knows: the SDK's to judge


def _call(name: str, arguments: object, meta: object = None) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments} | ({} if meta is None else {"_meta": meta})
    return {"jsonrpc": "2.0", "id": "seven", "method": "tools/call", "params": params}


def _steady(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without what differs between any two runs of a command."""
    steady: dict[str, Any] = json.loads(_VOLATILE.sub("0", json.dumps(answer, separators=(",", ":"))))
    return steady


@pytest.mark.promise("S1.2", "S1.5", "S1.7", "S4.2", "S4.4.unknown", "M.ids", "M.handshake")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("command_execute", {"command": "echo out; printf 'a\\377b' >&2; exit 3"}),
        ("command_execute", {"command": ""}),
        ("command_execute", {"command": 7}),
        ("command_execute", {}),
        ("command_get_status", {"command_id": "cmd_1_1"}),
        ("execute_linux_shell_command", {"cmd": "echo out; echo err >&2; exit 3"}),
        ("terminate_process", {"pid": 1}),
        ("run", {"command": "echo never", "argv": ["true"]}),
    ],
)
def test_a_plain_call_is_answered_as_the_sdk_answers_it(
    caller: RawCaller, name: str, arguments: dict[str, object]
) -> None:
    plain = caller.post(_call(name, arguments), official=True)
    roundabout = caller.post(_call(name, arguments, _ROUNDABOUT), official=True)
    assert (plain.status, roundabout.status) == (200, 200)
    assert _steady(plain.json) == _steady(roundabout.json)
    assert plain.headers.keys() == roundabout.headers.keys()


@pytest.mark.promise("M.progress", "M.official")
@pytest.mark.parametrize("token", ["t", 0])
def test_a_plain_call_tells_progress_as_the_sdk_does(caller: RawCaller, token: str | int) -> None:
    meta = {"progressToken": token}
    asked = [
        _call("execute_linux_shell_command", {"cmd": "echo one"}, one) for one in (meta, meta | _ROUNDABOUT)
    ]
    plain, roundabout = (
        caller.post(one, official=True, headers={"Accept": "text/event-stream"}).body for one in asked
    )
    events = [json.loads(text) for text in re.findall(rb"^data: ?(.*)$", plain, re.MULTILINE)]
    assert events == [json.loads(text) for text in re.findall(rb"^data: ?(.*)$", roundabout, re.MULTILINE)]
    progress, answer = events
    assert progress["params"] == {"progressToken": token, "progress": 1, "message": "one\n"}
    assert answer["result"]["content"] == [{"type": "text", "text": "one"}]


@pytest.mark.promise("M.handshake")
@pytest.mark.parametrize(
    ("message", "code"),
    [
        (_call("nothing_of_that_name", {}), -32602),
        (_call("list_processes", []), -32602),
        (_call("list_processes", {}, []), -32602),
        (_call("list_processes", {}, {"progressToken": [1]}), -32602),
        (_call("list_processes", None), None),
        (_call("list_processes", {}, {"progressToken": None}), -32602),
        (_call("list_processes", {}, {"progressToken": True}), None),
    ],
)
def test_what_is_no_plain_call_is_judged_by_the_sdk(
    caller: RawCaller, message: dict[str, Any], code: int | None
) -> None:
    answer = caller.post(message, official=True).json
    assert answer["id"] == "seven"
    assert answer.get("error", {}).get("code") == code
    assert ("result" in answer) is (code is None)


@pytest.mark.thorough
@pytest.mark.promise("M.restart")
def test_the_first_call_after_a_restart_waits_for_no_sdk(own_server: OutliveServer) -> None:
    """The SDK takes a second to import; a shared object that only it brings shows whether that happened."""
    caller = RawCaller.begin(own_server.mcp_url)
    assert b"/cryptography/" in Path(f"/proc/{own_server.pid}/maps").read_bytes()
    own_server.restart()
    assert caller.call("execute_linux_shell_command", cmd="echo on", official=True).text == "on"
    assert b"/cryptography/" not in Path(f"/proc/{own_server.pid}/maps").read_bytes()
