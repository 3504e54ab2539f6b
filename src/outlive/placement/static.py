"""`StaticPlacement`: places on the nodes of a list, counted here. Pure.

One server counts: the one whose list it is. Nothing of it is in a file: what runs is adopted again when a
server starts, and what waits asks again in its order.
"""

from collections.abc import Iterable

from outlive.placement.contract import NodeRoom, PlacementListener
from outlive.placement.fleet import Demand, FleetNode, FleetRooms
from outlive.placement.waiting_line import PlaceGrant, WaitingLine


class StaticPlacement:
    """Leases places on the nodes that it was given (see `Placement`)."""

    def __init__(self, nodes: Iterable[FleetNode] = ()) -> None:
        self._fleet = FleetRooms()
        self._line = WaitingLine(self._fleet)
        self._listener: PlacementListener | None = None
        for node in nodes:
            self._fleet.put(node)

    async def run(self) -> None:
        """Return: nothing else leases these places."""

    async def found(self) -> None:
        """Return: all nodes are declared."""

    def begin(self, listener: PlacementListener) -> None:
        """Report to a listener from now on.

        What can be placed among those that have asked before is placed now.
        """
        self._listener = listener
        _report(self._listener, self._line.advance())

    def acquire(self, process_id: str, demand: Demand, *, waits: bool = True) -> str | None:
        """Return a command's node, or let it wait (see `Placement.acquire`)."""
        known = self._fleet.node_of(process_id)
        if known is not None or process_id in self._line:
            return known
        return self._line.add(process_id, demand, waits=waits)

    def is_leasing(self, process_id: str) -> bool:  # noqa: ARG002 - one answer for all
        """Return False: a place that was found is there."""
        return False

    def adopt(self, process_id: str, demand: Demand, node: str) -> None:
        """Count a command that runs."""
        has_waited = self._line.remove(process_id)
        self._line.note(process_id)
        self._fleet.take(process_id, demand, node)
        if has_waited:
            _report(self._listener, self._line.advance())

    def put_back(self, process_id: str, demand: Demand) -> None:
        """Give a place back, and let its command wait in its turn."""
        if self._fleet.free(process_id) is not None:
            self._line.put_back(process_id, demand)
            _report(self._listener, self._line.advance())

    def release(self, process_id: str) -> None:
        """Give a place back."""
        self._line.forget(process_id)
        if self._line.remove(process_id):
            _report(self._listener, self._line.advance())
            return
        node = self._fleet.free(process_id)
        if node is not None and len(self._line):
            _report(self._listener, self._line.advance(node))

    def is_possible(self, demand: Demand) -> bool:
        """Return whether some node could run it."""
        return bool(self._fleet.able(demand))

    def node_changed(self, node: FleetNode) -> None:
        """Add a node, or take over what has changed of one."""
        self._fleet.put(node)
        _report(self._listener, self._line.advance())

    def node_removed(self, name: str) -> None:
        """Forget a node."""
        self._fleet.remove(name)
        _report(self._listener, self._line.advance())

    def rooms(self) -> list[NodeRoom]:
        """Return the nodes and what is taken of them, to be shown."""
        return [
            NodeRoom(
                node=node,
                free=self._fleet.free_of(node.name),
                processes=len(self._fleet.taken_of(node.name)),
            )
            for node in self._fleet.nodes
        ]

    def waiting(self) -> list[str]:
        """Return the ids of what waits, the next first."""
        return self._line.waiting


def _report(listener: PlacementListener | None, grants: Iterable[PlaceGrant]) -> None:
    if listener is None:
        # Nothing hears of it yet: what was placed is known to `acquire`, which is asked again.
        return
    for grant in grants:
        listener.granted(grant.process_id, grant.node)
