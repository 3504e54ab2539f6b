"""A TypeScript client that was connected before the server was killed goes on with the next one, unasked."""

from pathlib import Path

import anyio
import pytest

from tests.mcp_clients.driving import WAYS, Way, driving, text_of
from tests.mcp_clients.installed import Installed
from tests.mcp_clients.recording import RecordingProxy
from tests.mcp_http.raw_caller import BACKGROUND
from tests.support.processes import Gate, Marker, wait_file, wait_for
from tests.support.server import OutliveServer

pytestmark = pytest.mark.slow

_HANDSHAKES = {"initialize", "server/discover"}
_OVER_HTTP = {name: way for name, way in WAYS.items() if way.transport == "http"}


@pytest.mark.promise("M.restart", "W.session", "S4.12.restart", "M.background", "M.official")
@pytest.mark.parametrize("way", _OVER_HTTP.values(), ids=list(_OVER_HTTP))
def test_a_client_goes_on_after_the_server_was_killed_without_a_new_handshake(
    installed: Installed, own_server: OutliveServer, way: Way, gate: Gate, marker: Marker, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    line = f"seq 20000; {gate.wait}; seq 20001 40000; touch '{done}'"
    with RecordingProxy(own_server.mcp_url) as proxy, driving(installed, way, tmp_path) as client:
        client.do("connect", **way.target(own_server, proxy.url))
        tools = client.do("list")
        begun = client.call("command_execute", command=line, background=True)["structuredContent"]
        assert begun["completed"] is False
        client.call(BACKGROUND, cmd=marker.sleep)
        (pid,) = anyio.run(wait_for, marker, 1)
        own_server.kill()
        gate.open()
        anyio.run(wait_file, done)  # the second half was written while there was no server
        own_server.start()
        before = proxy.methods()
        assert client.do("list") == tools
        status = client.call("command_get_status", command_id=begun["id"], max_output=1 << 20)[
            "structuredContent"
        ]["status"]
        assert (status["completed"], status["return_code"], status["stderr"]) == (True, 0, "")
        assert status["stdout"] == "".join(f"{number}\n" for number in range(1, 40001))
        assert "terminated successfully" in text_of(client.call("terminate_process", pid=pid))
        anyio.run(wait_for, marker, 0)
        after = proxy.methods()[len(before) :]
    assert sum(name in _HANDSHAKES for name in before) == 1
    assert [name for name in after if name in _HANDSHAKES] == []
    assert [name for name in after if name.startswith("tools/")].count("tools/call") == 2
