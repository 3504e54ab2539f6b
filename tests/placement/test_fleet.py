"""Which node suits a command: what it needs is free, its labels are there, and the scarce ones are saved."""

import tracemalloc

import pytest

from outlive.core.needs import Amounts
from outlive.placement.fleet import Demand, FleetNode, FleetRooms

GB = 2**30


def _node(name: str, cpu: int = 4, memory: int = 8, gpu: int = 0, **labels: str) -> FleetNode:
    return FleetNode(
        name=name,
        capacity=Amounts(cpu_milli=cpu * 1000, memory_bytes=memory * GB, gpu_milli=gpu * 1000),
        labels=frozenset(labels.items()),
    )


def _needs(cpu: float = 1, memory: float = 0, gpu: float = 0, **labels: str) -> Demand:
    amounts = Amounts(cpu_milli=int(cpu * 1000), memory_bytes=int(memory * GB), gpu_milli=int(gpu * 1000))
    return Demand(amounts=amounts, labels=tuple(sorted(labels.items())))


def _fleet(*nodes: FleetNode) -> FleetRooms:
    fleet = FleetRooms()
    for node in nodes:
        fleet.put(node)
    return fleet


def test_commands_go_where_least_is_taken() -> None:
    fleet = _fleet(_node("a"), _node("b"))
    placed = []
    for number in range(4):
        node = fleet.choose(_needs())
        assert node is not None
        fleet.take(str(number), _needs(), node)
        placed.append(node)
    assert placed == ["a", "b", "a", "b"]


def test_what_is_full_is_not_chosen_and_what_is_given_back_is() -> None:
    fleet = _fleet(_node("a", cpu=2))
    fleet.take("1", _needs(2), "a")
    assert fleet.choose(_needs(0.5)) is None
    assert fleet.free("1") == "a"
    assert fleet.free("1") is None
    assert fleet.choose(_needs(2)) == "a"


def test_a_node_with_gpus_is_kept_for_those_that_need_one() -> None:
    fleet = _fleet(_node("a", gpu=2), _node("b"))
    fleet.take("1", _needs(3), "b")
    assert fleet.choose(_needs()) == "b"
    assert fleet.choose(_needs(2)) == "a"  # rather than not at all
    assert fleet.choose(_needs(gpu=0.5)) == "a"
    assert fleet.choose(_needs(gpu=3)) is None


@pytest.mark.parametrize(("labels", "node"), [({"zone": "eu"}, "b"), ({"zone": "us"}, None), ({}, "a")])
def test_only_nodes_with_all_labels_are_chosen(labels: dict[str, str], node: str | None) -> None:
    fleet = _fleet(_node("a"), _node("b", zone="eu", disk="fast"))
    assert fleet.choose(Demand(labels=tuple(labels.items()))) == node


def test_a_node_that_is_away_or_drained_is_passed_over_and_keeps_what_it_runs() -> None:
    fleet = _fleet(_node("a"))
    fleet.take("1", _needs(), "a")
    fleet.put(FleetNode(name="a", capacity=Amounts(cpu_milli=4000), is_open=False))
    assert fleet.choose(_needs()) is None
    assert fleet.able(_needs()) == {"a"}  # later, perhaps
    assert fleet.taken_of("a") == ["1"]
    assert fleet.free_of("a").cpu_milli == 3000


def test_what_was_found_running_counts_also_beyond_what_a_node_declares() -> None:
    fleet = _fleet(_node("a", cpu=1))
    fleet.take("1", _needs(), "a")
    fleet.take("2", _needs(), "a")
    fleet.take("2", _needs(), "a")
    assert fleet.free_of("a").cpu_milli == -1000
    assert fleet.choose(_needs(0)) == "a"  # it asks for nothing of what is overdrawn


def test_commands_that_are_kept_apart_go_to_different_nodes_first() -> None:
    fleet = _fleet(_node("a"), _node("b"))
    apart = Demand(spread="replicas")
    fleet.take("0", _needs(3), "b")
    fleet.take("1", apart, "a")
    assert fleet.choose(apart) == "b"
    assert fleet.choose(_needs()) == "a"


def test_a_command_stays_beside_another() -> None:
    fleet = _fleet(_node("a"), _node("b", cpu=1))
    fleet.take("1", _needs(), "b")
    assert fleet.choose(Demand(beside="b")) is None
    assert fleet.choose(Demand(beside="a")) == "a"


def test_what_runs_on_a_node_that_is_removed_counts_again_when_it_comes_back() -> None:
    fleet = _fleet(_node("a"))
    fleet.take("1", _needs(), "a")
    fleet.remove("a")
    fleet.remove("a")
    assert fleet.choose(_needs()) is None
    fleet.put(_node("a", cpu=2))
    assert fleet.free_of("a").cpu_milli == 1000
    assert fleet.free("1") == "a"
    assert fleet.free("1") is None
    assert fleet.free_of("a").cpu_milli == 2000


def test_what_runs_on_a_node_that_is_not_known_yet_is_counted_once_it_is() -> None:
    """A server that was killed finds what runs on its nodes before they have said what they have."""
    fleet = _fleet()
    for number in range(3):
        fleet.take(str(number), _needs(), "late")
    assert fleet.free("0") == "late"
    fleet.put(_node("late", cpu=3))
    assert fleet.free_of("late") == Amounts(cpu_milli=1000, memory_bytes=8 * GB)
    assert fleet.taken_of("late") == ["1", "2"]
    assert fleet.choose(_needs(cpu=2)) is None


def test_demands_that_callers_think_up_do_not_pile_up() -> None:
    fleet = _fleet(*(_node(str(number), zone="eu") for number in range(4)))
    tracemalloc.start()
    try:
        held = []
        for turn in range(3):
            for number in range(5_000):
                demand = _needs(cpu=0.5, label=f"{turn}-{number}")
                assert fleet.choose(demand) is None
                assert not fleet.able(demand)
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert held[2] - held[0] < 2_000_000, "it would be seven megabytes"
    assert fleet.choose(_needs(zone="eu")) == "0"
