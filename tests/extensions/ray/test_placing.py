"""Places that Ray leases: to one server and to two, in order, and given back."""

import subprocess
from pathlib import Path

import pytest

from outlive.client import LimitExceeded
from tests.extensions.fleet.pairs import wait_until
from tests.extensions.ray.cluster import RaySite, place_of, room_of
from tests.support.processes import Gate
from tests.support.server import outlive_command

pytestmark = pytest.mark.ray


def test_the_command_line_runs_a_command_on_a_node_of_ray(site: RaySite) -> None:
    near, client = site.gateway("near")
    words = ("run", "--state-dir", str(near.state_dir), "--need", "cpu=2", "--", "echo", "hi")
    done = subprocess.run([*outlive_command(), *words], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("hi\n", 0), done.stderr
    assert {one.location["backend"] for one in client.list() if one.location} <= {"n1", "n2"}


def test_a_full_cluster_is_waited_for_in_order_and_left_empty(site: RaySite, tmp_path: Path) -> None:
    _, client = site.gateway("near")
    gates = [Gate(tmp_path / str(number)) for number in range(4)]
    last = Gate(tmp_path / "last")
    started = [client.start(gate.wait, needs={"cpu": 1}) for gate in gates]
    wait_until(lambda: sorted(map(place_of, started)) == ["n1", "n1", "n2", "n2"])
    waiting = [client.start(last.wait, needs={"cpu": 1}) for _ in range(3)]
    with pytest.raises(LimitExceeded, match="No machine has as much free"):
        client.start("true", needs={"cpu": 1, "wait": False})
    assert site.cluster.groups() == {one.process_id for one in started}
    for number, gate in enumerate(gates[:3]):
        assert client.fleet.list()["waiting"] == [one.process_id for one in waiting[number:]]
        gate.open()
        wait_until(lambda number=number: place_of(waiting[number]) != "any")  # type: ignore[misc] # a default binds it
    for gate in (last, *gates):
        gate.open()
    for one in (*started, *waiting):
        assert one.wait().exit_code == 0
    wait_until(lambda: not site.cluster.groups())


def test_a_second_server_sees_what_the_first_has_taken(site: RaySite, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    _, one = site.gateway("one")
    _, other = site.gateway("other")
    first = one.start(gate.wait, needs={"cpu": 2})
    wait_until(lambda: place_of(first) != "any")
    taken = place_of(first)
    wait_until(lambda: room_of(other, taken)["placed"] == 1)
    assert "cpu" not in room_of(other, taken)["free"]
    second = other.start(gate.wait, needs={"cpu": 2})
    wait_until(lambda: place_of(second) not in {"any", taken})
    third = other.start("echo third", needs={"cpu": 2})
    assert place_of(third) == "any"
    gate.open()
    for process in (first, second, third):
        assert process.wait().exit_code == 0
