"""The MCP session goes on when the server is killed and started again, and so do its commands."""

import os
import re
import stat
import threading
from pathlib import Path

import anyio
import pytest

from tests.mcp_http.raw_caller import BACKGROUND, RawCaller, events_of, request
from tests.support.processes import Gate, Marker, is_alive, poll_until, wait_dead, wait_file, wait_for
from tests.support.server import OutliveServer

pytestmark = pytest.mark.thorough


def _pid(text: str) -> int:
    found = re.search(r"PID:? (\d+)", text)
    assert found is not None, text
    return int(found[1])


@pytest.mark.promise("M.restart", "W.session", "S4.12.restart", "S4.5.scope", "S4.6")
def test_a_session_and_its_commands_outlive_a_killed_server(
    own_server: OutliveServer, marker: Marker
) -> None:
    caller = RawCaller.begin(own_server.mcp_url)
    with caller.stream(BACKGROUND, 1, cmd=marker.sleep) as response:
        pid = next(events_of(response))[1]["pid"]
    own_server.restart()
    assert _pid(caller.call("list_processes", 2).text) == pid
    newcomer = RawCaller.begin(own_server.mcp_url)
    assert _pid(newcomer.call("list_processes", 2).text) == pid
    assert caller.cancel("1").status == 204
    anyio.run(wait_dead, pid)
    # The kernel knows first: the shim reaps, the keeper tells, and only then it is no longer listed.
    nothing = "No background processes running"
    anyio.run(poll_until, lambda: caller.call("list_processes", 3).text == nothing)


@pytest.mark.promise("S4.1")
def test_an_ended_session_stays_ended_after_a_restart(own_server: OutliveServer) -> None:
    ended, other = RawCaller.begin(own_server.mcp_url), RawCaller.begin(own_server.mcp_url)
    request(ended.url, "DELETE", headers={"Mcp-Session-Id": ended.session_id})
    own_server.restart()
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert ended.post(ping).status == 404
    assert other.post(ping).status == 200
    key = os.stat(own_server.state_dir / "mcp.key")
    assert stat.S_IMODE(key.st_mode) == 0o600


@pytest.mark.promise("M.restart", "M.background")
def test_a_stopped_server_ends_no_command_that_somebody_waits_for(
    own_server: OutliveServer, marker: Marker, gate: Gate
) -> None:
    """Neither the one a caller waits for nor the one that is streamed."""
    caller = RawCaller.begin(own_server.mcp_url)

    def wait_in_vain() -> None:
        try:
            caller.call("execute_linux_shell_command", 1, cmd=marker.sleep)
        except OSError:
            return  # the server went away, as the test wants

    waiting = threading.Thread(target=wait_in_vain)
    waiting.start()
    with caller.stream(BACKGROUND, 2, cmd=f"{gate.wait}; {marker.sleep}") as response:
        streamed = next(events_of(response))[1]["pid"]
        (waited,) = anyio.run(wait_for, marker, 1)
        assert own_server.stop() == 0
    waiting.join(20)
    gate.open()
    anyio.run(wait_for, marker, 2)
    own_server.start()
    assert is_alive(waited)
    assert is_alive(streamed)
    for request_id in (1, 2):
        assert caller.cancel(request_id).status == 204
    anyio.run(wait_for, marker, 0)


@pytest.mark.promise("S4.13.workspace", "M.restart")
def test_a_workspace_outlives_a_killed_server(own_server: OutliveServer, gate: Gate) -> None:
    """Also what a command leaves there that ends while no server lives."""
    caller = RawCaller.begin(own_server.mcp_url)
    caller.call("run", 1, command="cd /usr/lib; export A=1", workspace="w")
    own_server.restart()
    assert caller.call("run", 2, command="pwd; echo $A", workspace="w").text.endswith("]\n/usr/lib\n1")
    line = f"cd /etc; export A=2; {gate.wait}; echo $$ > {gate.path}.pid"
    caller.call("run", 3, command=line, workspace="w", wait_s=0)
    own_server.kill()
    gate.open()
    anyio.run(wait_file, Path(f"{gate.path}.pid"))
    anyio.run(wait_dead, int(Path(f"{gate.path}.pid").read_text()))
    own_server.start()
    assert caller.call("run", 4, command="pwd; echo $A", workspace="w").text.endswith("]\n/etc\n2")
