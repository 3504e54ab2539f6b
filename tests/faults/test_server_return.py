"""A server that is killed while services are wanted is started again by the guardian.

One that was stopped is not.
"""

import itertools
import json
import os
import signal
from pathlib import Path

import pytest

from outlive.client import Client
from outlive.core.layout import Layout
from outlive.keeper.guardian.guardian import ServerStarter
from outlive.kernel.processes import this_boot
from outlive.kernel.state_files import is_server_wanted
from tests.faults.returning import stop_server, until_back
from tests.keeper.client import until
from tests.keeper.house import House
from tests.support.processes import end, is_alive
from tests.support.server import OutliveServer

_CRASHES: dict[str, object] = {
    "command": "date +%s >> runs; exit 1",
    "restart": "always",
    "backoff": {"first": 1, "most": 1},
}


def _runs(folder: Path) -> int:
    return len((folder / "runs").read_text().split()) if (folder / "runs").exists() else 0


@pytest.mark.thorough
@pytest.mark.promise("V.return")
def test_a_killed_server_comes_back_and_restarts_go_on_without_any_client(tmp_path: Path) -> None:
    folder, state_dir = tmp_path / "p", tmp_path / "state"
    folder.mkdir()
    with OutliveServer(state_dir) as server:
        services: dict[str, dict[str, object]] = {"crashes": _CRASHES, "stays": {"command": "exec sleep 600"}}
        with Client(state_dir, start_server=False) as client:
            client.services.up(str(folder), services, environment={"PATH": os.environ["PATH"]})
        until(lambda: _runs(folder) > 0, "the first run")
        house = House(state_dir)
        try:
            # Twice: the server that came back is a child of the guardian, which dies in between.
            pid = server.pid
            server.kill()
            for _ in range(2):
                back = until_back(state_dir, after=pid)
                count = _runs(folder)
                until(lambda count=count: _runs(folder) > count, "a run under the new server", patience_s=60)  # type: ignore[misc] # bound now
                guardian = house.guardian()
                end(guardian)
                until(lambda guardian=guardian: not is_alive(guardian), "the end of the guardian")  # type: ignore[misc] # as above
                house.wait_redundant()
                pid = back
                end(pid)
            until_back(state_dir, after=pid)
            with Client(state_dir, start_server=False) as client:
                (stack,) = client.services.list(str(folder))
                assert {one.name: one.state for one in stack.services}["stays"] == "ready"
                assert len(client.list(tags={"service": "stays"})) == 1
                client.services.down(str(folder), grace_s=0)
                until(lambda: not Path(Layout(str(state_dir)).server_wanted).exists(), "the end of the wish")
        finally:
            house.client.close()
            stop_server(state_dir)


@pytest.mark.promise("V.return")
@pytest.mark.parametrize("mark", ["nothing wanted", "stopped in order", "a unit's"])
def test_no_server_is_started_where_none_is_to_come_back(tmp_path: Path, mark: str) -> None:
    layout = Layout(str(tmp_path))
    wanted, unit = Path(layout.server_wanted), tmp_path / "outlive.service"
    wanted.touch()
    assert is_server_wanted(layout)
    match mark:
        case "nothing wanted":
            wanted.unlink()
        case "stopped in order":
            Path(layout.server_stopped).write_bytes(this_boot().encode())
        case _:
            unit.touch()
            Path(layout.service).write_text(json.dumps({"unit_file": str(unit)}))
    own: set[int] = set()
    starter = ServerStarter(layout, own)
    assert not any(starter.tick(float(second)) for second in range(200))
    assert not own


def test_a_server_that_ends_at_once_is_started_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the server, which cannot be made to fail from outside in so many ways."""
    layout = Layout(str(tmp_path))
    Path(layout.server_wanted).touch()
    monkeypatch.setattr("sys.executable", "/bin/false")
    own: set[int] = set()
    starter = ServerStarter(layout, own)
    begun = []
    for second in range(400):
        if starter.tick(float(second)):
            begun.append(second)
            (pid,) = own
            os.waitpid(pid, 0)
            own.clear()
    rests = [after - before for before, after in itertools.pairwise(begun)]
    assert begun[0] == 1
    assert rests == [2, 4, 8, 16, 32, 60, 60, 60, 60, 60]


def test_an_ordered_stop_is_the_end_of_it(tmp_path: Path) -> None:
    folder, state_dir = tmp_path / "p", tmp_path / "state"
    folder.mkdir()
    with OutliveServer(state_dir) as server:
        with Client(state_dir, start_server=False) as client:
            client.services.up(str(folder), {"stays": {"command": "exec sleep 600"}})
        assert Path(Layout(str(state_dir)).server_wanted).exists()
        server.stop(signal.SIGTERM)
        assert not is_server_wanted(Layout(str(state_dir)))
