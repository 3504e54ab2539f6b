"""The relay starts the server, finds it again, and says what was lost; what it started outlives it."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import anyio
import pytest

from tests.mcp_stdio.hosting import environment, hosting, modern, server_of, words
from tests.support.processes import Gate, Marker, end, is_alive, stat, wait_dead, wait_for
from tests.support.server import OutliveServer, end_keeper, run_outlive

pytestmark = pytest.mark.thorough

_BACKGROUND = "execute_background_linux_shell_command"
_FOREGROUND = "execute_linux_shell_command"


@pytest.mark.promise("M.restart", "W.session")
def test_the_session_goes_on_after_the_server_was_killed_and_started_again(own_server: OutliveServer) -> None:
    with hosting(own_server.state_dir) as host:
        host.begin()
        own_server.restart()
        host.call(1, _FOREGROUND, cmd="echo again")
        assert host.text(1) == "again"


@pytest.mark.promise("M.restart", "M.background", "S4.5.scope")
def test_a_killed_server_is_started_again_and_lost_requests_are_told(no_server: Path, marker: Marker) -> None:
    with hosting(no_server) as host:
        host.begin()
        host.call(1, _BACKGROUND, cmd=marker.sleep)
        host.answer(1)
        host.call(2, _FOREGROUND, cmd=f"{marker.sleep}; echo no")
        pids = anyio.run(wait_for, marker, 2)
        (server_pid,) = server_of(no_server)
        end(server_pid)
        assert "went away" in host.answer(2)["error"]["message"]
        host.call(3, "list_processes")
        assert marker.seconds in host.text(3)
        assert all(map(is_alive, pids))
        assert server_of(no_server) != [server_pid]


@pytest.mark.promise("M.stateless", "M.restart")
def test_a_lost_request_without_handshake_is_told_too(no_server: Path, marker: Marker) -> None:
    with hosting(no_server) as host:
        host.send("tools/call", 1, **modern(name=_FOREGROUND, arguments={"cmd": marker.sleep}))
        anyio.run(wait_for, marker, 1)
        end(server_of(no_server)[0])
        assert "went away" in host.answer(1)["error"]["message"]
        host.send("tools/call", 2, **modern(name=_FOREGROUND, arguments={"cmd": "echo on"}))
        assert host.text(2) == "on"


@pytest.mark.promise("M.background")
def test_a_server_that_the_relay_started_outlives_it_and_its_group(no_server: Path, marker: Marker) -> None:
    with hosting(no_server) as host:
        host.begin()
        host.call(1, _BACKGROUND, cmd=marker.sleep)
        host.answer(1)
        (server_pid,) = server_of(no_server)
        found, relay = stat(server_pid), stat(host.process.pid)
        assert found is not None
        assert relay is not None
        assert found.posix_session != relay.posix_session
        assert found.ppid != host.process.pid
        os.killpg(host.process.pid, signal.SIGKILL)
        host.process.wait()
    assert is_alive(server_pid)
    (pid,) = marker.pids()
    with hosting(no_server) as host:
        host.begin()
        host.call(1, "list_processes")
        assert marker.seconds in host.text(1)
        assert server_of(no_server) == [server_pid]
        assert host.leave() == 0
    assert is_alive(server_pid)
    assert is_alive(pid)
    os.kill(server_pid, signal.SIGTERM)
    anyio.run(wait_dead, server_pid)
    end_keeper(no_server)
    anyio.run(wait_dead, pid)


def test_hosts_that_start_at_once_share_one_server(no_server: Path) -> None:
    with hosting(no_server) as one, hosting(no_server) as two, hosting(no_server) as three:
        for host in (one, two, three):
            host.begin()
        assert len(server_of(no_server)) == 1


def test_a_server_that_cannot_start_is_told_with_the_reason(no_server: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with hosting(no_server, {"OUTLIVE_MCP_PORT": port}) as host:
            host.send("initialize", 1)
            assert f"Port {port}" in host.answer(1)["error"]["message"]
            assert host.leave() == 0
        assert f"Port {port}" in host.stderr


@pytest.mark.promise("M.restart")
def test_a_session_that_the_server_does_not_know_is_begun_anew(own_server: OutliveServer) -> None:
    with hosting(own_server.state_dir) as host:
        host.begin()
        own_server.stop()
        (own_server.state_dir / "mcp.key").unlink()
        own_server.start()
        host.call(1, _FOREGROUND, cmd="echo anew")
        assert host.text(1) == "anew"


@pytest.mark.promise("M.restart")
def test_requests_survive_kills_in_between_or_are_told(no_server: Path) -> None:
    """Every request has exactly one answer, whatever happens to the server."""
    with hosting(no_server) as host:
        host.begin()
        wanted: set[int] = set()
        for number in range(1, 25):
            wanted.add(number)
            if number % 3:
                host.call(number, _FOREGROUND, cmd=f"echo {number}")
            else:
                host.send("tools/list", number)
            if number % 8 == 0:
                for pid in server_of(no_server):
                    end(pid)
        answered: list[int] = []
        while len(answered) < len(wanted):
            message = host.next()
            answered.append(message["id"])
            if message["id"] % 3 == 0:
                assert message["result"]["tools"]
        assert sorted(answered) == sorted(wanted)


def test_the_help_and_mistakes_are_not_said_on_stdout(no_server: Path) -> None:
    wrong = subprocess.run(
        [*words(no_server), "--nonsense"], env=environment(), capture_output=True, text=True, check=False
    )
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "--help" in wrong.stderr
    explained = run_outlive("mcp", "--help", state_dir=no_server)
    assert "MCP on stdin and stdout" in explained.stdout
    blocked = no_server.parent / "file"
    blocked.touch()
    refused = subprocess.run(
        words(blocked),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "is not a folder" in refused.stderr


@pytest.mark.promise("C.owner.stopped")
def test_after_an_ordered_stop_the_hosts_next_tool_call_brings_a_server_back_and_nothing_else_does(
    own_server: OutliveServer,
) -> None:
    """A ping is answered by the relay, which is there: a host that missed it would start another relay."""
    with hosting(own_server.state_dir) as host:
        host.begin()
        own_server.stop()
        host.send("tools/list", 1)
        assert "stopped on purpose" in host.answer(1)["error"]["message"]
        host.send("ping", 2)
        assert host.answer(2)["result"] == {}
        host.send("notifications/roots/list_changed")
        host.send("ping", 3)
        assert host.answer(3)["result"] == {}
        assert server_of(own_server.state_dir) == []
        host.call(4, "command_execute", command="echo back")
        assert "back" in host.text(4)
        (pid,) = server_of(own_server.state_dir)
        end(pid)


@pytest.mark.promise("M.resources.updates", "M.restart")
def test_a_subscription_goes_on_after_the_server_was_killed(
    own_server: OutliveServer, tmp_path: Path
) -> None:
    with hosting(own_server.state_dir) as host:
        host.begin()
        first, second = Gate(tmp_path / "first"), Gate(tmp_path / "second")
        host.call(1, _BACKGROUND, cmd=f"{first.wait}; echo one; {second.wait}; echo two")
        uri = f"outlive://process/{host.text(1).rpartition(' ')[2]}/output"
        host.send("resources/subscribe", 2, uri=uri)
        assert host.answer(2)["result"] == {}
        first.open()
        told = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}
        assert host.next() == told
        own_server.restart()
        assert host.next() == told  # whatever came while no server listened
        second.open()
        text = ""
        while text != "one\ntwo":
            assert host.next() == told
            host.send("resources/read", 3, uri=uri)
            text = host.answer(3)["result"]["contents"][0]["text"]
        host.send("resources/unsubscribe", 4, uri=uri)
        assert host.answer(4)["result"] == {}


@pytest.mark.promise("M.resources.updates", "M.stateless")
def test_a_stream_of_subscriptions_passes_the_relay_and_ends_with_a_word(
    own_server: OutliveServer, tmp_path: Path
) -> None:
    with hosting(own_server.state_dir) as host:
        gate = Gate(tmp_path / "gate")
        host.send("tools/call", 1, **modern(name=_BACKGROUND, arguments={"cmd": f"{gate.wait}; echo one"}))
        uri = f"outlive://process/{host.text(1).rpartition(' ')[2]}/output"
        unknown = uri.replace("process/", "process/0")
        host.send(
            "subscriptions/listen", 2, **modern(notifications={"resourceSubscriptions": [unknown, uri]})
        )
        acknowledged = host.next()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["notifications"] == {"resourceSubscriptions": [uri]}
        gate.open()
        told = host.next()
        assert (told["method"], told["params"]["uri"]) == ("notifications/resources/updated", uri)
        own_server.stop()
        meta = host.answer(2)["result"]["_meta"]
        assert meta["io.modelcontextprotocol/subscriptionId"] == 2
