"""The methods about nodes: each is answered with all of them."""

import pytest

from tests.support.rpc import RpcClient, RpcFailure

pytestmark = pytest.mark.anyio

# The port "discard", where nothing listens: a node that never answers is a node all the same.
_NOWHERE = "ws://127.0.0.1:9"


@pytest.mark.promise("L.nodes")
async def test_nodes_are_added_changed_drained_resumed_and_removed(client: RpcClient) -> None:
    added = await client.request("node_add", name="by-rpc", url=_NOWHERE, cpu=2)
    assert [one["state"] for one in added["nodes"] if one["name"] == "by-rpc"] == ["away"]
    changed = await client.request("node_add", name="by-rpc", url="ws://127.0.0.1:99")
    assert [one["address"] for one in changed["nodes"] if one["name"] == "by-rpc"] == [
        "ws://127.0.0.1:99/ws/mcp"
    ]
    drained = await client.request("node_drain", name="local")
    assert drained["local"]["draining"]
    resumed = await client.request("node_resume", name="local")
    assert not resumed["local"]["draining"]
    with pytest.raises(RpcFailure, match="no node"):
        await client.request("node_remove", name="other")
    await client.request("node_remove", name="by-rpc")
    assert all(one["name"] != "by-rpc" for one in (await client.request("nodes"))["nodes"])
