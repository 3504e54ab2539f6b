"""`ReportedFleet`: nodes that several servers share, as they describe themselves and as the leasing side
reports them. Pure.
"""

from collections.abc import Mapping

from outlive.core.needs import Amounts
from outlive.core.values import replace
from outlive.extensions.ray.leases import LeaseReport, LeasingNode
from outlive.placement.contract import NodeRoom
from outlive.placement.fleet import Demand, FleetNode, FleetRooms

# In the fleet also counts what no command of ours has: under names that are no process ids.
_OTHERS = "others\0"
_MOST_REFUSALS = 4  # that make a difference: then a node sits out 8 reports, a second each


class ReportedFleet:
    """Keeps a fleet: a node takes commands while both sides say that it is there, and others' commands count
    in it.

    Attributes:
        fleet: What is counted.
        counts: How many commands of all servers each node has, by the last report.
    """

    def __init__(self, own: FleetNode) -> None:
        self.fleet = FleetRooms()
        self.counts: dict[str, int] = {}
        self._own = own.name
        self._described: dict[str, FleetNode] = {}
        self._seen: dict[str, LeasingNode] = {}  # empty while the leasing side is away
        self._others: dict[str, Amounts] = {}  # what others had of each when it was reported
        self._refusing: dict[str, int] = {}  # for how many reports more a node takes nothing
        self._refusals: dict[str, int] = {}  # in a row, without a lease between
        self.fleet.put(own)

    def is_there(self, name: str) -> bool:
        """Return whether a node was reported."""
        return name in self._seen

    def change(self, node: FleetNode) -> None:
        """Take over how a node describes itself."""
        self._described[node.name] = node
        self._apply(node.name)

    def remove(self, name: str) -> None:
        """Forget a node."""
        self._described.pop(name, None)
        self.fleet.remove(name)

    def take_over(self, report: LeaseReport, ours: Mapping[str, Amounts]) -> None:
        """Take over a report; `ours` is what commands of ours need that have a lease, or have just had one:
        they are counted one by one.
        """
        self._seen = {one.name: one for one in report.nodes}
        self._others = {one.name: one.capacity - one.free for one in report.nodes}
        self._refusing = {name: left - 1 for name, left in self._refusing.items() if left > 1}
        self.counts = {}
        for lease in report.leases:
            if lease.node in self._seen:
                self.counts[lease.node] = self.counts.get(lease.node, 0) + 1
                self._others[lease.node] -= ours.get(lease.process_id, Amounts())
        for name in self._described:
            self._apply(name)

    def lose(self) -> None:
        """Nothing is reported any more: no node takes anything."""
        self._seen.clear()
        for name in self._described:
            self._apply(name)

    def refuse(self, name: str) -> None:
        """Let a node take nothing until the next report: it was fuller than reported.

        One that is reported and refuses again and again, while its machine hangs for instance, sits out twice
        as many reports each time: the answers take seconds, in which what was sent there is passed by
        what others have room for.
        """
        if name not in self._refusing:  # else it is the same moment's
            row = self._refusals[name] = min(self._refusals.get(name, 0) + 1, _MOST_REFUSALS)
            self._refusing[name] = 2 ** (row - 1)
        self._apply(name)

    def leased(self, name: str) -> None:
        """Note that a node has taken a command."""
        self._refusals.pop(name, None)

    def rooms(self) -> list[NodeRoom]:
        """Return the nodes and what is free of them."""
        return [
            NodeRoom(node=node, free=self.fleet.free_of(node.name), processes=self.counts.get(node.name, 0))
            for node in self.fleet.nodes
        ]

    def _apply(self, name: str) -> None:
        """Have the fleet know a node as it describes itself, as far as it is reported."""
        described, seen = self._described.get(name), self._seen.get(name)
        if described is None:
            return
        if name == self._own or seen is None:
            self.fleet.put(replace(described, is_open=described.is_open and name == self._own))
            return
        self.fleet.put(
            replace(
                described,
                capacity=_least(described.capacity, seen.capacity),
                labels=described.labels | frozenset(seen.labels.items()),
                is_open=described.is_open and name not in self._refusing,
            )
        )
        self.fleet.free(f"{_OTHERS}{name}")
        self.fleet.take(f"{_OTHERS}{name}", Demand(amounts=_above(self._others[name])), name)


def _least(one: Amounts, other: Amounts) -> Amounts:
    return Amounts(
        cpu_milli=min(one.cpu_milli, other.cpu_milli),
        memory_bytes=min(one.memory_bytes, other.memory_bytes),
        gpu_milli=min(one.gpu_milli, other.gpu_milli),
    )


def _above(amounts: Amounts) -> Amounts:
    """Return amounts with nothing below zero: what is free and what is leased are not seen at quite the same
    moment.
    """
    return Amounts(
        cpu_milli=max(0, amounts.cpu_milli),
        memory_bytes=max(0, amounts.memory_bytes),
        gpu_milli=max(0, amounts.gpu_milli),
    )
