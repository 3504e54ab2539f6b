"""`LeasedPlacement`: places on nodes that several servers share, counted by what leases them to all
(`LeaseDriver`). Pure.

This server decides which of its commands is next and where it should run, by the same rules as for nodes of
its own; the lease decides whether it may. So a command has its place only once the lease is there, and waits
again, before all others, where another server was first.

What is said to the leasing side are numbered orders, which are repeated until they are answered; what it says
are answers, and each second a report of everything. A command that runs keeps its node, whatever becomes of
its lease: it is taken again there.

`ReportedFleet` are the nodes as they describe themselves and as the leasing side reports them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from outlive.core.needs import Amounts
from outlive.core.values import dataclass, replace
from outlive.extensions.ray.leases import LeaseAnswer, LeaseOrder, LeaseReport, LeasingNode
from outlive.placement.contract import FoundNode, NodeRoom, PlacementListener
from outlive.placement.fleet import Demand, FleetNode, FleetRooms
from outlive.placement.waiting_line import WaitingLine

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


# What is being given back counts until that is answered, under a name that is no process id.
_GOING = "going\0"


class LeaseDriver(Protocol):
    """The way to what leases places."""

    def send(self, order: LeaseOrder) -> None:
        """Pass an order on.

        Where that is not possible it is lost, and repeated once it is (`LeasedPlacement.orders`).
        """

    async def found(self) -> FoundNode:
        """Wait for a node that has said where it is (see `Placement.found`)."""

    async def run(self, placement: "LeasedPlacement") -> None:
        """Report to a placement what is heard, and when the way is there and when it is lost, until
        cancelled.
        """


@dataclass(slots=True)
class _Claim:
    """A command of ours: what it needs, and the node of its lease once it has one."""

    demand: Demand
    node: str | None = None


class _UnansweredOrders:
    """Orders by their numbers; of each process the newest counts."""

    def __init__(self, send: Callable[[LeaseOrder], None]) -> None:
        self._send = send
        self._orders: dict[int, LeaseOrder] = {}
        self._newest: dict[str, int] = {}
        self._count = 0

    def put(self, process_id: str, node: str = "", amounts: Amounts | None = None) -> int:
        """Send an order, and return its number."""
        self._count += 1
        order = LeaseOrder(number=self._count, process_id=process_id, node=node, amounts=amounts or Amounts())
        self._orders[order.number] = order
        self._newest[process_id] = order.number
        self._send(order)
        return order.number

    def is_pending(self, process_id: str) -> bool:
        """Return whether the newest order about a process is not answered yet."""
        return process_id in self._newest

    def forget(self, process_id: str) -> None:
        """Let no answer count that may come for a process."""
        self._newest.pop(process_id, None)

    def answered(self, number: int) -> tuple[LeaseOrder | None, bool]:
        """Return the order that was answered, and whether it is the newest about its process."""
        order = self._orders.pop(number, None)
        if order is None or self._newest.get(order.process_id) != number:
            return order, False
        del self._newest[order.process_id]
        return order, True

    def repeat(self) -> None:
        """Send again what still counts."""
        for number, order in list(self._orders.items()):
            if order.node and self._newest.get(order.process_id) != number:
                del self._orders[number]
            else:
                self._send(order)


class LeasedPlacement:
    """Leases places from what other servers lease from as well (see `Placement`).

    Attributes:
        nodes: What they are on; lost while the leasing side is away: then nothing is placed until it reports
            again, and what has a lease keeps it.
        orders: To be repeated once the leasing side hears us again.
    """

    def __init__(self, own: FleetNode, driver: LeaseDriver) -> None:
        self._driver = driver
        self.nodes = ReportedFleet(own)
        self._line = WaitingLine(self.nodes.fleet)
        self._listener: PlacementListener | None = None  # hears of places, from `begin` on
        self.orders = _UnansweredOrders(driver.send)
        self._claims: dict[str, _Claim] = {}
        self._going: dict[str, Amounts] = {}  # what is being given back, by process
        self._failed: dict[
            str, int
        ] = {}  # the orders to give something back that failed: it is ordered again

    async def run(self) -> None:
        """Have the driver run, until cancelled."""
        await self._driver.run(self)

    async def found(self) -> FoundNode:
        """Wait for a node that has said where it is."""
        return await self._driver.found()

    def begin(self, listener: PlacementListener) -> None:
        """Report to a listener from now on.

        Leases of ours that no command has are given back with the next report.
        """
        self._listener = listener
        self._advance()

    def node_changed(self, node: FleetNode) -> None:
        """Add a node, or take over what has changed of one.

        It takes commands while it is reported as well.
        """
        self.nodes.change(node)
        self._advance()

    def node_removed(self, name: str) -> None:
        """Forget a node."""
        self.nodes.remove(name)
        self._advance()

    def is_possible(self, demand: Demand) -> bool:
        """Return whether some node could run it."""
        return bool(self.nodes.fleet.able(demand))

    def rooms(self) -> Sequence[NodeRoom]:
        """Return the nodes and what is free of them; `processes` are those of all servers."""
        return self.nodes.rooms()

    def waiting(self) -> Sequence[str]:
        """Return the ids of what waits for room, the next first."""
        return self._line.waiting

    def acquire(self, process_id: str, demand: Demand, *, waits: bool = True) -> str | None:
        """Return the node of a lease that is there, else order one, or wait until a node has room (see
        `Placement.acquire`).
        """
        if (claim := self._claims.get(process_id)) is not None:
            return claim.node
        self._claims[process_id] = _Claim(demand)
        node = self._line.add(process_id, demand, waits=waits)
        if node is not None:
            self._lease(process_id, node)
        elif not waits:
            del self._claims[process_id]
        return None

    def is_leasing(self, process_id: str) -> bool:
        """Return whether a command waits for its lease."""
        claim = self._claims.get(process_id)
        return claim is not None and claim.node is None and process_id not in self._line

    def adopt(self, process_id: str, demand: Demand, node: str) -> None:
        """Count a command that runs; where its lease is missing, it is ordered after the next report."""
        claim = self._claims.get(process_id)
        if claim is not None and claim.node == node:
            return
        has_waited = self._line.remove(process_id)
        self._line.note(process_id)
        self.nodes.fleet.free(process_id)
        self.nodes.fleet.take(process_id, demand, node)
        self._claims[process_id] = _Claim(demand, node)
        self.orders.forget(process_id)
        if has_waited:
            self._advance()

    def release(self, process_id: str) -> None:
        """Give a lease back; its room counts as taken until that is answered."""
        claim = self._claims.pop(process_id, None)
        if claim is None:
            return
        self._line.forget(process_id)
        if self._line.remove(process_id):
            self._advance()
            return
        self._give_back(process_id, claim.demand, process_id)

    def put_back(self, process_id: str, demand: Demand) -> None:  # noqa: ARG002 - known already
        """Give the lease of a command back that its node did not start, and let it wait for another one in
        its turn.
        """
        claim = self._claims.get(process_id)
        if claim is None or claim.node is None:
            return
        claim.node = None
        self._give_back(process_id, claim.demand, process_id)
        self._line.put_back(process_id, claim.demand)
        self._advance()

    def _give_back(self, process_id: str, demand: Demand, counted_as: str) -> None:
        node = self.nodes.fleet.free(counted_as)
        number = self.orders.put(process_id)
        self._going[process_id] = demand.amounts
        if node is not None:
            self.nodes.fleet.take(f"{_GOING}{number}", demand, node)

    def answered(self, answer: LeaseAnswer) -> None:
        """Take over what came of an order."""
        order, is_newest = self.orders.answered(answer.number)
        if order is None:
            return
        if not order.node:
            if (failed := self._failed.pop(order.process_id, None)) is not None:
                self.nodes.fleet.free(f"{_GOING}{failed}")  # this order was for the same
            if not answer.is_done:
                self._failed[order.process_id] = answer.number
                return
            self._going.pop(order.process_id, None)
            self.nodes.fleet.free(f"{_GOING}{answer.number}")
            self._advance()
            return
        claim = self._claims.get(order.process_id)
        if not is_newest or claim is None or claim.node is not None:
            # given back meanwhile, or the lease of what runs, which is looked at again with each report
            return
        if answer.is_done:
            claim.node = order.node
            self.nodes.leased(order.node)
            if self._listener is not None:  # else `acquire` returns it, which is asked again
                self._listener.granted(order.process_id, order.node)
            return
        self.nodes.fleet.free(order.process_id)
        self.nodes.refuse(order.node)
        self._line.put_back(order.process_id, claim.demand)
        self._advance()
        # Where it does not wait, another node was found for it.
        if self._listener is not None and order.process_id in self._line:
            self._listener.put_back(order.process_id)

    def reported(self, report: LeaseReport) -> None:
        """Take over what there is and what is leased of it."""
        needs = {process_id: claim.demand.amounts for process_id, claim in self._claims.items()}
        self.nodes.take_over(report, self._going | needs)
        leases = {one.process_id: one.node for one in report.leases}
        for process_id, claim in self._claims.items():
            if not self.orders.is_pending(process_id):
                self._check(process_id, claim, leases.get(process_id, ""))
        # What could not be given back is ordered again: the lease that a server took which is gone has no
        # other owner.
        failed, self._failed = self._failed, {}
        for process_id, number in failed.items():
            counted_as, amounts = f"{_GOING}{number}", self._going.pop(process_id, None)
            if amounts is None or process_id in self._claims or self.orders.is_pending(process_id):
                self.nodes.fleet.free(counted_as)  # asked for anew, and found there
            else:
                self._give_back(process_id, Demand(amounts=amounts), counted_as)
        for lease in report.leases if self._listener is not None else ():
            # Of ours, and no command has it: an earlier server was killed before the start, or the command
            # was withdrawn.
            is_left_over = lease.is_ours and lease.process_id not in self._claims
            if is_left_over and not self.orders.is_pending(lease.process_id):
                self.orders.put(lease.process_id)
        self._advance()

    def _advance(self) -> None:
        """Order leases for what can be placed now."""
        for grant in self._line.advance():
            self._lease(grant.process_id, grant.node)

    def _check(self, process_id: str, claim: _Claim, leased: str) -> None:
        """Order a lease again that a command has lost, or use one that it has had since an earlier server."""
        if claim.node is None:
            if self.nodes.is_there(leased) and self._line.remove(process_id):
                self.nodes.fleet.take(process_id, claim.demand, leased)
                self._lease(process_id, leased)
        elif self.nodes.is_there(claim.node) and leased != claim.node:
            self._lease(process_id, claim.node)

    def _lease(self, process_id: str, node: str) -> None:
        self.orders.put(process_id, node, self._claims[process_id].demand.amounts)
