"""Places that this server counts alone: what a node does not start keeps its turn."""

from outlive.core.needs import Amounts
from outlive.placement.fleet import Demand, FleetNode
from outlive.placement.static import StaticPlacement

_ONE = Demand(amounts=Amounts.of(cpu=1))


class _Granted:
    """Keeps what was given to commands that waited."""

    def __init__(self) -> None:
        self.places: list[tuple[str, str]] = []

    def granted(self, process_id: str, node: str) -> None:
        self.places.append((process_id, node))


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
