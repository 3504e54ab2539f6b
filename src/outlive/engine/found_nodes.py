"""`FoundNodes`: nodes that a placement finds, used as if an operator had added them."""

import logging
from dataclasses import replace

from outlive.core.errors import OutliveError
from outlive.core.location import ANY, DOCKER, LOCAL
from outlive.engine.declared_nodes import DeclaredNodes
from outlive.engine.nodes import NodeRoutes
from outlive.placement.contract import Placement
from outlive.placement.leases import FoundNode
from outlive.store.node_files import NodeEntry

_logger = logging.getLogger(__name__)


class FoundNodes:
    """Keeps and reaches what is found. On the engine's loop only."""

    def __init__(self, declared: DeclaredNodes, routes: NodeRoutes) -> None:
        """Take where entries are kept, and what reaches nodes."""
        self._declared = declared
        self._routes = routes

    async def run(self, placement: Placement) -> None:
        """Use each node that is found, until cancelled; what an operator has declared stays as it is."""
        while (found := await placement.found()) is not None:
            try:
                await self._use(found)
            except OutliveError as error:
                _logger.warning("a node that was found is not used: %s: %s", found.name, error.message)

    async def _use(self, found: FoundNode) -> None:
        async with self._declared.changing:
            old = self._declared.entries.get(found.name, NodeEntry(name=found.name))
            is_taken = found.name in {LOCAL, DOCKER, ANY, *self._routes.declared}
            if is_taken or (old.is_reached and not old.is_found):
                return
            entry = self._routes.check(replace(old, url=found.url, token=found.token, is_found=True))
            if entry != old:
                # On disk first: a server that starts while no one finds nodes reaches what runs there.
                await self._declared.keep(entry)
                await self._routes.put(entry.name, entry)
