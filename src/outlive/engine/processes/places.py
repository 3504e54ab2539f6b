"""`Places`: which processes have a place on a machine, between the commands that wait (`start_queue`) and
what leases places (`placement.contract`).

A process without `needs` has none and needs none. Every other one holds its place from the moment at which it
is given until its main process has ended, and gives it back where its start is refused. On the engine's loop
only.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from outlive.core.errors import InvalidRequest, LimitExceeded
from outlive.core.location import LOCAL
from outlive.core.needs import Needs
from outlive.core.process import ProcessRecord
from outlive.core.values import replace
from outlive.engine.processes.process import Process
from outlive.placement.contract import NodeRoom, Placement
from outlive.placement.fleet import Demand, FleetNode
from outlive.placement.gpus import GpuShares

# Nothing is placed for so long on a node that has refused a command, so that not all that wait are sent there
# in vain.
_REFUSED_S = 1.0


class DeclaredNode(Protocol):
    """What an operator says of a node."""

    @property
    def name(self) -> str:
        """Its name."""

    def applied(self, node: FleetNode) -> FleetNode:
        """Return a node as it describes itself with what is declared of it: fewer amounts, more labels."""


class KnownNodes:
    """Has the placement know each node as it may be used now: as the machine describes itself, with what its
    operator declares of it.
    """

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        # As they describe themselves (closed while they are away), and as they are declared.
        self._described = {room.node.name: room.node for room in placement.rooms()}
        self._declared: dict[str, DeclaredNode] = {}
        self._refusing: dict[str, int] = {}  # how many refusals of the last second there are of a node

    def changed(self, node: FleetNode) -> None:
        """Take over what a node has, and whether it is there.

        That one goes away which was removed says nothing new.
        """
        if not node.is_open and node.name not in self._described:
            return
        self._described[node.name] = node
        self._apply(node.name)

    def declare(self, entry: DeclaredNode) -> None:
        """Take over what the operator says of a node: fewer amounts, more labels, that it is to take no
        more.
        """
        self._declared[entry.name] = entry
        self._apply(entry.name)

    def undeclare(self, name: str) -> None:
        """Place nothing on a node any more that was removed."""
        self._declared.pop(name, None)
        self._described.pop(name, None)
        self._placement.node_removed(name)

    def refused(self, name: str) -> None:
        """Place nothing on a node for a moment that has refused a command."""
        self._refusing[name] = self._refusing.get(name, 0) + 1
        self._apply(name)
        asyncio.get_running_loop().call_later(_REFUSED_S, self._ask_again, name)

    def _ask_again(self, name: str) -> None:
        self._refusing[name] -= 1
        self._apply(name)

    def _apply(self, name: str) -> None:
        node, entry = self._described.get(name), self._declared.get(name)
        if node is None:
            return
        node = node if entry is None else entry.applied(node)
        self._placement.node_changed(replace(node, is_open=False) if self._refusing.get(name) else node)


# Ray says within 2.5 s whether a place is to be had (`driver.leases` there). A caller waits no longer for one
# that says nothing: then its command waits in line.
_LEASE_S = 3.0


class Places:
    """Asks for places and keeps those that were given until they are taken.

    Attributes:
        nodes: On which machines there are any.
    """

    def __init__(self, placement: Placement, *, gpus: Sequence[str] = ()) -> None:
        """Ask `placement`; nothing has a place yet.

        `gpus` are those of this machine, by the names that drivers take.
        """
        self._placement = placement
        self._gpus = GpuShares(gpus)
        self._given: dict[str, str] = {}
        self._waiting: dict[str, Process] = {}
        # Where it is heard whether what starts just now has its place.
        self._leasing: dict[str, asyncio.Future[bool]] = {}
        self._start: Callable[[str], None] | None = None
        self.nodes = KnownNodes(placement)

    def begin(self, start: Callable[[str], None]) -> None:
        """From now on `start` is called with the id of a process that waits, once it has a place."""
        self._start = start
        self._placement.begin(self)

    def granted(self, process_id: str, node: str) -> None:
        """Take a place over for a command that waits (see `PlacementListener`)."""
        self._given[process_id] = node
        _tell(self._leasing.get(process_id), is_given=True)
        if self._waiting.pop(process_id, None) is not None and self._start is not None:
            self._start(process_id)

    def put_back(self, process_id: str) -> None:
        """Let a command wait that was about to have a place (see `PlacementListener`)."""
        _tell(self._leasing.get(process_id), is_given=False)

    def ask(self, record: ProcessRecord) -> bool:
        """Return whether a command has a place, is about to have one (`is_given`), or needs none.

        Else it waits for one if it may.

        Raises:
            InvalidRequest: No machine that is known could ever run it, and it does not wait for one that
            comes.
            LimitExceeded: `no_room`: none has enough free, and it does not wait.
        """
        needs = record.needs
        if needs is None or record.process_id in self._given:
            return True
        demand = _demand(record, needs)
        if self._acquire(record.process_id, demand, waits=needs.is_patient):
            return True
        is_leasing = self._placement.is_leasing(record.process_id)
        if is_leasing or needs.is_patient:
            return is_leasing
        if not self._placement.is_possible(demand):
            raise InvalidRequest(
                "invalid_params", "needs: no machine that is known has as much, or these labels."
            )
        raise no_room()

    async def is_given(self, process: Process) -> bool:
        """Return whether a process that starts has its place, once that is known; False: it has to wait for
        one in line.
        """
        process_id = process.process_id
        if process_id in self._given or not self._placement.is_leasing(process_id):
            return process_id in self._given
        told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._leasing[process_id] = told
        try:
            async with asyncio.timeout(_LEASE_S):
                return await told
        except TimeoutError:
            return False
        finally:
            del self._leasing[process_id]

    def acquire(self, process: Process) -> bool:
        """Return whether a process that waits has a place, or needs none; it is started once it has one."""
        needs = process.base.needs
        if needs is None or process.process_id in self._given:
            return True
        self._waiting[process.process_id] = process
        if not self._acquire(process.process_id, _demand(process.record, needs)):
            return False
        del self._waiting[process.process_id]
        return True

    def _acquire(self, process_id: str, demand: Demand, *, waits: bool = True) -> bool:
        node = self._placement.acquire(process_id, demand, waits=waits)
        if node is not None:
            self._given[process_id] = node
        return node is not None

    def take_gpus(self, process: Process) -> tuple[str, ...]:
        """Return which GPUs of this machine a process gets that is about to start here.

        Raises:
            LimitExceeded: `no_room`: as many are free all together, but not as it needs them.
        """
        needs = process.base.needs
        if needs is None or not needs.amounts.gpu_milli:
            return ()
        found = self._gpus.take(process.process_id, needs.amounts.gpu_milli)
        if found is None:
            raise LimitExceeded("no_room", "No GPU of this machine has as much free as the command needs.")
        return found

    def node_of(self, process: Process) -> str | None:
        """Return the place that a process was given; None where it needs none, or has given it back."""
        return self._given.get(process.process_id)

    def refused(self, process: Process) -> None:
        """Give back a place that the node did not give after all: others have taken it, or it has just gone
        away.

        The process waits for another one, in its turn.
        """
        needs, name = process.base.needs, self._given.pop(process.process_id, None)
        if needs is None or name is None:
            return
        self._gpus.free(process.process_id)
        self.nodes.refused(name)
        self._placement.put_back(process.process_id, _demand(process.record, needs))

    def is_possible_here(self, needs: Needs) -> bool:
        """Return whether this machine could run what has such needs if nothing else ran here."""
        labels = tuple(sorted(needs.labels.items()))
        return self._placement.is_possible(Demand(amounts=needs.amounts, labels=labels, beside=LOCAL))

    def rooms(self) -> Sequence[NodeRoom]:
        """Return the machines that commands are placed on, and what is free there."""
        return self._placement.rooms()

    def waiting(self, principal: str) -> tuple[list[str], list[str]]:
        """Return the ids of what waits for a place of a principal's, the next first, and of those of them
        that no known machine could ever run.
        """
        own = {one.process_id: one for one in self._waiting.values() if one.principal == principal}
        # A heartbeat asks, too: the order of all is made for those alone that have something in it.
        waiting = [one for one in self._placement.waiting() if one in own] if own else []
        return waiting, [name for name, process in own.items() if not _is_possible(self._placement, process)]

    def adopt(self, process: Process) -> None:
        """Count a process that runs, or whose place was decided by an earlier server."""
        record = process.record
        needs = record.needs
        if needs is None or record.location.is_open or process.status.is_ended:
            return
        if self._placement.is_leasing(process.process_id):  # its place was asked for, and is not there yet
            return
        self._placement.adopt(process.process_id, _demand(record, needs), record.location.backend)
        if needs.gpus:
            self._gpus.adopt(process.process_id, needs.gpus, needs.amounts.gpu_milli)

    def release(self, process_id: str) -> None:
        """Give a process's place back, or wait for none any more. Safe to repeat."""
        self._given.pop(process_id, None)
        self._waiting.pop(process_id, None)
        self._gpus.free(process_id)
        self._placement.release(process_id)
        _tell(self._leasing.get(process_id), is_given=False)


def _tell(told: asyncio.Future[bool] | None, *, is_given: bool) -> None:
    if told is not None and not told.done():
        told.set_result(is_given)


def _is_possible(placement: Placement, process: Process) -> bool:
    needs = process.record.needs
    return needs is None or placement.is_possible(_demand(process.record, needs))


def no_room() -> LimitExceeded:
    """Return what is said of a command that does not wait."""
    return LimitExceeded("no_room", "No machine has as much free as the command needs.")


def _demand(record: ProcessRecord, needs: Needs) -> Demand:
    return Demand(
        amounts=needs.amounts,
        labels=tuple(sorted(needs.labels.items())),
        beside=needs.node,
        spread=f"{record.owner.principal}\0{record.group or ''}" if needs.is_spread else "",
    )
