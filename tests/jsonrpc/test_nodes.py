"""The methods about nodes: each is answered with all of them."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from websockets.sync.client import connect

from tests.attacks.attacking import create_token
from tests.support.server import OutliveServer

# Nothing listens there: a node that never answers is a node all the same.
_NOWHERE, _ELSEWHERE = "ws://127.0.0.1:9", "ws://127.0.0.1:99"


def _caller(ask: Callable[[str], None], answer: Callable[[], str | bytes]) -> Callable[..., dict[str, Any]]:
    """Return what sends one request and returns its result or error."""

    def call(method: str, **params: object) -> dict[str, Any]:
        ask(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        while True:
            message = json.loads(answer())
            if message.get("id") == 1:
                found: dict[str, Any] = message.get("result") or message["error"]
                return found

    return call


@pytest.mark.promise("L.nodes")
def test_nodes_are_added_changed_drained_resumed_and_removed(server: OutliveServer) -> None:
    token = create_token(server, "admin", name="nodes-by-rpc")
    headers = {"Authorization": f"Bearer {token}"}
    with connect(server.url, additional_headers=headers, proxy=None) as socket:
        call = _caller(socket.send, socket.recv)

        def addresses(answer: dict[str, Any]) -> list[str]:
            return [one["address"] for one in answer["nodes"] if one["name"] == "by-rpc"]

        assert addresses(call("node_add", name="by-rpc", url=_NOWHERE, cpu=2)) == [f"{_NOWHERE}/ws/mcp"]
        assert addresses(call("node_add", name="by-rpc", url=_ELSEWHERE)) == [f"{_ELSEWHERE}/ws/mcp"]
        assert call("node_drain", name="local")["local"]["draining"]
        assert not call("node_resume", name="local")["local"]["draining"]
        assert "no node" in call("node_remove", name="other")["message"]
        assert addresses(call("node_remove", name="by-rpc")) == []
        assert addresses(call("nodes")) == []
