"""Places that this server counts alone: what a node does not start keeps its turn, and what does not wait
keeps no machine.
"""

from outlive.core.needs import Amounts
from outlive.placement.fleet import Demand, FleetNode
from outlive.placement.waiting_line import StaticPlacement

_ONE = Demand(amounts=Amounts.of(cpu=1))


class _Granted:
    """Keeps what was given to commands that waited."""

    def __init__(self) -> None:
        self.places: list[tuple[str, str]] = []

    def granted(self, process_id: str, node: str) -> None:
        self.places.append((process_id, node))

    def put_back(self, process_id: str) -> None:
        raise AssertionError(f"a place that was found is there at once: {process_id}")


def _node(name: str, *, cpus: int = 2, is_open: bool = True) -> FleetNode:
    return FleetNode(name=name, capacity=Amounts.of(cpu=cpus), is_open=is_open)


def test_what_its_node_has_not_started_is_next_in_the_order_in_which_it_came() -> None:
    heard = _Granted()
    placement = StaticPlacement([_node("n1")])
    placement.begin(heard)
    assert [placement.acquire(name, _ONE) for name in "abc"] == ["n1", "n1", None]
    placement.node_changed(_node("n1", is_open=False))  # it has just gone away
    placement.put_back("b", _ONE)
    placement.acquire("d", _ONE)
    placement.put_back("a", _ONE)
    assert placement.waiting() == ["a", "b", "c", "d"]
    placement.node_changed(_node("n2", cpus=3))
    assert heard.places == [("a", "n2"), ("b", "n2"), ("c", "n2")]
    placement.put_back("b", _ONE)  # at once on the same node, as long as that takes commands
    assert (heard.places[3:], placement.waiting()) == ([("b", "n2")], ["d"])
    placement.put_back("x", _ONE)  # has no place
    assert placement.waiting() == ["d"]
    for name in "abc":
        placement.release(name)
    assert heard.places[4:] == [("d", "n2")]


def test_what_is_withdrawn_after_its_node_has_refused_it_leaves_nothing() -> None:
    placement = StaticPlacement([_node("n1", cpus=1)])
    assert placement.acquire("a", _ONE) == "n1"
    placement.node_changed(_node("n1", cpus=1, is_open=False))
    placement.put_back("a", _ONE)
    placement.release("a")
    assert placement.waiting() == []
    placement.node_changed(_node("n1", cpus=1))
    assert placement.acquire("b", _ONE) == "n1"


def test_two_that_were_found_running_may_both_be_put_back() -> None:
    """Nothing is known of when they came, and neither may have the other one's turn."""
    placement = StaticPlacement([_node("n0", is_open=False)])
    for name, demand in (("a", _ONE), ("b", _cpus(2))):
        placement.adopt(name, demand, "n0")
        placement.put_back(name, demand)
    assert placement.waiting() == ["a", "b"]


def _cpus(count: int) -> Demand:
    return Demand(amounts=Amounts(cpu_milli=count * 1000))


def _counted(*cpus: int) -> tuple[StaticPlacement, _Granted]:
    nodes = [
        FleetNode(name=f"n{number}", capacity=Amounts(cpu_milli=cpu * 1000))
        for number, cpu in enumerate(cpus)
    ]
    placement, granted = StaticPlacement(nodes), _Granted()
    placement.begin(granted)
    return placement, granted


def test_a_command_that_would_not_wait_keeps_no_machine_when_it_was_refused() -> None:
    placement, _ = _counted(2)
    assert placement.acquire("1", _cpus(1)) == "n0"
    assert placement.acquire("2", _cpus(2), waits=False) is None
    assert placement.waiting() == []
    assert placement.acquire("3", _cpus(1)) == "n0", "one processor is free, and nothing waits for it"
    placement.release("1")
    placement.release("3")
    assert placement.acquire("4", _cpus(2)) == "n0"


def test_a_command_that_would_not_wait_takes_no_turn_of_another() -> None:
    placement, granted = _counted(2)
    placement.acquire("1", _cpus(1))
    assert placement.acquire("2", _cpus(2)) is None
    assert placement.acquire("3", _cpus(1), waits=False) is None, "the free one is kept for the second"
    placement.release("1")
    assert granted.places == [("2", "n0")]


def test_a_command_that_runs_after_all_keeps_no_machine_any_more() -> None:
    """A node has started it before it could be asked: its turn goes to the next."""
    placement, granted = _counted(2, 2)
    placement.acquire("1", _cpus(1))
    placement.acquire("2", _cpus(2))
    assert placement.acquire("3", _cpus(2)) is None
    assert placement.acquire("4", _cpus(1)) is None, "n0 has room, which is kept for the third"
    placement.adopt("3", _cpus(1), "n2")
    assert granted.places == [("4", "n0")]
    placement.release("4")
    assert placement.acquire("5", _cpus(1)) == "n0"
