"""What dies costs no command its output, its exit code or its turn, and starts none twice: this server, its
driver, a raylet, Ray itself.
"""

import os
import signal
from pathlib import Path

import pytest

from outlive.client import Client, Process
from tests.extensions.fleet.pairs import output_of, wait_until
from tests.extensions.ray.cluster import RaySite, driver_of, place_of, room_of
from tests.support.processes import Gate

pytestmark = pytest.mark.ray


def _start(client: Client, line: str, **needs: object) -> Process:
    return client.start(line, needs={"cpu": 1, **needs})


def _ran(path: Path) -> list[str]:
    return sorted(path.read_text().split()) if path.exists() else []


def test_a_killed_server_keeps_leases_and_turns(site: RaySite, tmp_path: Path) -> None:
    near, client = site.gateway("near")
    gate, ran = Gate(tmp_path / "gate"), tmp_path / "ran"
    started = [_start(client, f"echo {number} >> {ran}; {gate.wait}") for number in range(6)]
    wait_until(lambda: len(_ran(ran)) == 4)
    leased = site.cluster.groups()
    near.restart()
    site.wait_open(client)
    wait_until(lambda: client.fleet.list()["waiting"] == [one.process_id for one in started[4:]])
    assert site.cluster.groups() == leased == {one.process_id for one in started[:4]}
    gate.open()
    for one in started:
        assert one.wait().exit_code == 0
    assert _ran(ran) == [str(number) for number in range(6)]
    wait_until(lambda: not site.cluster.groups())


def test_a_killed_driver_is_started_again(site: RaySite, tmp_path: Path) -> None:
    near, client = site.gateway("near")
    gate = Gate(tmp_path / "gate")
    first = _start(client, gate.wait)
    wait_until(lambda: place_of(first) != "any")
    killed = driver_of(near)
    os.kill(killed, signal.SIGKILL)
    second = _start(client, gate.wait)
    wait_until(lambda: place_of(second) != "any")
    assert driver_of(near) != killed
    gate.open()
    for one in (first, second):
        assert one.wait().exit_code == 0


def test_a_command_lives_on_without_its_raylet_and_is_counted_when_that_is_back(
    site: RaySite, tmp_path: Path
) -> None:
    _, client = site.gateway("near")
    gate = Gate(tmp_path / "gate")
    first, second = (_start(client, f"{gate.wait}; echo out; exit 7") for _ in range(2))
    wait_until(lambda: {place_of(first), place_of(second)} == {"n1", "n2"})
    there = first if place_of(first) == "n1" else second
    site.cluster.kill_raylet("n1")
    wait_until(lambda: room_of(client, "n1")["draining"], patience_s=60)
    assert there.info().state == "running"
    third = _start(client, gate.wait)
    wait_until(lambda: place_of(third) == "n2")
    fourth = _start(client, gate.wait)
    assert place_of(fourth) == "any"
    site.cluster.join("n1")
    wait_until(lambda: place_of(fourth) == "n1", patience_s=60)
    wait_until(lambda: "cpu" not in room_of(client, "n1")["free"] and room_of(client, "n1")["placed"] == 2)
    gate.open()
    for one in (first, second):
        assert one.wait().exit_code == 7
        assert output_of(one) == (b"out\n", b"")
    for one in (third, fourth):
        assert one.wait().exit_code == 0


def test_commands_go_on_without_rays_control_server_and_new_ones_wait_for_it(
    site: RaySite, tmp_path: Path
) -> None:
    near, client = site.gateway("near")
    gate, later = Gate(tmp_path / "gate"), Gate(tmp_path / "later")
    first = _start(client, f"{gate.wait}; echo out; exit 7")
    second = _start(client, later.wait)
    wait_until(lambda: "any" not in {place_of(first), place_of(second)})
    start_again = site.cluster.kill_control_server()
    waiting = _start(client, "echo new")
    gate.open()
    assert first.wait().exit_code == 7
    assert output_of(first) == (b"out\n", b"")
    assert waiting.info().state == "queued"
    assert near.is_running
    start_again()
    wait_until(lambda: waiting.info().state != "queued", patience_s=90)
    assert waiting.wait().exit_code == 0
    assert second.info().state == "running"
    later.open()
    assert second.wait().exit_code == 0
    wait_until(lambda: not site.cluster.groups())


def test_a_driver_without_the_clusters_token_leases_nothing_and_the_server_stays(
    site: RaySite, tmp_path: Path
) -> None:
    """Ray's token authentication keeps the driver out; its log says so, and the server does not end."""
    near, client = site.gateway("near", token="w" * 43, is_open=False)
    waiting = _start(client, "echo new")
    log = near.state_dir / "ray.log"
    wait_until(lambda: log.exists() and "token" in log.read_text().lower(), patience_s=60)
    assert waiting.info().state == "queued"
    assert near.is_running
    waiting.cancel()
