"""A search in 10 GB of output: what is read until the first match, and how much memory and disk that costs.

Counts, no clocks.
"""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from bench.peers import log_text
from outlive.policy.redaction import Redactor
from outlive.store.search.log_index import key_of
from tests.attacks.attacking import Requests
from tests.support.processes import memory_peak_bytes
from tests.support.server import OutliveServer

pytestmark = [pytest.mark.rare, pytest.mark.alone, pytest.mark.timeout(7200)]

_MB = 1_000_000
_EACH = 20 * _MB
# Fewer where one tries the test itself.
_COUNT = int(os.environ.get("SEARCHED_MB", "10000")) // 20


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    """A server with 10 GB of output, one line of which is in the oldest process alone."""
    with OutliveServer(tmp_path_factory.mktemp("s") / "state") as server:
        ask = Requests(server)
        waiting: list[str] = []
        for number in range(_COUNT):
            line = f"{sys.executable} {log_text.__file__} {number} {_EACH}"
            waiting.append(ask.start(line if number else f"{line}; echo '{log_text.RARE}'")["process_id"])
            while len(waiting) > 2 or (number == _COUNT - 1 and waiting):
                ask("GET", f"/v1/processes/{waiting.pop(0)}/wait?until=closed&timeout=600")
        yield server


def _read(
    server: OutliveServer, text: str, *, first: bool = False, **query: str
) -> tuple[int, int, list[str]]:
    """Search; return how much was read, how much was searched, and the lines.

    With `first` until there is one.
    """
    connection = http.client.HTTPConnection("127.0.0.1", server.ready["ports"]["rest"], timeout=3600)
    limit = "1" if first else "1000"
    connection.request("GET", f"/v1/search?{urlencode({'text': text, 'limit': limit, **query})}")
    read = searched = 0
    lines = []
    for line in connection.getresponse():
        found = json.loads(line)
        lines += [found["match"]["line"]] if "match" in found else []
        read += found.get("searched", {}).get("read_bytes", 0)
        searched += found.get("searched", {}).get("searched_bytes", 0)
    connection.close()
    return read, searched, lines


@pytest.mark.promise("R.search.size")
def test_ten_gigabytes_are_searched_in_little_memory_and_mostly_not_read(filled: OutliveServer) -> None:
    size = sum(one.stat().st_size for one in _files(filled, "out"))
    assert size >= _COUNT * _EACH
    before = memory_peak_bytes(filled.pid)
    words = [sys.executable, "-s", "-P", "-m", "outlive.store.search.index_maker", str(filled.state_dir)]
    with subprocess.Popen([*words, key_of(Redactor()).hex(), "at-once"], stdin=subprocess.PIPE) as maker:
        _, status, used = os.wait4(maker.pid, 0)
        maker.returncode = os.waitstatus_to_exitcode(status)
    assert maker.returncode == 0
    assert used.ru_maxrss * 1024 <= 100 * _MB
    assert 0 < sum(one.stat().st_size for one in _files(filled, "index")) <= 0.15 * size
    # The first match of what is common: a block or two of the newest output, by one thread and the other.
    for text in ("return", "de", "INFO"):
        read, _, lines = _read(filled, text, first=True)
        assert (len(lines), read <= 4 * _MB) == (1, True), (text, read)
    read, _, lines = _read(filled, log_text.RARE)
    assert lines == [log_text.RARE]
    assert read <= size // 100
    read, searched, lines = _read(filled, log_text.NOWHERE)
    assert (lines, searched) == ([], size)
    assert read <= size // 100
    # What no index knows is looked for in everything, once: only a line that a slice has begun is read again
    # by the next one.
    for text, regex in (("~q^", "false"), ("[qz]{4}~[0-9]", "true")):
        read, searched, lines = _read(filled, text, regex=regex)
        assert (lines, searched, size <= read <= 1.01 * size) == ([], size, True), (text, read)
    peak = memory_peak_bytes(filled.pid)
    assert peak <= 100 * _MB, (before, peak)


def _files(server: OutliveServer, name: str) -> list[Path]:
    return list((server.state_dir / "processes").glob(f"*/{name}"))
