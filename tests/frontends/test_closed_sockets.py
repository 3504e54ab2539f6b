"""What thousands of WebSockets leave behind that were opened and closed: no memory worth a name, at any
door.
"""

import time
from pathlib import Path

import pytest

from bench.proc import resident_kb
from tests.support.raw import masked_header, open_raw_websocket
from tests.support.server import OutliveServer
from tests.terminal_socket.viewing import start

pytestmark = [pytest.mark.slow, pytest.mark.alone]

_COUNT = 5_000
_CACHED = 1_000
_MOST_MORE_KB = 20_000
_PATIENCE_S = 60.0
_CLOSE = 8  # RFC 6455, section 5.2
# How many are open at a time. Of extensions one is connected: the next one waits until it has left.
_AT_ONCE = {"jsonrpc": 100, "terminal": 100, "bridge": 1}


def _dial_and_leave(port: int, path: str, count: int) -> None:
    """Open connections, then leave: every other one says good-bye, the others are simply gone."""
    peers = []
    for _ in range(count):
        peer, head = open_raw_websocket(port, path=path)
        assert b" 101 " in head, head
        peers.append(peer)
    for number, peer in enumerate(peers):
        with peer:
            if number % 2:
                peer.sendall(masked_header(_CLOSE, 2) + b"\x03\xe8")


def _place(server: OutliveServer, door: str) -> tuple[int, str]:
    match door:
        case "terminal":
            return server.port, f"/ws/terminal/{start(server, 'sleep 1000')}"
        case "bridge":
            return int(server.ready["ports"]["bridge"]), "/"
        case _:
            return server.port, "/ws/mcp"


@pytest.mark.promise("S0.16.closed")
@pytest.mark.parametrize("door", list(_AT_ONCE))
def test_closed_websockets_leave_no_memory_behind(tmp_path: Path, door: str) -> None:
    """Seen from outside: the resident memory of the server, after as many as make every cache full.

    A session stays for its reconnect grace, so several hundred closed ones are there at a time; Python keeps
    their arenas.
    """
    at_once = _AT_ONCE[door]
    words = ("--reconnect-grace", "1")
    with OutliveServer(tmp_path / "state", args=words, env={"MAX_SESSIONS": "2000"}) as server:
        port, path = _place(server, door)
        for _ in range(_CACHED // at_once):
            _dial_and_leave(port, path, at_once)
        before = resident_kb(server.pid)
        for _ in range(_COUNT // at_once):
            _dial_and_leave(port, path, at_once)
        deadline = time.monotonic() + _PATIENCE_S
        while (more := resident_kb(server.pid) - before) >= _MOST_MORE_KB:
            assert time.monotonic() < deadline, f"{more} kB more than before"
            time.sleep(0.1)
