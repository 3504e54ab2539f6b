"""Every door takes `backend`, shows where a process runs, and refuses names that nobody knows."""

import json
from typing import Any

import pytest

from outlive.client import Process
from tests.docs.wire import Wire
from tests.extensions.fleet.pairs import PATIENCE_S, Pair, wait_until
from tests.mcp_http.modern_caller import ModernCaller
from tests.rest.rest_caller import RestCaller
from tests.support.rpc import connect
from tests.support.server import run_outlive

pytestmark = pytest.mark.anyio


@pytest.mark.promise("S4.12.nodes")
def test_rest_starts_on_a_node_and_shows_where(pair: Pair) -> None:
    """`location` stands in the record; an unknown name is told with those that are known."""
    rest = RestCaller(pair.near.rest_url)
    view = rest.call(
        "POST", "/v1/processes", {"command": "echo hi; exit 2", "backend": "far"}, expect=201
    ).json
    assert view["location"] == {"backend": "far"}
    waited = rest.call("GET", f"/v1/processes/{view['process_id']}/wait").json
    assert (waited["exit_code"], waited["location"], "unknown" in waited) == (2, {"backend": "far"}, False)
    problem = rest.send("POST", "/v1/processes", {"command": "true", "backend": "nowhere"})
    assert problem.status in {400, 422}
    assert "far" in problem.body.decode()


@pytest.mark.promise("S4.12.nodes.split")
@pytest.mark.parametrize("tool", ["command_execute", "execute_linux_shell_command", "run"])
def test_mcp_near_runs_far(pair: Pair, tool: str) -> None:
    """The documents' split: the MCP part on one server's port, the process back end on another's."""
    word = "cmd" if tool == "execute_linux_shell_command" else "command"
    arguments = {word: "echo $OUTLIVE_STATE_DIR", "backend": "far"}
    caller = ModernCaller(pair.near.mcp_url, extensions={})
    answer = caller.result("tools/call", name=tool, arguments=arguments)
    assert str(pair.far.state_dir) in json.dumps(answer), answer


@pytest.mark.promise("S4.12.nodes.split")
def test_a_script_of_an_mcp_tool_runs_far(pair: Pair) -> None:
    """Its text goes over, and its file lies there."""
    arguments = {"script_content": "echo $0", "backend": "far"}
    caller = ModernCaller(pair.near.mcp_url, extensions={})
    answer = caller.result("tools/call", name="command_execute_script", arguments=arguments)
    assert str(pair.far.state_dir) in answer["structuredContent"]["stdout"], answer


@pytest.mark.thorough
@pytest.mark.promise("S4.12.nodes.away")
def test_every_door_says_that_a_process_cannot_be_reached_and_keeps_its_state(own_pair: Pair) -> None:
    """`reachable` false, and only while its node is away; the state is what it was."""
    caller = ModernCaller(own_pair.near.mcp_url, extensions={})
    words = {"command": "exec sleep 1000", "backend": "far", "background": True}
    command_id = caller.call("command_execute", **words)["structuredContent"]["id"]
    with own_pair.client() as client:
        process = client.get(client.list()[0].process_id)
        for is_reachable in (True, False, True):
            if is_reachable:
                own_pair.proxy.heal()
            else:
                own_pair.proxy.cut()
            _wait_known(process, is_reachable=is_reachable)
            for door, view in _told(own_pair, caller, process.process_id, command_id).items():
                assert (view.get("reachable", True), "reachable" in view) == (
                    is_reachable,
                    not is_reachable,
                ), door
                assert view.get("state", "running") == "running", door
                assert view.get("status", "running") in {"running", "started"}, door
            for door, (text, mark) in _texts(own_pair, caller, process.process_id).items():
                assert "running" in text, door
                assert (mark not in text) is is_reachable, (door, text)
        process.cancel(0)
        process.wait(PATIENCE_S)


def _wait_known(process: Process, *, is_reachable: bool) -> None:
    wait_until(lambda: process.info().is_reachable is is_reachable)


def _told(pair: Pair, caller: ModernCaller, process_id: str, command_id: str) -> dict[str, dict[str, Any]]:
    """Return how each door describes the only process, by the door."""
    rest, state_dir = RestCaller(pair.near.rest_url), pair.near.state_dir
    (listed,) = rest.call("GET", "/v1/processes").json["processes"]
    (tracked,) = rest.call("GET", "/api/async/processes/list/").json["processes"]
    (background,) = caller.call("list_processes")["structuredContent"]["processes"]
    with Wire.dialled(pair.near.url) as wire:
        got, (in_list,) = wire.call("get", process_id=process_id), wire.call("list")["processes"]
    (ps,) = json.loads(run_outlive("ps", "--json", state_dir=state_dir).stdout)["processes"]
    inspected = run_outlive("inspect", process_id, "--json", state_dir=state_dir).stdout
    return {
        "json-rpc get": got,
        "json-rpc list": in_list,
        "rest": rest.call("GET", f"/v1/processes/{process_id}").json,
        "rest list": listed,
        "rest wait": rest.call("GET", f"/v1/processes/{process_id}/wait", timeout=0).json,
        "api": rest.call("GET", f"/api/async/process/{process_id}/").json,
        "api list": tracked,
        "mcp list_processes": background,
        "mcp status": caller.call("command_get_status", command_id=command_id)["structuredContent"]["status"],
        "cli ps": ps,
        "cli inspect": json.loads(inspected)["processes"][0],
    }


def _texts(pair: Pair, caller: ModernCaller, process_id: str) -> dict[str, tuple[str, str]]:
    """Return what each door prints for people and models, with the words that say it there."""
    state_dir = pair.near.state_dir
    return {
        "lean list": (caller.call("list")["content"][0]["text"], "reachable=false"),
        "lean read": (caller.call("read", id=process_id)["content"][0]["text"], "reachable=false"),
        "list_processes": (caller.call("list_processes")["content"][0]["text"], "(unreachable)"),
        "ps": (run_outlive("ps", state_dir=state_dir).stdout, "running, unreachable"),
        "inspect": (run_outlive("inspect", process_id, state_dir=state_dir).stdout, "running, unreachable"),
    }


async def test_json_rpc_tells_where_and_of_the_nodes(pair: Pair) -> None:
    """`location` only where it is not this machine; `nodes` lists the others."""
    async with connect(pair.near.url) as client:
        answer = await client.request("execute", command="echo hi", backend="far")
        view = await client.request("get", process_id=answer["process_id"])
        assert view["location"] == {"backend": "far"}
        local = await client.request("execute", command="true", backend="local", concurrent=True)
        assert "location" not in await client.request("get", process_id=local["process_id"])
        nodes = await client.request("nodes")
        assert [one["name"] for one in nodes["nodes"]] == ["far"]
        failure = await client.failure("execute", command="true", backend="nowhere", concurrent=True)
        assert failure.reason == "invalid_params"
