"""`KnownNodes`: what machines say of themselves with what their operators declare of them, for the placement.

On the engine's loop only.
"""

import asyncio
from typing import Protocol

from outlive.core.values import replace
from outlive.placement.contract import Placement
from outlive.placement.fleet import FleetNode

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
    """Has the placement know each node as it may be used now."""

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
