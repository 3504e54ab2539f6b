"""How long a call of a document's tool waits, by who calls: plain HTTP, with exactly the headers that each
sends.
"""

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest

from tests.mcp_http.modern_caller import ModernCaller
from tests.mcp_http.raw_caller import RawCaller, request
from tests.support.fixtures import ServerFactory
from tests.support.processes import Marker

_LONG = "echo begun; sleep 1.5; echo d$((1))ne"  # five times what a call waits here
_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("command_execute", {"command": _LONG}),
    ("command_execute_script", {"script_content": _LONG}),
    ("execute_linux_shell_command", {"cmd": _LONG}),
)


@pytest.mark.thorough
@pytest.mark.promise("S1.10", "S1.10.raw")
def test_the_documents_tools_wait_to_the_end_for_whoever_can_wait(
    serve: ServerFactory, marker: Marker
) -> None:
    caller = RawCaller.begin(serve("--wait", "0.3").mcp_url)
    for name, arguments in _CALLS:
        raw = caller.call(name, 1, **arguments)
        assert "d1ne" in raw.text
        assert raw.json["result"]["isError"] is False
        early = caller.call(name, 2, official=True, **arguments).json["result"]
        assert "d1ne" not in str(early["content"])
        assert early["isError"] is False
        assert early["structuredContent"]["running"] is True
        assert early["structuredContent"]["id"]
        assert early["structuredContent"].get("success") is None
        assert "d1ne" in _with_progress_token(caller, name, arguments)
    # The command's own timeout ends the call of a raw caller, not the patience of other clients.
    ended = json.loads(caller.call("command_execute", 3, command=marker.sleep, timeout=1).text)
    assert ended["error"] == "Command timed out after 1 seconds"
    # Both may still choose: the call's own wait_s counts.
    chosen = json.loads(caller.call("command_execute", 4, command=_LONG, wait_s=0.1).text)
    assert (chosen["running"], chosen["success"]) == (True, None)


@pytest.mark.thorough
@pytest.mark.promise("S1.10", "S1.5.running")
@pytest.mark.parametrize(("name", "arguments"), _CALLS)
def test_a_caller_of_the_later_revision_is_answered_early_and_never_that_it_failed(
    serve: ServerFactory, name: str, arguments: dict[str, Any]
) -> None:
    """2026-07-28, without tasks: it may have no session, and asks for the end by the name that it was
    given.
    """
    caller = ModernCaller(serve("--wait", "0.3").mcp_url, extensions={})
    early = caller.call(name, **arguments)
    assert early["isError"] is False
    shown = early["structuredContent"]
    assert (shown["running"], shown.get("success")) == (True, None)
    assert "d1ne" not in str(early["content"])
    if name == "execute_linux_shell_command":
        last = caller.call("wait", ids=[shown["id"]], wait_s=20)
        assert "exit 0]" in last["content"][0]["text"]
        return
    status = caller.call("command_get_status", command_id=shown["id"])["structuredContent"]["status"]
    assert (status["success"], status["completed"], status["running"]) == (False, False, True)
    deadline = time.monotonic() + 20
    while "running" in status:
        assert time.monotonic() < deadline, status
        status = caller.call("command_get_status", command_id=shown["id"])["structuredContent"]["status"]
    assert (status["success"], status["completed"], status["stdout"]) == (True, True, "begun\nd1ne\n")


def _with_progress_token(caller: RawCaller, name: str, arguments: Mapping[str, Any]) -> str:
    """Return the whole event stream that answers a call of an official client which asked for progress."""
    params = {"name": name, "arguments": arguments, "_meta": {"progressToken": "p"}}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25",
        "Mcp-Session-Id": caller.session_id,
    }
    answer = request(caller.url, "POST", body=json.dumps(message).encode(), headers=headers)
    last = json.loads(answer.body.rsplit(b"data:", 1)[1])
    assert last["id"] == 7
    assert "running" not in (last["result"].get("structuredContent") or {})
    return str(last["result"]["content"])
