"""Every door takes `backend`, shows where a process runs, and refuses names that nobody knows."""

import json

import pytest

from tests.mcp_http.modern_caller import ModernCaller
from tests.remote.pairs import Pair
from tests.rest.rest_caller import RestCaller
from tests.support.rpc import connect

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
