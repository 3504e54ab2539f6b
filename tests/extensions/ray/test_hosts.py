"""Nodes of Ray whose outlive servers are started by Ray and found by themselves, and live on without it."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.client import Client
from outlive.core.layout import Layout
from outlive.kernel.locks import holder_of
from tests.extensions.fleet.pairs import output_of, wait_until
from tests.extensions.ray.cluster import RayCluster, RaySite, place_of, room_of
from tests.support.processes import Gate, wait_state_folder_empty
from tests.support.server import end_keeper, free_port

pytestmark = pytest.mark.ray


@pytest.fixture
def hosted(cluster: RayCluster, tmp_path: Path) -> Iterator[Path]:
    """The state folder of a third node, on which no server runs; what is started there is ended."""
    with _hosting(cluster, tmp_path / "n3") as folder:
        yield folder


@contextlib.contextmanager
def _hosting(cluster: RayCluster, folder: Path, *, address: str = "127.0.0.1") -> Iterator[Path]:
    environment = {
        "OUTLIVE_STATE_DIR": str(folder),
        "OUTLIVE_CONFIG": os.devnull,
        "OUTLIVE_CAPACITY": "cpu=4",
    }
    ports = {f"OUTLIVE_{door}_PORT": str(free_port()) for door in ("JSONRPC", "MCP", "REST", "BRIDGE")}
    cluster.join("n3", cpus=4, environment=environment | ports, address=address)
    try:
        yield folder
    finally:
        cluster.leave("n3")
        if pid := holder_of(Layout(str(folder)).server_lock):
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: holder_of(Layout(str(folder)).server_lock) is None)
        assert not end_keeper(folder)
        assert not wait_state_folder_empty(folder)


def test_a_node_of_ray_is_used_without_being_added_and_lives_on_without_its_raylet(
    hosted: Path, site: RaySite, tmp_path: Path
) -> None:
    near, client = site.gateway("near")
    wait_until(lambda: _has_room(client, "n3"), patience_s=60)
    gate = Gate(tmp_path / "gate")
    process = client.start(f"{gate.wait}; echo $RAY_AUTH_TOKEN out; exit 7", needs={"cpu": 4})
    wait_until(lambda: place_of(process) == "n3")
    server = holder_of(Layout(str(hosted)).server_lock)
    site.cluster.kill_raylet("n3")
    site.cluster.leave("n3")  # its workers, the actor among them
    near.restart()
    with contextlib.closing(Client(near.state_dir, start_server=False)) as again:
        wait_until(lambda: again.get(process.process_id).info().is_reachable)
        gate.open()
        assert again.get(process.process_id).wait().exit_code == 7
        assert output_of(again.get(process.process_id)) == (b"out\n", b"")
    assert holder_of(Layout(str(hosted)).server_lock) == server
    wait_until(lambda: not site.cluster.groups())  # also that of a node which is gone


def test_a_killed_server_of_a_node_is_started_again_while_its_raylet_lives(
    hosted: Path, site: RaySite
) -> None:
    """No service of its own and no gateway wants it there: only whoever found it may look for it again."""
    _, client = site.gateway("near")
    wait_until(lambda: _has_room(client, "n3"), patience_s=60)
    process = client.start("echo out; sleep 2; exit 7", needs={"cpu": 4})
    wait_until(lambda: place_of(process) == "n3")
    lock = Layout(str(hosted)).server_lock
    server = holder_of(lock)
    assert server is not None
    os.kill(server, signal.SIGKILL)
    assert process.wait(60).exit_code == 7
    assert output_of(process) == (b"out\n", b"")
    assert holder_of(lock) not in {None, server}


def test_a_server_that_listens_for_its_own_machine_is_not_looked_for_on_this_one(
    cluster: RayCluster, site: RaySite, tmp_path: Path
) -> None:
    """It would be whoever listens there on this machine that got the token, and the commands."""
    near, client = site.gateway("near")
    with _hosting(cluster, tmp_path / "n3", address="127.0.0.2"):
        said = "the node n3 is not used: its server listens for its own machine only (http://127.0.0.1:"
        wait_until(lambda: said in (near.state_dir / "ray.log").read_text(), patience_s=60)
        assert "n3" not in {one["name"] for one in client.nodes()}


@pytest.mark.promise("S4.12.nodes.adopted")
@pytest.mark.usefixtures("hosted")
def test_another_server_of_the_cluster_adopts_what_a_dead_one_has_started(
    site: RaySite, tmp_path: Path
) -> None:
    """Command, output, exit code and lease: nothing of it needs the first server any more."""
    first, client = site.gateway("near")
    _, other = site.gateway("other")
    for one in (client, other):
        wait_until(lambda one=one: _has_room(one, "n3"), patience_s=60)  # type: ignore[misc] # a default binds it
    gate = Gate(tmp_path / "gate")
    process = client.start(f"echo begun; {gate.wait}; echo out; exit 7", needs={"cpu": 4})
    wait_until(lambda: place_of(process) == "n3" and process.info().cursor.stdout)
    first.kill()
    assert other.fleet.adopt("n3")["adopted"] == [process.process_id]
    adopted = other.get(process.process_id)
    wait_until(lambda: room_of(other, "n3")["free"].get("cpu", 0) == 0)
    assert adopted.info().needs is not None
    gate.open()
    assert output_of(adopted) == (b"begun\nout\n", b"")
    assert adopted.wait().exit_code == 7
    wait_until(lambda: not site.cluster.groups())


def _has_room(client: Client, name: str) -> bool:
    return any(one["name"] == name and one["room"] for one in client.nodes())
