"""The official TypeScript clients, v1 and v2, over HTTP and over `outlive mcp`, of both eras."""

from pathlib import Path

import anyio
import pytest

from tests.mcp_clients.driving import Client, ClientError, Way, text_of
from tests.mcp_http.raw_caller import BACKGROUND
from tests.support.processes import Gate, Marker, is_alive, wait_for

pytestmark = pytest.mark.slow


@pytest.mark.promise("M.official", "M.handshake", "M.stateless", "S1.1", "S1.2", "S4.2", "S4.13")
def test_a_client_lists_the_tools_and_accepts_their_results(client: Client) -> None:
    """Once it has listed them it checks every structured result against the tool's output schema."""
    assert {"run", "read", "command_execute", BACKGROUND, "terminate_process"} <= set(client.do("list"))
    ran = client.call("command_execute", command="echo out; echo err >&2; exit 4")
    shape = ran["structuredContent"]
    assert (shape["stdout"], shape["stderr"], shape["return_code"]) == ("out\n", "err\n", 4)
    assert not ran.get("isError")
    unknown = client.call("command_get_status", command_id="cmd_1_1")
    assert unknown["structuredContent"]["found"] is False
    with pytest.raises(ClientError, match="There is no tool"):
        client.call("nothing_of_that_name")


@pytest.mark.promise("M.progress", "S4.3.official", "M.official")
def test_a_background_commands_lines_arrive_while_it_runs(client: Client, gate: Gate, tmp_path: Path) -> None:
    """What was heard before a gate was opened was heard from a running command: nobody else opens it.

    The last lines are told, too, but both SDKs handle notifications a turn later than responses, and drop
    progress that they read in one piece with the result (seen over stdio). The result has everything.
    """
    last_gate = Gate(tmp_path / "last gate")
    line = f"echo one; {gate.wait}; echo two; echo three >&2; {last_gate.wait}; echo four"
    call = client.begin_call(BACKGROUND, cmd=line, hears=True)
    assert client.progress(call) == "one\n"
    gate.open()
    heard = ""
    while len(heard) < len("two\nthree\n"):
        heard += client.progress(call)
    assert sorted(heard.splitlines()) == ["three", "two"]
    last_gate.open()
    result, last = client.outcome(call)
    assert last in (["four\n"], [])
    assert text_of(result) == "one\ntwo\nfour\n\nSTDERR:\nthree"


@pytest.mark.promise("S4.6", "M.handshake", "M.stateless", "M.official")
def test_an_aborted_call_leaves_no_process_of_its_tree(client: Client, marker: Marker) -> None:
    """By notifications/cancelled, but over HTTP of 2026-07-28 by closing the response stream."""
    tree = f"{marker.sleep} & setsid {marker.sleep} & (setsid {marker.sleep} &) ; wait"
    call = client.begin_call("execute_linux_shell_command", cmd=tree)
    anyio.run(wait_for, marker, 3)
    client.do("abort", call=call)
    with pytest.raises(ClientError, match="enough"):
        client.outcome(call)
    anyio.run(wait_for, marker, 0)
    assert text_of(client.call("execute_linux_shell_command", cmd="echo on")) == "on"


@pytest.mark.promise("S4.6", "M.background", "M.official")
def test_an_aborted_background_call_ends_its_command_only_by_name(
    client: Client, way: Way, marker: Marker
) -> None:
    """notifications/cancelled names the request; 2026-07-28 only closes a stream, and the command goes on."""
    call = client.begin_call(BACKGROUND, cmd=f"echo begun; {marker.sleep}", hears=True)
    assert client.progress(call) == "begun\n"
    (pid,) = anyio.run(wait_for, marker, 1)
    client.do("abort", call=call)
    with pytest.raises(ClientError, match="enough"):
        client.outcome(call)
    if way.revision is not None:
        listed = client.call("list_processes")["structuredContent"]["processes"]
        (named,) = [one["pid"] for one in listed if marker.seconds in one["command"]]
        assert is_alive(pid)
        client.call("terminate_process", pid=named)
    anyio.run(wait_for, marker, 0)
