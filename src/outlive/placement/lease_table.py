"""`LeaseTable`: which of this server's commands have a lease, wait for one or give one back, and what is
ordered for that. Pure.

What is said to the leasing side are numbered orders, which are repeated until they are answered; what it says
are answers, and each second a report of everything. A command that runs keeps its node, whatever becomes of
its lease: it is taken again there.
"""

from collections.abc import Callable

from outlive.core.needs import Amounts
from outlive.core.values import dataclass
from outlive.placement.contract import PlacementListener
from outlive.placement.fleet import Demand, FleetNode
from outlive.placement.leases import LeaseAnswer, LeaseOrder, LeaseReport
from outlive.placement.reported_fleet import ReportedFleet
from outlive.placement.waiting_line import BEFORE_ALL, WaitingLine

# What is being given back counts until that is answered, under a name that is no process id.
_GOING = "going\0"


@dataclass(slots=True)
class _Claim:
    """A command of ours: what it needs, when it came, and the node of its lease once it has one."""

    demand: Demand
    turn: int
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


class LeaseTable:
    """The leases of this server's commands.

    Attributes:
        nodes: What they are on.
        line: What waits for room.
        listener: Hears of places; None before `begin`.
    """

    def __init__(self, own: FleetNode, *, send: Callable[[LeaseOrder], None]) -> None:
        """Begin with no commands; `send` passes an order on, and loses it where nothing hears it."""
        self.nodes = ReportedFleet(own)
        self.line = WaitingLine(self.nodes.fleet)
        self.listener: PlacementListener | None = None
        self._orders = _UnansweredOrders(send)
        self._claims: dict[str, _Claim] = {}
        self._going: dict[str, Amounts] = {}  # what is being given back, by process
        self._failed: dict[
            str, int
        ] = {}  # the orders to give something back that failed: it is ordered again
        self._count = 0

    def place_of(self, process_id: str) -> tuple[bool, str | None]:
        """Return whether a command has asked, and the node of its lease if it has one."""
        claim = self._claims.get(process_id)
        return claim is not None, None if claim is None else claim.node

    def change_node(self, node: FleetNode) -> None:
        """Take over how a node describes itself."""
        self.nodes.change(node)
        self.advance()

    def ask(self, process_id: str, demand: Demand, *, waits: bool) -> None:
        """Order a lease for a new command where there is room; without, let it wait if it may."""
        self._count += 1
        self._claims[process_id] = _Claim(demand, BEFORE_ALL + self._count)
        node = self.line.add(process_id, demand, waits=waits)
        if node is not None:
            self._lease(process_id, node)
        elif not waits:
            del self._claims[process_id]

    def adopt(self, process_id: str, demand: Demand, node: str) -> None:
        """Count a command that runs; where its lease is missing, it is ordered after the next report."""
        claim = self._claims.get(process_id)
        if claim is not None and claim.node == node:
            return
        self._count += 1
        has_waited = self.line.remove(process_id)
        self.nodes.fleet.free(process_id)
        self.nodes.fleet.take(process_id, demand, node)
        self._claims[process_id] = _Claim(demand, BEFORE_ALL + self._count, node)
        self._orders.forget(process_id)
        if has_waited:
            self.advance()

    def release(self, process_id: str) -> None:
        """Give a lease back; its room counts as taken until that is answered."""
        claim = self._claims.pop(process_id, None)
        if claim is None:
            return
        if self.line.remove(process_id):
            self.advance()
            return
        self._give_back(process_id, claim.demand, process_id)

    def put_back(self, process_id: str) -> None:
        """Give the lease of a command back that its node did not start, and let it wait for another one in
        its turn.
        """
        claim = self._claims.get(process_id)
        if claim is None or claim.node is None:
            return
        claim.node = None
        self._give_back(process_id, claim.demand, process_id)
        self.line.put_back(process_id, claim.demand, claim.turn)
        self.advance()

    def _give_back(self, process_id: str, demand: Demand, counted_as: str) -> None:
        node = self.nodes.fleet.free(counted_as)
        number = self._orders.put(process_id)
        self._going[process_id] = demand.amounts
        if node is not None:
            self.nodes.fleet.take(f"{_GOING}{number}", demand, node)

    def connected(self) -> None:
        """The leasing side hears us again: repeat what it has not answered."""
        self._orders.repeat()

    def lost(self) -> None:
        """The leasing side is away: nothing is placed until it reports again. What has a lease keeps it."""
        self.nodes.lose()

    def answered(self, answer: LeaseAnswer) -> None:
        """Take over what came of an order."""
        order, is_newest = self._orders.answered(answer.number)
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
            self.advance()
            return
        claim = self._claims.get(order.process_id)
        if not is_newest or claim is None or claim.node is not None:
            # given back meanwhile, or the lease of what runs, which is looked at again with each report
            return
        if answer.is_done:
            claim.node = order.node
            if self.listener is not None:  # else `acquire` returns it, which is asked again
                self.listener.granted(order.process_id, order.node)
            return
        self.nodes.fleet.free(order.process_id)
        self.nodes.refuse(order.node)
        self.line.put_back(order.process_id, claim.demand, claim.turn)
        self.advance()
        if self.listener is not None and order.process_id in self.line:  # else another node was found at once
            self.listener.put_back(order.process_id)

    def reported(self, report: LeaseReport) -> None:
        """Take over what there is and what is leased of it."""
        needs = {process_id: claim.demand.amounts for process_id, claim in self._claims.items()}
        self.nodes.take_over(report, self._going | needs)
        leases = {one.process_id: one.node for one in report.leases}
        for process_id, claim in self._claims.items():
            if not self._orders.is_pending(process_id):
                self._check(process_id, claim, leases.get(process_id, ""))
        # What could not be given back is ordered again: the lease that a server took which is gone has no
        # other owner.
        failed, self._failed = self._failed, {}
        for process_id, number in failed.items():
            counted_as, amounts = f"{_GOING}{number}", self._going.pop(process_id, None)
            if amounts is None or process_id in self._claims or self._orders.is_pending(process_id):
                self.nodes.fleet.free(counted_as)  # asked for anew, and found there
            else:
                self._give_back(process_id, Demand(amounts=amounts), counted_as)
        for lease in report.leases if self.listener is not None else ():
            # Of ours, and no command has it: an earlier server was killed before the start, or the command
            # was withdrawn.
            is_left_over = lease.is_ours and lease.process_id not in self._claims
            if is_left_over and not self._orders.is_pending(lease.process_id):
                self._orders.put(lease.process_id)
        self.advance()

    def advance(self) -> None:
        """Order leases for what can be placed now."""
        for grant in self.line.advance():
            self._lease(grant.process_id, grant.node)

    def _check(self, process_id: str, claim: _Claim, leased: str) -> None:
        """Order a lease again that a command has lost, or use one that it has had since an earlier server."""
        if claim.node is None:
            if self.nodes.is_there(leased) and self.line.remove(process_id):
                self.nodes.fleet.take(process_id, claim.demand, leased)
                self._lease(process_id, leased)
        elif self.nodes.is_there(claim.node) and leased != claim.node:
            self._lease(process_id, claim.node)

    def _lease(self, process_id: str, node: str) -> None:
        self._orders.put(process_id, node, self._claims[process_id].demand.amounts)
