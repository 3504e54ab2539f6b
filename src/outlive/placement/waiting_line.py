"""`WaitingLine`: which command is placed next when not all can be.

It asks `FleetRooms` where, and decides when.

Commands are placed in the order in which they came. One that fits nowhere lets later ones pass that fit on
nodes that it does not wait for, since idle machines help no one: it keeps one node for itself, the one that
lacks least, and no later command gets that. Where that node never becomes free, as many later ones may pass
as `PATIENCE` says; from then on it keeps all nodes that could run it. So no command waits for ever while
others come, and none is passed by one that needs the same.

Commands that need the same stand behind each other in a line of their own (`_Shape`), so that a hundred
thousand that wait cost no more than their few shapes.

`StaticPlacement` are places on the nodes of a list, counted here by the one server whose list it is. Nothing
of it is in a file: what runs is adopted again when a server starts, and what waits asks again in its order.
"""

import heapq
from collections import deque
from collections.abc import Iterable

from outlive.core.values import dataclass, field
from outlive.placement.contract import NodeRoom, PlacementListener
from outlive.placement.fleet import Demand, FleetNode, FleetRooms

# How many later commands may pass the first of its shape. Small enough that a person sees the wait end, large
# enough that one command for a whole machine does not let a fleet of a thousand run empty.
PATIENCE = 100
# Turns of commands that are put back lie before all turns of the line, which count from 1.
_BEFORE_ALL = -(2**60)


@dataclass(frozen=True, slots=True)
class PlaceGrant:
    """A command's turn has come: it runs on that node."""

    process_id: str
    node: str


@dataclass(slots=True)
class _Shape:
    """The commands that need the same, oldest first.

    How often the first of them was passed, and the node that it keeps.
    """

    demand: Demand
    waiting: deque[tuple[int, str]] = field(default_factory=deque)
    passed: int = 0
    kept: str | None = None

    def next_one(self) -> None:
        """Take the first one out: the next has not been passed yet, and keeps the same node."""
        self.waiting.popleft()
        self.passed = 0


