"""Tags without a name, at every door."""

import json
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests.attacks.attacking import Requests
from tests.attacks.raw_http import raw_request
from tests.support.server import OutliveServer, run_outlive

pytestmark = pytest.mark.thorough

_NAMELESS = {"": "x"}


def _over_jsonrpc(server: OutliveServer, method: str, **params: object) -> dict[str, object]:
    """Send one request over a WebSocket of the library's own, and return the error."""
    with connect(server.url, compression=None, proxy=None, max_size=None) as websocket:
        websocket.recv()
        websocket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        answer = json.loads(websocket.recv())
    error: dict[str, object] = answer["error"]
    return error


@pytest.mark.promise("W.tags")
def test_a_tag_without_a_name_is_refused_at_every_door(besieged: OutliveServer, tmp_path: Path) -> None:
    rest = Requests(besieged)
    kept = rest.start("sleep 60", tags={"job": "one"})["process_id"]
    trace = tmp_path / "ran"
    start = {"command": f"touch {trace}", "tags": _NAMELESS}
    assert rest("POST", "/v1/processes", body=start).status == 422
    assert rest("PATCH", f"/v1/processes/{kept}", body={"tags": _NAMELESS}).status == 422
    assert rest("GET", "/v1/processes?tag==x").status == 422
    assert rest("POST", "/v1/terminals", body={"tags": _NAMELESS}).status == 422
    assert _over_jsonrpc(besieged, "execute", **start)["code"] == -32602
    assert _over_jsonrpc(besieged, "relabel", process_id=kept, tags=_NAMELESS)["code"] == -32602
    assert _over_jsonrpc(besieged, "list", tags=_NAMELESS)["code"] == -32602
    assert _over_jsonrpc(besieged, "terminal_create", tags=_NAMELESS)["code"] == -32602
    mcp = besieged.ready["ports"]["mcp"]
    kind = "Content-Type: application/json"
    begun = raw_request(
        mcp, "POST /mcp HTTP/1.1", kind, body=b'{"jsonrpc":"2.0","id":0,"method":"initialize"}'
    )
    session = f"Mcp-Session-Id: {begun.headers['mcp-session-id']}"
    for name, arguments in (
        ("run", start),
        ("list", {"tags": _NAMELESS}),
        ("command_execute", start),
        ("execute_background_linux_shell_command", {"cmd": f"touch {trace}", "tags": _NAMELESS}),
        ("terminal_create", {"tags": _NAMELESS}),
    ):
        params = {"name": name, "arguments": arguments}
        call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        answer = raw_request(mcp, "POST /mcp HTTP/1.1", kind, session, body=call).json
        assert "error" in answer or answer["result"]["isError"], name
    words = ("run", "--tag", "=x", "--", "touch", str(trace))
    assert run_outlive(*words, state_dir=besieged.state_dir).returncode != 0
    assert not trace.exists()
    assert rest("GET", f"/v1/processes/{kept}").body["tags"] == {"job": "one"}
    rest("POST", f"/v1/processes/{kept}/control", body={"action": "cancel"})
