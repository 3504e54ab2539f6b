"""What the engine asks of whatever gives places out: `Placement`, and what that reports
(`PlacementListener`).

A place is leased under the id of the process that gets it: to ask twice leases nothing twice, whichever
server asks. Where output and exit codes are, no placement knows.
"""

from collections.abc import Sequence
from typing import Protocol

from outlive.core.needs import Amounts
from outlive.core.values import dataclass, field
from outlive.placement.fleet import Demand, FleetNode


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNode:
    """A node that has said where its server is, and with which token this one may use it."""

    name: str
    url: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRoom:
    """What a node has and what is free of it; `processes` are counted there."""

    node: FleetNode
    free: Amounts
    processes: int


class PlacementListener(Protocol):
    """Hears of leases; called on the event loop's thread, must be quick and must not raise."""

    def granted(self, process_id: str, node: str) -> None:
        """A command that waits has a place from now on, on that node."""

    def put_back(self, process_id: str) -> None:
        """A command waits again that was about to have a place (`Placement.is_leasing`)."""


class Placement(Protocol):
    """Leases places on nodes."""

    async def run(self) -> None:
        """Keep in touch with what leases the places, until cancelled.

        Return at once where nothing else does.
        """

    async def found(self) -> FoundNode | None:
        """Wait for a node that can be reached and that no operator has declared; None: there will be none.

        Cancellation: safe.
        """

    def begin(self, listener: PlacementListener) -> None:
        """Report to a listener from now on."""

    def acquire(self, process_id: str, demand: Demand, *, waits: bool = True) -> str | None:
        """Return the node on which a command has a place from now on; None: it has none yet.

        With `waits` the listener hears of it once it has one. Without, it does so only where one is about to
        be given (`is_leasing`). Asking again changes nothing.
        """

    def is_leasing(self, process_id: str) -> bool:
        """Return whether a node was found for a command, and it is not known yet whether it has its place
        there.

        That is known within seconds, and the listener hears of it.
        """

    def adopt(self, process_id: str, demand: Demand, node: str) -> None:
        """Count a command that runs on a node already; whether there is room for it is not asked."""

    def put_back(self, process_id: str, demand: Demand) -> None:
        """Let a command wait again that had a place, and that its node did not start: it is next among those
        that need the same.
        """

    def release(self, process_id: str) -> None:
        """Give a place back, or wait for none any more. Safe to repeat."""

    def node_changed(self, node: FleetNode) -> None:
        """Take over what a node has, how it is labelled, and whether it takes commands."""

    def node_removed(self, name: str) -> None:
        """Place nothing there any more."""

    def rooms(self) -> Sequence[NodeRoom]:
        """Return all nodes that are known, this machine first."""

    def waiting(self) -> Sequence[str]:
        """Return the ids of the commands that wait for a place, the next first."""

    def is_possible(self, demand: Demand) -> bool:
        """Return whether a node is known that could run such a command if nothing else ran there."""
