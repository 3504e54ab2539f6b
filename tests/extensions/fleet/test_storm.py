"""The kill storms over a fleet as tests: STORM_KILLS and STORM_SEED size and repeat them."""

from pathlib import Path

import pytest

from tests.extensions.fleet.fleet_storm import LINKS, fleet_storm, storm_cluster
from tests.extensions.ray.cluster import skip_or_fail_without_ray


@pytest.mark.slow
@pytest.mark.promise("L.once", "L.place", "S4.12.nodes.once")
@pytest.mark.timeout(900)
def test_a_fleet_starts_each_command_once_and_in_its_turn_whatever_is_killed_or_cut(
    tmp_path: Path, storm_kills: int, storm_seed: int
) -> None:
    """The gateway counts the places; links are cut, silent and held up for seconds."""
    kills = max(10, storm_kills // 2)
    report = fleet_storm(tmp_path, kills=kills, seed=storm_seed, at_once=60, cpus=0.6, say=print)
    print(report)
    assert report.faults == []
    assert {*report.blows} >= LINKS


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.promise("L.once", "L.place", "S4.12.nodes.once")
@pytest.mark.timeout(900)
def test_a_fleet_whose_places_ray_leases_loses_nothing_when_that_is_killed_too(
    tmp_path: Path, storm_kills: int, storm_seed: int
) -> None:
    """Raylets, the control server and the placer are among the victims."""
    skip_or_fail_without_ray()
    with storm_cluster() as cluster:
        report = fleet_storm(
            tmp_path,
            kills=max(10, storm_kills // 3),
            seed=storm_seed,
            cluster=cluster,
            at_once=60,
            cpus=0.6,
            say=print,
        )
    print(report)
    assert report.faults == []
    assert {*report.blows} >= {"raylet", "control server", "placer"}


@pytest.mark.rare
@pytest.mark.promise("L.once", "S4.12.nodes.once")
@pytest.mark.timeout(3600)
def test_links_that_are_away_for_five_minutes_cost_a_fleet_nothing(tmp_path: Path, storm_seed: int) -> None:
    report = fleet_storm(tmp_path, kills=60, seed=storm_seed, cut_s=300.0, say=print)
    print(report)
    assert report.faults == []
