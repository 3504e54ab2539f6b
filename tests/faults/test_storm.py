"""The kill storms as tests: whatever is killed, output and exit codes are exact, in sandboxes and on disks
that take nothing, too.

STORM_KILLS and STORM_SEED size and repeat them: with 30 kills, as in `.ci/run`, each takes a minute or less,
on a busy machine half as long again. For a long one each is a program of its own, which tells every fault:
`python -m tests.faults.storm`, `tests.faults.server_storm` and, as root, `tests.faults.disk_storm` with
`--kills 1000 --seed N`.
"""

from pathlib import Path

import pytest

from outlive.core.command import Profile
from outlive.keeper.sandbox.capabilities import ask_offers
from tests.faults.disk_storm import WEATHERS, disk_storm
from tests.faults.server_storm import container_storm, server_storm
from tests.faults.storm import storm
from tests.keeper.house import shim_program
from tests.support.dockerd import Dockerd


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_kill_storm_loses_nothing(tmp_path: Path, storm_kills: int, storm_seed: int) -> None:
    report = storm(tmp_path / "state", kills=storm_kills, seed=storm_seed, say=print)
    print(report)
    assert report.faults == []
    assert sum(report.blows.values()) == storm_kills


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_kill_storm_on_an_older_kernel_loses_nothing(
    tmp_path: Path, storm_kills: int, storm_seed: int
) -> None:
    """Without PIDFD_GET_INFO the guardian's notes and the zombies must do."""
    kills = max(10, storm_kills // 5)
    report = storm(tmp_path / "state", kills=kills, seed=storm_seed, is_older_kernel=True, say=print)
    print(report)
    assert report.faults == []


@pytest.mark.root("a keeper's memory and descriptors are closed to its user")
@pytest.mark.thorough
def test_a_small_storm_loses_nothing(tmp_path: Path, storm_seed: int) -> None:
    report = storm(tmp_path / "state", kills=8, seed=storm_seed, at_a_time=10)
    assert report.faults == []
    obstacles = ask_offers("/", program=shim_program()).obstacles
    wanted = {Profile.OPEN, Profile.GUARDED, Profile.WORKSPACE, Profile.SEALED}
    assert {*report.profiles} == {profile for profile in wanted if not obstacles[profile]}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_clients_miss_nothing_whoever_is_killed(tmp_path: Path, storm_kills: int, storm_seed: int) -> None:
    """The server is among the victims, also together with supervisor and guardian."""
    report = server_storm(tmp_path / "state", kills=max(10, storm_kills // 3), seed=storm_seed)
    print(report)
    assert report.faults == []


@pytest.mark.slow
@pytest.mark.root("only root may mount a small file system")
@pytest.mark.timeout(1800)
def test_clients_miss_nothing_on_a_disk_that_takes_nothing(
    tmp_path: Path, storm_kills: int, storm_seed: int
) -> None:
    """Full, without inodes and read-only in turn while server, keeper and shims are killed."""
    kills = max(10, storm_kills // 3)
    report = disk_storm(tmp_path, kills=kills, seed=storm_seed)
    print(report)
    assert report.faults == []
    assert sum(report.blows.values()) == kills
    assert {blow.split()[-1] for blow in report.blows} == {*WEATHERS}


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_kill_storm_in_containers_loses_nothing(
    tmp_path: Path, own_dockerd: Dockerd, storm_kills: int, storm_seed: int
) -> None:
    """Server, supervisor, guardian and the daemon are killed; half of the writers are in its containers."""
    kills = max(10, storm_kills)
    report = container_storm(tmp_path / "state", own_dockerd, kills=kills, seed=storm_seed)
    print(report)
    assert report.faults == []
    assert sum(report.blows.values()) >= kills
    assert report.blows["dockerd"]
    assert {"session container", "strict container"} <= {*report.profiles}
