"""`FleetRooms`: the nodes with what each has, what was taken of it, and which of them suits a command best.

What it holds is made again from the processes that live, and stands in no file. In which order commands are
placed is decided in `waiting_line`.
"""

from collections.abc import Collection, Iterable

from outlive.core.needs import ONE_PROCESSOR, Amounts
from outlive.core.values import dataclass, field

# So many nodes that fit are compared; the next choice begins behind them. A fleet of no more is compared
# whole. Beyond that the best of 32 is nearly the best of all (as Nomad's and Sparrow's samples), and a choice
# among 1,000 nodes takes 60 us instead of 3 ms of processor time (`scripts/simulate_fleet.py`).
CANDIDATES = 32
# What was concluded is kept for so many demands. Callers think them up, refused ones included: beyond that
# all are concluded anew. A few kilobytes each among 1,000 nodes, and more kinds than a fleet's users have.
_MAX_KNOWN = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What decides where a command may run: commands with equal demands are alike here.

    `labels` are sorted pairs that the node must have. `beside` is the name of the one node that may be
    chosen, "" for any. `spread` names the commands that are to be kept apart, "" for none.
    """

    amounts: Amounts = ONE_PROCESSOR
    labels: tuple[tuple[str, str], ...] = ()
    beside: str = ""
    spread: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNode:
    """A node as an operator declares it, or as it describes itself; `is_open`: it is there, and takes new
    commands.
    """

    name: str
    capacity: Amounts
    labels: frozenset[tuple[str, str]] = frozenset()
    is_open: bool = True


@dataclass(slots=True)
class _Room:
    """One node with what is free there; `taken` has the commands that count, `kept_apart` how many of each
    name to spread.
    """

    node: FleetNode
    cpu_milli: int
    memory_bytes: int
    gpu_milli: int
    taken: dict[str, Demand] = field(default_factory=dict)
    kept_apart: dict[str, int] = field(default_factory=dict)

    def takes(self, amounts: Amounts) -> bool:
        """Return whether it is open and so much is free.

        Being short of what is not asked for does not matter.
        """
        return (
            self.node.is_open
            and (self.cpu_milli >= amounts.cpu_milli or not amounts.cpu_milli)
            and (self.memory_bytes >= amounts.memory_bytes or not amounts.memory_bytes)
            and (self.gpu_milli >= amounts.gpu_milli or not amounts.gpu_milli)
        )

    def free(self) -> Amounts:
        """Return what is not taken."""
        return Amounts(cpu_milli=self.cpu_milli, memory_bytes=self.memory_bytes, gpu_milli=self.gpu_milli)

    def change(self, process_id: str, demand: Demand, sign: int) -> None:
        """Take what a command needs (-1), or give it back (1)."""
        amounts = demand.amounts
        self.cpu_milli += sign * amounts.cpu_milli
        self.memory_bytes += sign * amounts.memory_bytes
        self.gpu_milli += sign * amounts.gpu_milli
        if sign < 0:
            self.taken[process_id] = demand
        else:
            del self.taken[process_id]
        if demand.spread:
            self.kept_apart[demand.spread] = self.kept_apart.get(demand.spread, 0) - sign

    def share(self, amounts: Amounts) -> float:
        """Return the share of the scarcest of processor and memory that would be taken with a command: 0 to
        1.
        """
        capacity = self.node.capacity
        cpu, memory = capacity.cpu_milli, capacity.memory_bytes
        return max(
            1 - (self.cpu_milli - amounts.cpu_milli) / cpu if cpu else 0.0,
            1 - (self.memory_bytes - amounts.memory_bytes) / memory if memory else 0.0,
        )

    def missing(self, amounts: Amounts) -> float:
        """Return how much is missing for a command, as the sum of the shares of the node's capacity."""
        capacity = self.node.capacity
        pairs = (
            (amounts.cpu_milli, self.cpu_milli, capacity.cpu_milli),
            (amounts.memory_bytes, self.memory_bytes, capacity.memory_bytes),
            (amounts.gpu_milli, self.gpu_milli, capacity.gpu_milli),
        )
        return sum(max(0, asked - free) / whole for asked, free, whole in pairs if asked)


