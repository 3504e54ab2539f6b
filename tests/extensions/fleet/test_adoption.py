"""What one server has started on a node, taken over by another: whole output, true ends, and nothing started
anew.
"""

import contextlib
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outlive.client import Client, InvalidRequest, OutliveError
from tests.extensions.fleet.pairs import a_token, output_of, wait_until
from tests.support.processes import Gate
from tests.support.server import OutliveServer

pytestmark = pytest.mark.thorough


@pytest.fixture
def far(tmp_path: Path) -> Iterator[OutliveServer]:
    """The node."""
    with OutliveServer(tmp_path / "far", args=("--capacity", "cpu=8")) as server:
        yield server


@pytest.fixture
def token(far: OutliveServer) -> str:
    """What both gateways show to it."""
    return a_token(far, "gateways")


@contextlib.contextmanager
def _gateway(folder: Path, far: OutliveServer, token: str) -> Iterator[tuple[OutliveServer, Client]]:
    with OutliveServer(folder) as server, Client(server.state_dir, start_server=False) as client:
        client.fleet.add("far", f"http://127.0.0.1:{far.port}", token=token)
        _await_node(client)
        yield server, client


def _await_node(client: Client) -> None:
    wait_until(lambda: client.nodes()[0]["state"] == "connected")


def _count_starts(path: Path) -> int:
    return path.read_text().count("begun") if path.exists() else 0


@pytest.mark.promise("S4.12.nodes.adopted", "S4.12.nodes.once")
def test_another_server_takes_over_what_a_dead_one_has_started(
    far: OutliveServer, token: str, tmp_path: Path
) -> None:
    """Running, ended, waiting for input: all of it, though the first server and its disk are gone for
    good.
    """
    starts, gate = tmp_path / "starts", Gate(tmp_path / "gate")
    with _gateway(tmp_path / "a", far, token) as (first, client):
        runs = client.start(
            f"echo begun >> {starts}; echo out; echo err >&2; {gate.wait}; seq 20000; exit 5",
            backend="far",
            tags={"job": "seq"},
        )
        reads = client.start("read x; echo got $x", stdin="pipe", backend="far")
        over = client.start("echo over; exit 3", needs={"cpu": 1, "labels": {}}, backend="far")
        assert over.wait().exit_code == 3
        wait_until(lambda: _count_starts(starts) and reads.info().pid)
        first.kill()
    with _gateway(tmp_path / "b", far, token) as (_, client):
        assert client.list() == []
        assert set(client.fleet.adopt("far")["adopted"]) == {runs.process_id, reads.process_id}
        assert client.fleet.adopt("far")["adopted"] == []
        assert client.fleet.adopt("far", ended=True)["adopted"] == [over.process_id]
        wait_until(lambda: len(client.list()) == 3)
        listed = {one.process_id: one for one in client.list()}
        shown = listed[runs.process_id]
        assert (shown.state, shown.tags, (shown.location or {})["backend"]) == (
            "running",
            {"job": "seq"},
            "far",
        )
        assert "seq 20000" in shown.command
        assert len({one.short_id for one in listed.values()}) == 3
        client.get(reads.process_id).write(b"word\n")
        assert output_of(client.get(reads.process_id))[0] == b"got word\n"
        ended = client.get(over.process_id)
        assert (output_of(ended)[0], ended.wait().exit_code) == (b"over\n", 3)
        gate.open()
        process = client.get(runs.process_id)
        out, err = output_of(process)
        assert out == b"out\n" + b"".join(b"%d\n" % n for n in range(1, 20001))
        assert (err, process.wait().exit_code) == (b"err\n", 5)
    assert _count_starts(starts) == 1


@pytest.mark.promise("S4.12.nodes.adopted", "S4.12.nodes.once")
def test_a_kill_at_any_moment_of_an_adoption_starts_nothing_again_and_loses_nothing(
    far: OutliveServer, token: str, tmp_path: Path
) -> None:
    """The first server lives on, and follows its processes beside the second one."""
    starts, gate = tmp_path / "starts", Gate(tmp_path / "gate")
    with (
        _gateway(tmp_path / "a", far, token) as (_, first),
        _gateway(tmp_path / "b", far, token) as (server, second),
        ThreadPoolExecutor(1) as thread,
    ):
        runs = [
            first.start(f"echo begun >> {starts}; {gate.wait}; echo end {n}; exit {n}", backend="far")
            for n in range(8)
        ]
        wait_until(lambda: _count_starts(starts) == len(runs))
        for pause_s in (0.0, 0.005, 0.02):
            asking = thread.submit(_adopt, second)
            time.sleep(pause_s)
            server.restart()
            asking.result()
            _await_node(second)
        _adopt(second)
        wait_until(lambda: len(second.list()) == len(runs) and all(one.is_reachable for one in second.list()))
        gate.open()
        for n, run in enumerate(runs):
            theirs = second.get(run.process_id)
            assert (theirs.wait().exit_code, output_of(theirs)[0]) == (n, b"end %d\n" % n)
            assert (run.wait().exit_code, output_of(run)[0]) == (n, b"end %d\n" % n)
    assert _count_starts(starts) == len(runs)


def _adopt(client: Client) -> None:
    with contextlib.suppress(OutliveError):
        client.fleet.adopt("far")


@pytest.mark.promise("S4.12.nodes.adopted", "L.nodes.wall")
def test_only_what_the_node_shows_is_adopted_and_by_nothing_that_was_started_here(
    far: OutliveServer, token: str, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    stranger = a_token(far, "stranger")
    with (
        _gateway(tmp_path / "a", far, token) as (_, first),
        _gateway(tmp_path / "b", far, stranger) as (server, second),
    ):
        run = first.start(gate.wait, backend="far")
        assert second.fleet.adopt("far")["adopted"] == []
        for name in ("local", "nowhere"):
            with pytest.raises(InvalidRequest):
                second.fleet.adopt(name)
        words = [sys.executable, "-m", "outlive", "node", "adopt", "far"]
        inside = second.start(words, grant="admin", env={"OUTLIVE_STATE_DIR": str(server.state_dir)})
        assert inside.wait().exit_code not in {0, None}
        assert b"cannot change the machines" in output_of(inside)[1]
        wait_until(lambda: len(_adoptions(second)) == 4)
        assert sorted(_adoptions(second)) == [
            ("far", "allowed", None),
            ("far", "denied", "scope_missing"),
            ("local", "failed", "invalid_params"),
            ("nowhere", "failed", "invalid_params"),
        ]
        gate.open()
        assert run.wait().exit_code == 0


def _adoptions(client: Client) -> list[tuple[str, str, str | None]]:
    entries = client.server.audit()["entries"]
    return [
        (one["node"], one["decision"], one.get("reason")) for one in entries if one["what"] == "node_adopt"
    ]
