"""/v1/nodes: machines are added, drained, resumed and removed, each answered with all of them."""

import pytest

from tests.rest.rest_caller import RestCaller
from tests.support.server import OutliveServer

_ALL = "/v1/nodes"
# The port "discard", where nothing listens: a node that never answers is a node all the same.
_NOWHERE = "http://127.0.0.1:9"


@pytest.mark.promise("L.nodes", "L.nodes.wall")
def test_a_node_is_added_drained_and_removed(server: OutliveServer) -> None:
    rest = RestCaller(server.rest_url)
    body = {"name": "by-rest", "url": _NOWHERE, "token": "word of mouth", "labels": {"zone": "eu"}}
    added = rest.send("POST", _ALL, body)
    assert "word of mouth" not in str(added.json)
    (node,) = (one for one in added.json["nodes"] if one["name"] == "by-rest")
    assert (node["state"], node["added"], node["room"]) == ("away", True, None)
    assert rest.call("GET", _ALL).json["nodes"] == added.json["nodes"]
    assert rest.send("POST", f"{_ALL}/local/drain", {}).json["local"]["draining"]
    refused = rest.refused("POST", "/v1/processes", _refused("local"), status=429)
    assert refused["slug"] == "no_room"
    assert not rest.send("POST", f"{_ALL}/local/resume", {}).json["local"]["draining"]
    assert rest.refused("POST", f"{_ALL}/other/drain", {}, status=400)["slug"] == "invalid_params"
    assert rest.refused("POST", _ALL, {**body, "name": "local"}, status=400)["slug"] == "invalid_params"
    removed = rest.call("DELETE", f"{_ALL}/by-rest")
    assert all(one["name"] != "by-rest" for one in removed.json["nodes"])


def _refused(backend: str) -> dict[str, object]:
    """Return a start that is refused where it would have to wait."""
    return {"command": "true", "backend": backend, "needs": {"cpu": 1, "wait": False}}
