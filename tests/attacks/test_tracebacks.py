"""No client makes the server print a traceback: odd frames, streams cut in the middle, upgrades while it
stops.
"""

import contextlib
import os
import signal
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.rest.rest_caller import RestCaller
from tests.support.raw import close_code, masked_header, open_raw_websocket
from tests.support.server import OutliveServer

_TEXT, _CONTINUATION = 0x1, 0x0
_NO_UTF8 = b"\xff\xfe{}"
_CUT = b'{"a":"\xe2\x82'  # ends within a character
_WAYS = ("whole", "cut", "fragments", "large", "behind another")


def _doors(server: OutliveServer) -> Iterator[tuple[int, str]]:
    process_id = RestCaller(server.rest_url).start(argv=["cat"], pty=True)["process_id"]
    ports = server.ready["ports"]
    yield ports["jsonrpc"], "/ws/mcp"
    yield ports["jsonrpc"], f"/ws/terminal/{process_id}"
    yield ports["rest"], f"/v1/processes/{process_id}/follow"
    yield ports["bridge"], "/"


def _frames(way: str) -> bytes:
    match way:
        case "whole":
            return masked_header(_TEXT, len(_NO_UTF8)) + _NO_UTF8
        case "cut":
            return masked_header(_TEXT, len(_CUT)) + _CUT
        case "fragments":
            first = bytearray(masked_header(_TEXT, len(_NO_UTF8)))
            first[0] &= 0x7F  # more follows
            return bytes(first) + _NO_UTF8 + masked_header(_CONTINUATION, 2) + b"{}"
        case "large":
            return masked_header(_TEXT, 10_000) + b"\xff" * 10_000
        case _:
            return masked_header(_TEXT, 2) + b"{}" + masked_header(_TEXT, len(_NO_UTF8)) + _NO_UTF8


@pytest.mark.thorough
@pytest.mark.promise("A.tracebacks")
def test_text_that_is_no_utf8_is_answered_by_1007(own_server: OutliveServer) -> None:
    """RFC 6455, 7.4.1 and 8.1."""
    for port, path in _doors(own_server):
        for way in _WAYS:
            peer, head = open_raw_websocket(port, path=path)
            with peer:
                assert b" 101 " in head, (path, head)
                peer.sendall(_frames(way))
                assert close_code(peer) == 1007, (path, way)
    own_server.stop()
    assert "Traceback" not in own_server.stderr


def _hang_up(peer: socket.socket, *, with_reset: bool) -> None:
    if with_reset:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


@pytest.mark.thorough
@pytest.mark.promise("A.tracebacks")
def test_a_follower_that_goes_in_the_middle_is_no_error(own_server: OutliveServer) -> None:
    rest = RestCaller(own_server.rest_url)
    process_id = rest.start("while :; do echo line; done", output_limit=1_000_000)["process_id"]
    port, path = own_server.ready["ports"]["rest"], f"/v1/processes/{process_id}/follow"
    lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Accept: text/event-stream", "", ""]
    for number in range(20):
        with_reset = bool(number % 2)
        stream = socket.create_connection(("127.0.0.1", port), timeout=15)
        stream.sendall("\r\n".join(lines).encode())
        assert stream.recv(100 * number + 1)
        _hang_up(stream, with_reset=with_reset)
        peer, head = open_raw_websocket(port, path=path)
        assert b" 101 " in head
        if number % 4 > 1:
            assert peer.recv(100 * number + 1)
        _hang_up(peer, with_reset=with_reset)
    own_server.stop()
    assert "Traceback" not in own_server.stderr


def _upgrade_head(port: int, path: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Upgrade: websocket", "Connection: Upgrade"]
    lines += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + "A" * 22 + "==", "", ""]
    return "\r\n".join(lines).encode()


def _status(peer: socket.socket) -> bytes:
    """Return the first line of an answer; empty when the connection just ends."""
    got = b""
    with contextlib.suppress(OSError):
        while b"\r\n" not in got and (piece := peer.recv(4096)):
            got += piece
    return got.partition(b"\r\n")[0]


@pytest.mark.thorough
@pytest.mark.promise("A.tracebacks")
def test_an_upgrade_while_the_server_stops_is_turned_away(own_server: OutliveServer) -> None:
    """The first request to REST waits for its framework to load: the stop finds it halfway.

    Others come just then.
    """
    for _ in range(3):
        ports = own_server.ready["ports"]
        doors = [
            (ports["rest"], "/v1/processes/x/follow"),
            (ports["jsonrpc"], "/ws/mcp"),
            (ports["bridge"], "/"),
        ]

        def ask(port: int, path: str) -> bytes:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), timeout=15) as peer,
            ):
                peer.sendall(_upgrade_head(port, path))
                return _status(peer)
            return b""

        with ThreadPoolExecutor(24) as threads:
            waiting = [threads.submit(ask, *doors[0]) for _ in range(4)]
            time.sleep(0.05)  # let them come in; whether they did does not matter to what must hold
            os.kill(own_server.pid, signal.SIGTERM)
            waiting += [threads.submit(ask, *doors[number % 3]) for number in range(60)]
            answers = {one.result() for one in waiting}
        own_server.stop()
        assert not any(b" 500 " in answer for answer in answers), answers
        assert "Traceback" not in own_server.stderr
        assert "without completing" not in own_server.stderr
        own_server.start()


def _ask(server: OutliveServer, raw: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.ready["ports"]["rest"]), timeout=15) as peer:
        peer.sendall(raw)
        with contextlib.suppress(OSError):
            while peer.recv(4096):
                pass


@pytest.mark.thorough
@pytest.mark.promise("A.logs")
def test_a_flood_of_bad_requests_is_a_few_lines(own_server: OutliveServer) -> None:
    port = own_server.ready["ports"]["rest"]
    for raw in (b"\x00\xff no request\r\n\r\n", _upgrade_head(port, "/nowhere")):
        before = own_server.stderr.count("\n")
        for _ in range(300):
            _ask(own_server, raw)
        own_server.stop()
        lines = own_server.stderr.count("\n") - before
        assert lines < 150, own_server.stderr[-2000:]  # the stop says some of its own
        own_server.start()


@pytest.mark.promise("A.logs")
def test_nothing_on_the_keepers_socket_is_worth_a_traceback(own_server: OutliveServer) -> None:
    """JSON that is nested deeper than a parser goes, half a message, none at all: the connection ends, the
    keeper goes on.
    """
    supervisor = own_server.keeper_status().supervisor_pid
    for packet in (
        b"J" + b"[" * 90_000,
        b"J" + b'{"a":' * 15_000,
        b'J{"op":',
        b"J\xff\xff",
        b"X",
        b"J[]",
        b"J1e999",
    ):
        for _ in range(20):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
                peer.settimeout(15)
                peer.connect(str(own_server.state_dir / "keeper.sock"))
                peer.send(packet)
                with contextlib.suppress(ConnectionError):
                    assert peer.recv(65536) == b"", packet[:20]
    assert own_server.keeper_status().supervisor_pid == supervisor
    log = (own_server.state_dir / "keeper.log").read_text()
    assert "Traceback" not in log
    assert len(log) < 10_000
