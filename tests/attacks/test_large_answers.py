"""Few bytes that ask for many: the answers that a client does not read, or asks for in one batch, fill no
memory.
"""

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.raw import masked_header, open_raw_websocket, read_frame, read_text
from tests.support.server import OutliveServer

_PIECE = 1 << 20
_TEXT = 0x1
_ASKED = 200  # answered at once they are 280 MB
_MOST_MORE_MB = 160


def _resident_mb(server: OutliveServer) -> float:
    with open(f"/proc/{server.ready['pid']}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1000


def _opened(peer: socket.socket, folder: Path) -> Callable[[int], dict[str, object]]:
    """Open a copy of a folder with a file of one piece; return how the whole file is asked for."""
    (folder / "f").write_bytes(bytes(_PIECE))
    assert json.loads(read_frame(peer)[1])["method"] == "connected"
    _send(peer, _request("o", "file_open", path=str(folder)))
    copy = json.loads(read_frame(peer)[1])["result"]["copy"]
    return lambda number: _request(number, "file_read", copy=copy, name="f")


def _request(number: object, method: str, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def _send(peer: socket.socket, message: object) -> None:
    text = json.dumps(message).encode()
    peer.sendall(masked_header(_TEXT, len(text)) + text)


@pytest.mark.promise("S0.19.copy_bounds")
def test_pieces_that_nobody_reads_are_not_read_from_the_disk(
    own_server: OutliveServer, tmp_path: Path
) -> None:
    peer, _ = open_raw_websocket(own_server.ready["ports"]["jsonrpc"], receive_buffer=4096)
    with peer:
        asked = _opened(peer, tmp_path)
        before = _resident_mb(own_server)
        for number in range(_ASKED):
            _send(peer, asked(number))
        most, steady_since = 0.0, time.monotonic()
        while time.monotonic() - steady_since < 1.0:  # it grows no more
            if (now := _resident_mb(own_server)) > most + 1:
                most, steady_since = now, time.monotonic()
            time.sleep(0.02)
        assert most - before < _MOST_MORE_MB
        # All are answered nevertheless, once they are read.
        answered = {json.loads(read_text(peer))["id"] for _ in range(_ASKED)}
    assert answered == set(range(_ASKED))


@pytest.mark.promise("S0.19.copy_bounds", "S0.bad.batch")
def test_a_batch_is_answered_with_so_many_bytes_and_no_more(
    own_server: OutliveServer, tmp_path: Path
) -> None:
    peer, _ = open_raw_websocket(own_server.ready["ports"]["jsonrpc"])
    with peer:
        asked = _opened(peer, tmp_path)
        _send(peer, [asked(number) for number in range(_ASKED)])
        _, batch = read_frame(peer)
    answers = json.loads(batch)
    assert [one["id"] for one in answers] == list(range(_ASKED))
    given = sum("result" in one for one in answers)
    assert 10 < given < 20
    assert all("result" in one for one in answers[:given])
    assert {one["error"]["data"]["reason"] for one in answers[given:]} == {"batch_limit"}
    assert len(batch) < 20 << 20