class WaitingLine:
    """The commands that wait for a place in a fleet; what is placed is taken from the fleet at once."""

    def __init__(self, fleet: FleetRooms, *, patience: int = PATIENCE) -> None:
        self._fleet = fleet
        self._patience = patience
        self._shapes: dict[Demand, _Shape] = {}
        self._shape_of: dict[str, _Shape] = {}
        self._last = 0
        self._turns: dict[str, int] = {}  # of all that wait or have a place, in the order in which they came
        # Since the last `advance`, nothing was given back: what these need is not free, and later ones get
        # none of the kept nodes.
        self._blocked: set[Demand] = set()
        self._kept: set[str] = set()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._shape_of)

    def __contains__(self, process_id: str) -> bool:
        """Return whether a command waits."""
        return process_id in self._shape_of

    def add(self, process_id: str, demand: Demand, *, waits: bool = True) -> str | None:
        """Return the node of a new command, or None: it waits at the end of the line, or (without `waits`) is
        not in it at all.
        """
        self._last += 1
        if demand not in self._blocked:
            node = self._fleet.choose(demand, without=self._kept)
            if node is not None:
                self._fleet.take(process_id, demand, node)
                self._turns[process_id] = self._last
                self._pass(self._last)
                return node
        if not waits:
            return None
        self._turns[process_id] = self._last
        shape = self._shapes.setdefault(demand, _Shape(demand))
        shape.waiting.append((self._last, process_id))
        self._shape_of[process_id] = shape
        if demand not in self._blocked:
            self._block(shape)
        return None

    def put_back(self, process_id: str, demand: Demand) -> None:
        """Let a command wait again whose node did not take it after all: before all that `add` has let
        wait, and in the order in which such commands came.
        """
        self.note(process_id)
        turn = _BEFORE_ALL + self._turns[process_id]
        shape = self._shapes.setdefault(demand, _Shape(demand))
        shape.waiting = deque(sorted([*shape.waiting, (turn, process_id)]))
        self._shape_of[process_id] = shape

    def note(self, process_id: str) -> None:
        """Note that a command comes now that was found running: put back, it waits in that order."""
        self._last += 1
        self._turns.setdefault(process_id, self._last)

    def forget(self, process_id: str) -> None:
        """Forget when a command came that gives its place back, or does not wait any more."""
        self._turns.pop(process_id, None)

    def remove(self, process_id: str) -> bool:
        """Take a command out that does not want to run any more; return whether it waited.

        What it has kept stays kept until `advance`, which has to follow: others may be placed there.
        """
        shape = self._shape_of.pop(process_id, None)
        if shape is None:
            return False
        if shape.waiting[0][1] == process_id:
            shape.next_one()
        else:
            shape.waiting = deque(one for one in shape.waiting if one[1] != process_id)
        if not shape.waiting:
            del self._shapes[shape.demand]
            self._blocked.discard(shape.demand)
        return True

    def advance(self, freed: str | None = None) -> list[PlaceGrant]:
        """Place what can be placed, in order.

        Args:
            freed: The only node where something was given back since the last time; None where a node has
                come, changed or gone, or a command was removed.
        """
        grants, has_let_go = self._pass_through(freed)
        if freed is not None and has_let_go:  # of a node that later ones may have now
            grants += self._pass_through(None)[0]
        return grants

    def _pass_through(self, freed: str | None) -> tuple[list[PlaceGrant], bool]:
        """Place what can be; return that, and whether a shape keeps fewer nodes than before."""
        self._blocked.clear()
        self._kept.clear()
        grants: list[PlaceGrant] = []
        has_let_go = False
        heads = [(shape.waiting[0][0], shape) for shape in self._shapes.values()]  # no two have the same turn
        heapq.heapify(heads)
        while heads:
            turn, shape = heapq.heappop(heads)
            if freed is None:
                node = self._fleet.choose(shape.demand, without=self._kept)
            else:
                node = freed if freed not in self._kept and self._fleet.takes(freed, shape.demand) else None
            if node is None:
                self._block(shape)
                continue
            process_id = shape.waiting[0][1]
            has_let_go |= shape.passed >= self._patience
            # Its first one kept another node than the one that it gets: the oldest of another shape may have
            # that now.
            has_let_go |= len(self._shapes) > 1 and shape.kept not in {None, node}
            self._fleet.take(process_id, shape.demand, node)
            del self._shape_of[process_id]
            grants.append(PlaceGrant(process_id, node))
            shape.next_one()
            self._pass(turn)
            if shape.waiting:
                heapq.heappush(heads, (shape.waiting[0][0], shape))
            else:
                del self._shapes[shape.demand]
                has_let_go = True
        return grants, has_let_go

    @property
    def waiting(self) -> list[str]:
        """The ids of all that wait, the one that came first at the beginning."""
        return [
            process_id
            for _, process_id in sorted(one for shape in self._shapes.values() for one in shape.waiting)
        ]

    def _pass(self, turn: int) -> None:
        """Note that a command of that turn runs: those that came before it and are blocked were passed."""
        for demand in self._blocked:
            shape = self._shapes[demand]
            if shape.waiting[0][0] < turn:
                shape.passed += 1
                if shape.passed == self._patience:
                    self._kept.update(self._fleet.able(demand))

    def _block(self, shape: _Shape) -> None:
        """Keep a node for the first command of a shape, or all that could run it where it was passed too
        often.
        """
        self._blocked.add(shape.demand)
        if shape.passed >= self._patience:
            self._kept.update(self._fleet.able(shape.demand))
            return
        if shape.kept is None or shape.kept in self._kept or shape.kept not in self._fleet.able(shape.demand):
            shape.kept = self._fleet.nearest(shape.demand, without=self._kept)
        if shape.kept is not None:
            self._kept.add(shape.kept)


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
