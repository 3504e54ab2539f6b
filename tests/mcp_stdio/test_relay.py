"""The relay line by line: both eras, progress as it comes, cancels, bad lines, and nothing but JSON-RPC on
stdout.
"""

import json
import subprocess
import time

import pytest

from tests.mcp_stdio.hosting import INITIALIZE, Host, environment, hosting, modern, words
from tests.support.processes import Gate, Marker, is_alive, wait_dead, wait_for
from tests.support.server import OutliveServer

_BACKGROUND = "execute_background_linux_shell_command"
_FOREGROUND = "execute_linux_shell_command"


@pytest.mark.promise("M.handshake", "M.ids")
def test_requests_run_side_by_side_and_keep_their_ids(host: Host, gate: Gate) -> None:
    host.begin()
    host.call("slow", _FOREGROUND, cmd=f"{gate.wait}; echo slow")
    host.call(7, _FOREGROUND, cmd=f"touch '{gate.path}'; echo fast")
    assert host.text(7) == "fast"
    assert host.text("slow") == "slow"


@pytest.mark.promise("M.handshake")
def test_what_is_sent_before_the_handshake_is_answered_waits_for_it(host: Host) -> None:
    host.send("initialize", 0, **INITIALIZE)
    host.send("tools/list", 1)
    assert host.answer(1)["result"]["tools"]


@pytest.mark.promise("M.progress")
def test_progress_is_passed_on_while_the_command_runs(host: Host, gate: Gate) -> None:
    host.begin()
    host.call(1, _BACKGROUND, token="t", cmd=f"echo one; {gate.wait}; echo two")
    first = host.next()
    assert first["method"] == "notifications/progress"
    assert (first["params"]["progressToken"], first["params"]["message"]) == ("t", "one\n")
    gate.open()
    assert host.text(1) == "one\ntwo"


@pytest.mark.promise("M.stateless", "M.progress")
def test_the_revision_without_handshake_gets_the_headers_it_asks_for(host: Host) -> None:
    host.send("server/discover", 1, **modern())
    assert "2026-07-28" in host.answer(1)["result"]["supportedVersions"]
    host.send("tools/call", 2, **modern(name=_BACKGROUND, arguments={"cmd": "echo hi"}, token=5))
    assert host.text(2) == "hi"
    assert host.next()["params"]["message"] == "hi\n"
    host.send("tools/call", 3, **modern(name="ünknown tool", arguments={}))
    assert host.answer(3)["error"]["code"] == -32602
    host.send("no/such", 4, **modern())
    assert host.answer(4)["error"]["code"] == -32601


@pytest.mark.promise("M.handshake", "S4.6", "M.background")
async def test_a_cancel_reaches_a_command_of_either_kind(host: Host, marker: Marker) -> None:
    host.begin()
    for request_id, tool in enumerate((_FOREGROUND, _BACKGROUND), 1):
        host.call(request_id, tool, cmd=marker.sleep)
        (pid,) = await wait_for(marker, 1)
        host.send("notifications/cancelled", requestId=request_id, reason="enough")
        await wait_dead(pid)
    assert host.next()["id"] == 2, "the first one was cancelled before it had an answer, and gets none"
    host.call(3, _FOREGROUND, cmd="echo on")
    assert host.next()["id"] == 3


@pytest.mark.promise("M.handshake", "S4.6")
async def test_a_cancel_right_behind_its_request_is_not_lost(host: Host, marker: Marker) -> None:
    host.begin()
    host.call(1, _FOREGROUND, cmd=marker.sleep)
    host.send("notifications/cancelled", requestId=1)
    host.call(2, _FOREGROUND, cmd="echo on")
    assert host.next()["id"] == 2  # a cancelled request has no answer
    await wait_for(marker, 0)


@pytest.mark.promise("M.stateless")
async def test_a_cancel_without_handshake_closes_the_stream(host: Host, marker: Marker) -> None:
    host.send("tools/call", 1, **modern(name=_FOREGROUND, arguments={"cmd": marker.sleep}))
    (pid,) = await wait_for(marker, 1)
    host.send("notifications/cancelled", requestId=1)
    await wait_dead(pid)
    host.send("tools/call", 2, **modern(name=_FOREGROUND, arguments={"cmd": "echo on"}))
    assert host.next()["id"] == 2  # a cancelled request has no answer


@pytest.mark.promise("M.ids")
@pytest.mark.parametrize(
    ("line", "request_id", "code"),
    [
        (b"junk", None, -32700),
        (b"[]", None, -32600),
        (b"[" * 100_000, None, -32700),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":5}', 5, -32600),
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/list"}', 5, -32600),  # no session yet
        (b'{"id":"x","method":"ping"}', "x", -32600),
    ],
)
def test_a_bad_line_gets_an_error_and_the_next_one_works(
    host: Host, line: bytes, request_id: str | int | None, code: int
) -> None:
    host.send_line(line)
    assert host.answer(request_id)["error"]["code"] == code
    host.send_line(b"  ")
    host.begin()


@pytest.mark.promise("M.ids")
def test_an_oversized_request_is_answered_under_its_own_id(host: Host) -> None:
    host.begin()
    host.call("big", _FOREGROUND, cmd="#" * (17 * 1024 * 1024))
    assert "larger" in host.answer("big")["error"]["message"]
    host.call("next", _FOREGROUND, cmd="echo on")
    assert host.text("next") == "on"


def test_large_answers_arrive_whole(host: Host) -> None:
    host.begin()
    host.call(1, _FOREGROUND, cmd="seq 100000", max_output=1_000_000)
    assert host.text(1).splitlines() == [str(number) for number in range(1, 100_001)]


@pytest.mark.promise("M.background")
async def test_a_host_that_leaves_ends_no_background_command(server: OutliveServer, marker: Marker) -> None:
    with hosting(server.state_dir) as host:
        host.begin()
        host.call(1, _BACKGROUND, cmd=marker.sleep)
        host.answer(1)
        (pid,) = await wait_for(marker, 1)
        assert host.leave() == 0
    assert is_alive(pid)
    with hosting(server.state_dir) as host:
        host.begin()
        host.call(1, "list_processes")
        assert marker.seconds in host.text(1)
        shown = next(one for one in _listed(host) if marker.seconds in str(one["command"]))
        host.call(3, "terminate_process", pid=shown["pid"])
        assert "terminated" in host.text(3)
    await wait_dead(pid)


def _listed(host: Host) -> list[dict[str, object]]:
    host.call(2, "list_processes")
    processes: list[dict[str, object]] = host.answer(2)["result"]["structuredContent"]["processes"]
    return processes


def test_requests_that_are_piped_in_are_answered_before_the_end(server: OutliveServer) -> None:
    lines = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    ]
    done = subprocess.run(
        words(server.state_dir),
        env=environment(),
        input="\n".join(map(json.dumps, lines)),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [0, 1]
    assert done.stderr == ""


@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_host_that_gives_no_pipe_is_no_accident(server: OutliveServer, closing: str) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE})
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closing}', "sh", *words(server.state_dir)],
        env=environment(),
        input=line,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert (len(done.stdout.splitlines()), done.stderr) == (1 if closing == "2>&-" else 0, "")


def test_the_first_answer_comes_soon(server: OutliveServer) -> None:
    """Prints (`pytest -rP`) what a host waits for; fails on no clock."""
    with hosting(server.state_dir) as host:  # the server's first MCP request is not the relay's time
        host.begin()
    begun = time.perf_counter()
    with hosting(server.state_dir) as host:
        host.begin()
        print(f"first answer after {(time.perf_counter() - begun) * 1000:.0f} ms")
