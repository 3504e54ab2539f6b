"""What an MCP session that its client has ended leaves behind is marked, at once and after a restart."""

import pytest

from tests.attacks.attacking import Requests
from tests.mcp_http.raw_caller import RawCaller
from tests.mcp_stdio.hosting import hosting
from tests.support.rpc import connect
from tests.support.server import OutliveServer

pytestmark = pytest.mark.thorough


def _marks(server: OutliveServer) -> dict[str, object]:
    listed = Requests(server)("GET", "/v1/processes").body["processes"]
    return {one["command"].split()[-1]: one.get("session_over", False) for one in listed}


@pytest.mark.promise("M.left-behind")
async def test_what_lives_of_an_ended_session_is_marked_and_told_of(own_server: OutliveServer) -> None:
    ended, other = RawCaller.begin(own_server.mcp_url), RawCaller.begin(own_server.mcp_url)
    ended.call("run", 1, command="sleep 60 # left", background=True)
    ended.call("run", 2, command="true # over")
    other.call("run", 1, command="sleep 60 # kept", background=True)
    assert _marks(own_server) == {"left": False, "over": False, "kept": False}
    async with connect(own_server.url) as watcher:
        await watcher.request("events", events=["session_ended"])
        assert ended.delete().status == 200
        told = await watcher.notification("event")
        assert told["process"]["session_over"] is True
        assert told["process"]["state"] == "running"
        await watcher.barrier()
        assert [one for one in watcher.messages if one.get("method") == "event"][1:] == []
    assert _marks(own_server) == {"left": True, "over": False, "kept": False}
    own_server.restart()
    assert _marks(own_server) == {"left": True, "over": False, "kept": False}


@pytest.mark.promise("M.left-behind")
def test_a_host_that_closes_its_relay_ends_the_session(own_server: OutliveServer) -> None:
    with hosting(own_server.state_dir) as host:
        host.begin()
        host.ask("run", command="sleep 60 # left", background=True)
        assert _marks(own_server) == {"left": False}
        assert host.leave() == 0
    assert _marks(own_server) == {"left": True}
