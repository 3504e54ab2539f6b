"""Each setting of the tools reaches them: a server with all of them changed, asked over HTTP."""

import json

import anyio
import pytest

from outlive.config import resolve
from tests.mcp_http.modern_caller import ModernCaller
from tests.mcp_http.raw_caller import BACKGROUND, RawCaller, events_of, request
from tests.support.fixtures import ServerFactory
from tests.support.processes import Marker, poll_until, wait_dead
from tests.support.server import OutliveServer


@pytest.mark.promise("S4.1", "S4.9", "S1.8", "S1.10")
def test_the_defaults_and_the_documents_names_of_the_environment() -> None:
    plain = resolve({}, {"HOME": "/ann"}, working_folder="/").settings
    assert (plain.mcp_port, plain.termination_timeout_s, plain.mcp_api_key) == (8888, 30.0, "")
    assert (plain.wait_s, plain.command_timeout_s, plain.max_output_bytes) == (45.0, 60.0, 1 << 20)
    assert (plain.tools_disabled, plain.scripts_disabled, plain.allow_sudo) == (False, False, None)
    assert (plain.allowed_patterns, plain.blocked_patterns, plain.mcp_tools) == (("*",), (), "all")
    names = {"MCP_REMOTE_PORT": "9", "TERMINATION_TIMEOUT": "7", "MCP_API_KEY": "k"}
    chosen = resolve({}, {"HOME": "/ann", **names}, working_folder="/").settings
    assert (chosen.mcp_port, chosen.termination_timeout_s, chosen.mcp_api_key) == (9, 7.0, "k")


@pytest.mark.promise("S4.13.address")
def test_a_host_over_http_chooses_its_tools_in_the_address(server: OutliveServer) -> None:
    """Its own, beside hosts with others: the server's setting stays as it is."""
    lean, documents = (RawCaller.begin(f"{server.mcp_url}?tools={name}") for name in ("lean", "documents"))
    assert len(_tools(lean)) == 7
    assert len(_tools(documents)) == 8
    assert "command_execute" in [tool["name"] for tool in _tools(RawCaller.begin(server.mcp_url))]
    assert lean.call("run", official=True, command="echo hi").text == "[exit 0]\nhi"
    assert "error" in lean.call("execute_linux_shell_command", official=True, cmd="true").json
    assert documents.call("execute_linux_shell_command", cmd="echo hi").text == "hi"
    modern = ModernCaller(f"{server.mcp_url}?tools=lean")
    assert len(modern.result("tools/list")["tools"]) == 7


@pytest.mark.promise("S4.13.address")
def test_a_tool_set_that_is_none_is_refused_with_those_that_are(server: OutliveServer) -> None:
    for name in ("slim", "", "claude", "codex"):
        answer = request(f"{server.mcp_url}?tools={name}", "POST", body=b"{}")
        assert answer.status == 400
        error = answer.json["error"]
        assert repr(name) in error["message"]
        assert "lean, documents" in error["data"]["hint"]


@pytest.mark.thorough
@pytest.mark.promise("S1.7", "S1.8", "S1.8.output", "S1.9", "S1.10", "S4.13")
def test_a_server_passes_every_setting_on(serve: ServerFactory, marker: Marker) -> None:
    switches = ("--disable-scripts", "--allow-sudo")
    patterns = ("--allowed-patterns", "sleep *,seq *,sudo *", "--blocked-patterns", "seq 7*")
    numbers = (
        "--command-timeout",
        "1",
        "--max-output-size",
        "1K",
        "--wait",
        "0.2",
        "--mcp-tools",
        "documents",
    )
    caller = RawCaller.begin(serve(*switches, *patterns, *numbers).mcp_url)
    assert "run" not in [tool["name"] for tool in _tools(caller)]

    def execute(command: str, **more: float) -> dict[str, object]:
        answered = json.loads(caller.call("command_execute", 1, official=False, command=command, **more).text)
        assert isinstance(answered, dict)
        return answered

    script = json.loads(caller.call("command_execute_script", 1, script_content="seq 1").text)
    assert script["error"] == "Script execution is disabled"
    assert execute("ls")["error"] == "Command does not match any allowed pattern"
    assert execute("seq 70")["error"] == "Command matches blocked pattern: seq 7*"
    assert "omitted" in str(execute("seq 1000", wait_s=20)["stdout"])
    assert "id" in execute("sudo --version", wait_s=20)
    official = caller.call("command_execute", 1, official=True, command=marker.sleep).json["result"]
    started = official["structuredContent"]
    assert (started["completed"], started["error"], started["timeout"]) == (False, None, 1)
    assert (started["success"], started["running"], official["isError"]) == (None, True, False)
    anyio.run(poll_until, lambda: not marker.pids())
    status = json.loads(caller.call("command_get_status", 1, command_id=started["id"]).text)["status"]
    assert status["error"] == "Command timed out after 1 seconds"
    assert execute("seq 5", wait_s=20)["stdout"] == "1\n2\n3\n4\n5\n"
    disabled = RawCaller.begin(serve("--disable-commands").mcp_url)
    refused = json.loads(disabled.call("command_execute", 1, command="true").text)
    assert refused == {"success": False, "error": "Command execution is disabled", "command": "true"}
    assert disabled.call("run", 2, command="true").text.startswith("Command execution is disabled")


def _tools(caller: RawCaller) -> list[dict[str, object]]:
    tools = caller.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).json["result"]["tools"]
    assert isinstance(tools, list)
    return tools


@pytest.mark.thorough
@pytest.mark.promise("S4.6", "S4.6.result", "S4.9")
def test_a_cancel_is_term_then_kill_after_the_termination_timeout(
    serve: ServerFactory, marker: Marker
) -> None:
    """The tree hears TERM, says so, goes on, and is gone all the same."""
    caller = RawCaller.begin(serve(TERMINATION_TIMEOUT="0.5").mcp_url)
    command = f"trap 'echo heard' TERM; echo ready; setsid {marker.sleep} & while :; do sleep 0.05; done"
    with caller.stream(BACKGROUND, 3, cmd=command) as response:
        events = events_of(response)
        pid = next(events)[1]["pid"]
        assert next(events) == ("stdout", {"content": "ready"})
        assert caller.cancel("3").status == 204
        anyio.run(wait_dead, pid)  # with half the default's patience: it is this timeout that counts
        rest = list(events)
    assert ("stdout", {"content": "heard"}) in rest
    name, last = rest[-1]
    assert (name, last["id"], last["result"]["isError"]) == ("message", 3, True)
    assert last["result"]["content"][0]["text"].startswith("[Process was terminated]")
    assert marker.pids() == []
