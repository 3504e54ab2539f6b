"""Whole fleets, simulated: every command is placed once, no node is overbooked, and no kind of command
starves.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest

from outlive.placement.waiting_line import PATIENCE
from tests.placement.simulated import Seen, watched

# A thousand nodes, a hundred thousand commands and twelve thousand that wait take 36 MB, 14 of them Python's:
# twice that is no noise.
_MOST_MB = 72


def test_a_fleet_that_is_asked_for_too_much_places_all_once_and_starves_none() -> None:
    """Twenty nodes."""
    _judge(watched(20, 2000, seed=1), nodes=20, commands=2000)


def test_without_its_patience_a_command_for_a_whole_machine_is_passed_for_longer() -> None:
    """So that the bound says something: what is counted here goes beyond it where nothing keeps to it."""
    assert watched(20, 2000, seed=1, patience=2000).most_passes > PATIENCE


@pytest.mark.rare
@pytest.mark.timeout(600)  # of two processors that others use as well; it takes 40 s of one
def test_a_thousand_nodes_place_a_hundred_thousand_commands() -> None:
    """In a process of its own, whose memory is that of the simulation."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as own:
        seen = own.submit(watched, 1000, 100_000, seed=1).result()
    _judge(seen, nodes=1000, commands=100_000)
    assert seen.memory_mb <= _MOST_MB


def _judge(seen: Seen, *, nodes: int, commands: int) -> None:
    assert seen.longest > commands // 50, "no line has formed"
    assert 0 < seen.most_passes <= PATIENCE
    assert seen.fullest_milli > nodes * 16_000 * 0.9, "the fleet was never full"
