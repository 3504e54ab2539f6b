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


@pytest.mark.thorough
@pytest.mark.promise("S4.12.nodes.joined", "A.node")
def test_a_machine_is_invited_and_what_it_cannot_join_is_said(server: OutliveServer) -> None:
    """The code stands in no other answer and in no log; a server over a network is joined with TLS alone."""
    token = create_token(server, "admin", name="joins-by-rpc")
    headers = {"Authorization": f"Bearer {token}"}
    with connect(server.url, additional_headers=headers, proxy=None) as socket:
        call = _caller(socket.send, socket.recv)
        code = call("node_invite", name="invited-by-rpc", labels={"zone": "eu"})["invitation"]["code"]
        listed = call("nodes")
        assert listed["invitation"] is None
        (node,) = [one for one in listed["nodes"] if one["name"] == "invited-by-rpc"]
        assert (node["address"], node["state"], node["added"]) == ("joined", "away", True)
        assert call("node_join", url=_NOWHERE, code=code)["data"]["reason"] == "server_unavailable"
        for url in ("ws://gateway.example:8003", "http://192.0.2.1:8003", "gateway.example"):
            assert "without TLS" in call("node_join", url=url, code=code)["message"]
        assert "is no node of" in call("node_leave", gateway="gateway.example")["message"]
        assert call("node_remove", name="invited-by-rpc")["invitation"] is None
    kept = b"".join(one.read_bytes() for one in server.state_dir.rglob("*") if one.is_file())
    assert code.encode() not in kept
    assert code not in server.stderr