class FleetRooms:
    """All nodes. Names are those of the nodes, commands are known by their process ids."""

    def __init__(self) -> None:
        self._rooms: dict[str, _Room] = {}
        self._node_of: dict[str, str] = {}
        # Commands that run on nodes which have not said yet what they have, by the nodes' names.
        self._early: dict[str, dict[str, Demand]] = {}
        # The nodes whose labels suit, for each set of labels that was asked for; made anew when a node
        # changes.
        self._suitable: dict[tuple[tuple[tuple[str, str], ...], str], list[_Room]] = {}
        self._able: dict[Demand, frozenset[str]] = {}
        self._begin = 0  # where the next choice begins to look

    def put(self, node: FleetNode) -> None:
        """Add a node, or take over what has changed of one; what was taken there stays taken."""
        self._changed()
        old = self._rooms.get(node.name)
        capacity = node.capacity
        room = _Room(node, capacity.cpu_milli, capacity.memory_bytes, capacity.gpu_milli)
        self._rooms[node.name] = room
        if old is not None:
            for process_id, demand in old.taken.items():
                room.change(process_id, demand, -1)
        for process_id, demand in self._early.pop(node.name, {}).items():
            room.change(process_id, demand, -1)

    def remove(self, name: str) -> None:
        """Forget a node; what runs there counts again when one of that name comes."""
        self._changed()
        room = self._rooms.pop(name, None)
        if room is not None and room.taken:
            self._early[name] = room.taken

    def take(self, process_id: str, demand: Demand, name: str) -> None:
        """Count a command on a node, also beyond what is free there: it runs already.

        Idempotent; the node may come later.
        """
        if process_id in self._node_of:
            return
        self._node_of[process_id] = name
        room = self._rooms.get(name)
        if room is None:
            self._early.setdefault(name, {})[process_id] = demand
        else:
            room.change(process_id, demand, -1)

    def free(self, process_id: str) -> str | None:
        """Count a command no more; return where it was, None where it was not counted. Idempotent."""
        name = self._node_of.pop(process_id, None)
        if name is not None:
            room = self._rooms.get(name)
            if room is None:
                del self._early[name][process_id]
            else:
                room.change(process_id, room.taken[process_id], 1)
        return name

    def node_of(self, process_id: str) -> str | None:
        """Return where a command is counted."""
        return self._node_of.get(process_id)

    def choose(self, demand: Demand, *, without: Collection[str] = ()) -> str | None:
        """Return the node that suits best now, outside of `without`; None where none has enough free.

        A node with GPUs comes last for a command that needs none. Then comes the node that runs the fewest
        commands to be kept apart, then the one whose scarcest part is taken least, then the first by name.
        `CANDIDATES` are compared.
        """
        amounts = demand.amounts
        rooms = self._suitable_rooms(demand)
        count = len(rooms)
        if count <= CANDIDATES:
            self._begin = 0
        best: _Room | None = None
        best_rank: tuple[bool, int, float, str] | None = None
        left = CANDIDATES
        for place in range(self._begin, self._begin + count):
            room = rooms[place % count]
            if not room.takes(amounts) or room.node.name in without:
                continue
            wastes_gpu = bool(room.node.capacity.gpu_milli) and not amounts.gpu_milli
            near = room.kept_apart.get(demand.spread, 0) if demand.spread else 0
            rank = (wastes_gpu, near, room.share(amounts), room.node.name)
            if best_rank is None or rank < best_rank:
                best, best_rank = room, rank
            left -= not wastes_gpu
            if not left:
                self._begin = (place + 1) % count
                break
        return None if best is None else best.node.name

    def takes(self, name: str, demand: Demand) -> bool:
        """Return whether one node suits a command now."""
        room = self._rooms.get(name)
        return (
            room is not None
            and room.takes(demand.amounts)
            and demand.beside in {"", name}
            and room.node.labels.issuperset(demand.labels)
        )

    def able(self, demand: Demand) -> frozenset[str]:
        """Return the nodes that could run a command if nothing else ran there, open or not."""
        found = self._able.get(demand)
        if found is None:
            rooms = self._suitable_rooms(demand)
            names = (room.node.name for room in rooms if room.node.capacity.holds(demand.amounts))
            if len(self._able) >= _MAX_KNOWN:
                self._able.clear()
            found = self._able[demand] = frozenset(names)
        return found

    def nearest(self, demand: Demand, *, without: Collection[str] = ()) -> str | None:
        """Return the open node outside of `without` that could run a command and lacks least of what it
        needs; None: there is none.
        """
        rooms = [self._rooms[name] for name in self.able(demand) if name not in without]
        amounts = demand.amounts
        ranks = [(room.missing(amounts), room.node.name) for room in rooms if room.node.is_open]
        return min(ranks)[1] if ranks else None

    def free_of(self, name: str) -> Amounts:
        """Return what is free on a node: less than nothing where more runs than it declares."""
        return self._rooms[name].free()

    def taken_of(self, name: str) -> list[str]:
        """Return the ids of the commands that are counted on a node."""
        return list(self._rooms[name].taken)

    @property
    def nodes(self) -> Iterable[FleetNode]:
        """All nodes, in the order in which they came."""
        return [room.node for room in self._rooms.values()]

    def _changed(self) -> None:
        """Forget what was concluded from the nodes as they were."""
        self._suitable.clear()
        self._able.clear()

    def _suitable_rooms(self, demand: Demand) -> list[_Room]:
        key = (demand.labels, demand.beside)
        found = self._suitable.get(key)
        if found is None:
            wanted = frozenset(demand.labels)
            if len(self._suitable) >= _MAX_KNOWN:
                self._suitable.clear()
            found = self._suitable[key] = [
                room
                for name, room in self._rooms.items()
                if wanted <= room.node.labels and demand.beside in {"", name}
            ]
        return found
