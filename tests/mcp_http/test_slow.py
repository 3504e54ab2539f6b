"""A raw caller that does not read costs nobody anything but itself."""

import socket

import pytest

from tests.mcp_http.raw_caller import BACKGROUND, RawCaller, events_of
from tests.support.processes import memory_peak_bytes
from tests.support.server import OutliveServer


@pytest.mark.promise("S4.3", "S0.16")
def test_a_caller_that_does_not_read_holds_nobody_up_and_nothing_in_memory(
    server: OutliveServer, caller: RawCaller
) -> None:
    """300 MB of short lines: the log takes them at full speed, the server's memory does not."""
    other = RawCaller.begin(server.mcp_url)
    other.call("execute_linux_shell_command", 1, cmd="true")
    before = memory_peak_bytes(server.pid)
    with caller.stream(BACKGROUND, 1, cmd="yes | head -c 300000000; echo; echo done >&2") as response:
        assert next(events_of(response))[0] == "process_started"
        while caller.call("list_processes", 2).text != "No background processes running":
            assert other.call("execute_linux_shell_command", 3, cmd="echo hi").text == "hi"
        assert memory_peak_bytes(server.pid) - before < 40 * 1024 * 1024


@pytest.mark.thorough
@pytest.mark.promise("S4.1.verbs")
def test_a_stream_that_is_merely_open_does_not_hold_up_a_stop(own_server: OutliveServer) -> None:
    caller = RawCaller.begin(own_server.mcp_url)
    port = own_server.ready["ports"]["mcp"]
    # Less than the 15 s of a keep-alive: clients wait for the head of the answer, which comes at once.
    with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
        head = (
            "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: "
            f"{caller.session_id}"
        )
        peer.sendall(f"{head}\r\n\r\n".encode())
        received = peer.recv(65536)
        assert b" 200 " in received.splitlines()[0]
        assert own_server.stop() == 0
        while piece := peer.recv(65536):
            received += piece
    assert received.endswith(b"0\r\n\r\n")  # the stream was ended in order, not cut off
