"""`LeasedPlacement`: places on nodes that several servers share, counted by what leases them to all
(`LeaseDriver`). Pure.

This server decides which of its commands is next and where it should run, by the same rules as for nodes of
its own; the lease decides whether it may. So a command has its place only once the lease is there, and waits
again, before all others, where another server was first.
"""

from collections.abc import Sequence
from typing import Protocol

from outlive.placement.contract import NodeRoom, PlacementListener
from outlive.placement.fleet import Demand, FleetNode
from outlive.placement.lease_table import LeaseTable
from outlive.placement.leases import FoundNode, LeaseOrder


class LeaseDriver(Protocol):
    """The way to what leases places."""

    def send(self, order: LeaseOrder) -> None:
        """Pass an order on; where that is not possible it is lost, and repeated by `LeaseTable.connected`."""

    async def found(self) -> FoundNode:
        """Wait for a node that has said where it is."""

    async def run(self, table: LeaseTable) -> None:
        """Report to a table what is heard, and when the way is there and when it is lost, until cancelled."""


class LeasedPlacement:
    """Leases places from what other servers lease from as well (see `Placement`)."""

    def __init__(self, own: FleetNode, driver: LeaseDriver) -> None:
        self._driver = driver
        self._table = LeaseTable(own, send=driver.send)

    async def run(self) -> None:
        """Have the driver run, until cancelled."""
        await self._driver.run(self._table)

    async def found(self) -> FoundNode:
        """Wait for a node that has said where it is."""
        return await self._driver.found()

    def begin(self, listener: PlacementListener) -> None:
        """Report to a listener from now on.

        Leases of ours that no command has are given back with the next report.
        """
        self._table.listener = listener
        self._table.advance()

    def acquire(self, process_id: str, demand: Demand, *, waits: bool = True) -> str | None:
        """Return the node of a lease that is there, else ask for one or wait until a node has room (see
        `Placement.acquire`).
        """
        has_asked, node = self._table.place_of(process_id)
        if not has_asked:
            self._table.ask(process_id, demand, waits=waits)
        return node

    def expects(self, process_id: str) -> bool:
        """Return whether a command waits for a node or for its lease."""
        return self._table.place_of(process_id) == (True, None)

    def is_leasing(self, process_id: str) -> bool:
        """Return whether a command waits for its lease."""
        return self.expects(process_id) and process_id not in self._table.line

    def adopt(self, process_id: str, demand: Demand, node: str) -> None:
        """Count a command that runs."""
        self._table.adopt(process_id, demand, node)

    def put_back(self, process_id: str, demand: Demand) -> None:  # noqa: ARG002 - the table has it
        """Give a lease back, and let its command wait in its turn."""
        self._table.put_back(process_id)

    def release(self, process_id: str) -> None:
        """Give a lease back, or ask for none any more."""
        self._table.release(process_id)

    def is_possible(self, demand: Demand) -> bool:
        """Return whether some node could run it."""
        return bool(self._table.nodes.fleet.able(demand))

    def node_changed(self, node: FleetNode) -> None:
        """Add a node, or take over what has changed of one.

        It takes commands while it is reported as well.
        """
        self._table.change_node(node)

    def node_removed(self, name: str) -> None:
        """Forget a node."""
        self._table.nodes.remove(name)
        self._table.advance()

    def rooms(self) -> Sequence[NodeRoom]:
        """Return the nodes and what is free of them; `processes` are those of all servers."""
        return self._table.nodes.rooms()

    def waiting(self) -> Sequence[str]:
        """Return the ids of what waits for room, the next first."""
        return self._table.line.waiting
