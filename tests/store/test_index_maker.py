"""The program that makes indexes, over a real server's processes: what it makes, that a kill costs nothing,
and that it goes with a process.
"""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from outlive.policy.redaction import Redactor
from outlive.store.search.log_index import LogIndex, key_of
from tests.rest.rest_caller import RestCaller
from tests.rest.test_search import texts
from tests.support.server import OutliveServer

pytestmark = pytest.mark.promise("R.search.index")

_KEY = key_of(Redactor())
_MAKER = [sys.executable, "-s", "-P", "-m", "outlive.store.search.index_maker"]
# 6 MB of which no line is like another, and one line in the middle.
_LONG = "seq 1000000 1400000; echo the rare Zanzibar line; seq 2000000 2400000"


def _make(server: OutliveServer, key: bytes = _KEY) -> subprocess.Popen[bytes]:
    """Start the program; it ends when its stdin is closed."""
    return subprocess.Popen([*_MAKER, str(server.state_dir), key.hex()], stdin=subprocess.PIPE)


def _made(server: OutliveServer) -> None:
    with _make(server) as maker:
        assert maker.wait(60) == 0


def _folder(server: OutliveServer, process_id: str) -> Path:
    return server.state_dir / "processes" / process_id


def test_what_has_ended_is_indexed_for_its_user_alone_and_goes_with_its_process(
    own_server: OutliveServer,
) -> None:
    rest = RestCaller(own_server.rest_url)
    process_id = rest.run(_LONG)["process_id"]
    small = rest.run("seq 10")["process_id"]
    rest.wait(process_id, until="closed")
    _made(own_server)
    index = _folder(own_server, process_id) / "index"
    assert stat.S_IMODE(index.stat().st_mode) == 0o600
    size = (index.parent / "out").stat().st_size
    assert 0 < index.stat().st_size <= 0.15 * size
    assert LogIndex(str(index.parent), _KEY).covered(0) == size
    assert not (_folder(own_server, small) / "index").exists()
    for text, ignore_case in (
        ("Zanzibar", "false"),
        ("rare zanzibar", "true"),
        ("1399999", "false"),
        ("no such", "false"),
    ):
        assert len(texts(rest, text, ignore_case=ignore_case)) == (text != "no such"), text
    rest.call("DELETE", f"/v1/processes/{process_id}")
    assert not index.parent.exists()


def test_a_kill_while_an_index_is_written_costs_nothing(own_server: OutliveServer) -> None:
    rest = RestCaller(own_server.rest_url)
    process_id = rest.run(_LONG)["process_id"]
    rest.wait(process_id, until="closed")
    folder = _folder(own_server, process_id)
    maker = _make(own_server)
    while not (folder / "index").exists() or not (folder / "index").stat().st_size:
        assert maker.poll() is None
    maker.kill()
    maker.communicate()
    # As if it had been killed within a write, too.
    with (folder / "index").open("ab") as file:
        file.write((folder / "index").read_bytes()[:5000])
    assert texts(rest, "rare Zanzibar") == ["the rare Zanzibar line"]
    _made(own_server)
    assert LogIndex(str(folder), _KEY).covered(0) == (folder / "out").stat().st_size
    assert texts(rest, "rare Zanzibar") == ["the rare Zanzibar line"]
    assert texts(rest, "common Zanzibar") == []


def test_what_runs_is_indexed_as_far_as_it_is_final(own_server: OutliveServer) -> None:
    rest = RestCaller(own_server.rest_url)
    process_id = rest.start(f"{_LONG}; read line", stdin="pipe")["process_id"]
    while rest.call("GET", f"/v1/processes/{process_id}").json["stdout_bytes"] < 6_400_000:
        pass
    _made(own_server)
    covered = LogIndex(str(_folder(own_server, process_id)), _KEY).covered(0)
    assert covered == 3 * 2 * 1024 * 1024
    assert texts(rest, "Zanzibar") == ["the rare Zanzibar line"]
    assert texts(rest, "2399999") == ["2399999"], "behind what is indexed"


def test_a_process_with_secret_values_has_no_index(own_server: OutliveServer) -> None:
    rest = RestCaller(own_server.rest_url)
    process_id = rest.run(_LONG, env_secrets={"KEY": "1234567 hidden"})["process_id"]
    rest.wait(process_id, until="closed")
    _made(own_server)
    assert not (_folder(own_server, process_id) / "index").exists()
    assert texts(rest, "Zanzibar") == ["the rare Zanzibar line"]


def test_it_ends_with_its_server_and_makes_nothing_by_other_rules(own_server: OutliveServer) -> None:
    rest = RestCaller(own_server.rest_url)
    process_id = rest.run(_LONG)["process_id"]
    rest.wait(process_id, until="closed")
    other = key_of(Redactor(patterns=False))
    with _make(own_server, other) as maker:
        assert maker.wait(60) == 2
    maker = _make(own_server)
    assert maker.stdin is not None
    maker.stdin.close()
    assert maker.wait(60) == 0
    assert LogIndex(str(_folder(own_server, process_id)), _KEY).covered(0) < 6_400_000
