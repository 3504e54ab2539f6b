"""`DeclaredNodes`: what operators have declared of nodes, on disk and in memory, for those that change it
(`nodes`, `node_keys`).
"""

import asyncio

from outlive.core.errors import LimitExceeded
from outlive.engine.processes.places import Places
from outlive.extensions.fleet.node_files import NodeEntry, NodeFiles


class DeclaredNodes:
    """The entries by name. A change is on disk before it counts. On the engine's loop only.

    Attributes:
        entries: What is declared; changed by this class alone.
        changing: Held by a caller from its look at an entry to the end of its change.
    """

    def __init__(self, files: NodeFiles, places: Places) -> None:
        self._files = files
        self._places = places
        self.entries: dict[str, NodeEntry] = {}
        self.changing = asyncio.Lock()

    async def open(self) -> None:
        """Take over what was declared earlier."""
        for entry in await asyncio.to_thread(self._files.read):
            self.entries[entry.name] = entry
            self._places.nodes.declare(entry)

    async def keep(self, entry: NodeEntry) -> None:
        """Declare a node so from now on.

        Raises:
            LimitExceeded: `disk_full`; what was declared before counts.
        """
        try:
            await asyncio.to_thread(self._files.put, entry)
        except OSError as error:
            raise LimitExceeded("disk_full", f"The node cannot be kept: {error.strerror}.") from error
        self.entries[entry.name] = entry
        self._places.nodes.declare(entry)

    async def drop(self, name: str) -> None:
        """Forget what was declared of a node."""
        await asyncio.to_thread(self._files.remove, name)
        self.entries.pop(name, None)
        self._places.nodes.undeclare(name)
