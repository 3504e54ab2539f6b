"""/v1/nodes: machines are added, drained, resumed and removed, each answered with all of them."""

from typing import Any

import pytest

from tests.attacks.attacking import Requests, create_token
from tests.support.server import OutliveServer

_ALL = "/v1/nodes"
# The port "discard", where nothing listens: a node that never answers is a node all the same.
_NOWHERE = "http://127.0.0.1:9"
_SECRET = "word of mouth"


def _start(backend: str) -> dict[str, object]:
    """Return a start that is refused where it would have to wait."""
    return {"command": "true", "backend": backend, "needs": {"cpu": 1, "wait": False}}


def _named(nodes: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [one for one in nodes if one["name"] == name]


@pytest.mark.promise("L.nodes", "L.nodes.wall")
def test_a_node_is_added_drained_and_removed(server: OutliveServer) -> None:
    rest = Requests(server, create_token(server, "admin", name="nodes-by-rest"))
    body = {"name": "by-rest", "url": _NOWHERE, "token": _SECRET, "labels": {"zone": "eu"}}
    added = rest("POST", _ALL, body=body).body
    assert _SECRET not in str(added)
    (node,) = _named(added["nodes"], "by-rest")
    assert (node["state"], node["added"], node["room"]) == ("away", True, None)
    assert len(_named(rest("GET", _ALL).body["nodes"], "by-rest")) == 1
    assert rest("POST", f"{_ALL}/local/drain", body={}).body["local"]["draining"]
    refused = rest("POST", "/v1/processes", body=_start("local"))
    assert refused.slug == "no_room"
    assert not rest("POST", f"{_ALL}/local/resume", body={}).body["local"]["draining"]
    assert rest("POST", f"{_ALL}/other/drain", body={}).slug == "invalid_params"
    assert rest("POST", _ALL, body={**body, "name": "local"}).slug == "invalid_params"
    assert not _named(rest("DELETE", f"{_ALL}/by-rest").body["nodes"], "by-rest")


@pytest.mark.promise("L.nodes.wall")
def test_a_token_that_may_run_changes_no_node(server: OutliveServer) -> None:
    rest = Requests(server, create_token(server, "run", name="runs-by-rest"))
    for method, path, body in (
        ("POST", _ALL, {"name": "mine", "url": _NOWHERE}),
        ("POST", f"{_ALL}/local/drain", {}),
        ("POST", f"{_ALL}/local/resume", {}),
        ("POST", f"{_ALL}/local/adopt", {}),
        ("DELETE", f"{_ALL}/local", None),
    ):
        assert rest(method, path, body=body).slug == "scope_missing"
    assert not _named(rest("GET", _ALL).body["nodes"], "mine")
