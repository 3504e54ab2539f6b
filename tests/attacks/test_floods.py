"""Somebody floods the server: it goes on serving others, and does not grow.

How quickly it serves, `bench` says.
"""

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.keeper.client import until
from tests.support.server import OutliveServer

pytestmark = [pytest.mark.slow, pytest.mark.alone]

_SECONDS = 4
_MOST_MORE_MB = 400
_REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    """A server for all floods: what one leaves behind, the next would find."""
    with OutliveServer(tmp_path_factory.mktemp("f") / "state") as server:
        for path in ("/v1/processes", "/mcp"):  # loads what the doors need
            _ask(server, path)
        yield server


def _ask(server: OutliveServer, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.ready["ports"]["rest"], timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def _living(server: OutliveServer) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.ready["ports"]["rest"], timeout=20)
    try:
        connection.request("GET", "/health")
        return int(json.loads(connection.getresponse().read())["processes"])
    finally:
        connection.close()


def _resident_mb(pid: int) -> float:
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1000


@pytest.mark.parametrize("kind", ["idle", "slow_heads", "bodies", "frames", "deep", "requests", "starts"])
def test_a_flood_keeps_nobody_out_and_fills_no_memory(flooded: OutliveServer, kind: str) -> None:
    pid = int(flooded.ready["pid"])
    before = _resident_mb(pid)
    words = ["-m", "bench.peers.flooder", kind, str(flooded.ready["ports"]["rest"]), str(_SECONDS)]
    checks = 0
    with subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, text=True, cwd=_REPOSITORY
    ) as flooder:
        assert flooder.stdout is not None
        assert flooder.stdout.readline() == "begun\n"
        while flooder.poll() is None:
            assert _ask(flooded, "/health") == 200
            assert _resident_mb(pid) - before < _MOST_MORE_MB
            checks += 1
    assert flooder.returncode == 0
    assert checks >= 3
    assert _ask(flooded, "/v1/processes") == 200
    until(lambda: _living(flooded) == 0, "the end of what the flooder had started", patience_s=60)
