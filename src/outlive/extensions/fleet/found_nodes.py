"""`FoundNodes`: nodes that a placement finds, used as if an operator had added them."""

import logging
import re

from outlive.config.options import is_private
from outlive.core.errors import ConfigInvalid, OutliveError
from outlive.core.location import ANY, DOCKER, LOCAL
from outlive.core.values import replace
from outlive.extensions.fleet.node_files import NodeEntry
from outlive.extensions.fleet.nodes import Nodes
from outlive.extensions.fleet.operations import NODE_NAME
from outlive.placement.contract import FoundNode, Placement

_logger = logging.getLogger(__name__)
_NAME = re.compile(NODE_NAME.removesuffix("$"))  # matched as a whole: "$" would let a line's end pass


class FoundNodes:
    """Keeps and reaches what is found. On the engine's loop only."""

    def __init__(self, nodes: Nodes) -> None:
        self._declared = nodes.declared
        self._routes = nodes.routes

    async def take(self, placement: Placement) -> None:
        """Use each node that is found; what an operator has declared stays as it is."""
        while (found := await placement.found()) is not None:
            try:
                await self._use(found)
            except OutliveError as error:
                _logger.warning("a node that was found is not used: %r: %s", found.name, error.message)
            except Exception:  # whatever a cluster says of its nodes, it must not end the engine
                _logger.exception("a node that was found is not used: %r", found.name)

    async def _use(self, found: FoundNode) -> None:
        if _NAME.fullmatch(found.name) is None:  # it is the name of a folder, too
            raise ConfigInvalid("config_invalid", "Its name cannot be that of a node.")
        async with self._declared.changing:
            old = self._declared.entries.get(found.name, NodeEntry(name=found.name))
            is_taken = found.name in {LOCAL, DOCKER, ANY, *self._routes.declared}
            if is_taken or (old.is_reached and not old.is_found):
                return
            entry = self._routes.check(replace(old, url=found.url, token=found.token, is_found=True))
            if not is_private(entry.url):  # its token, and all commands, go where no operator has chosen
                raise ConfigInvalid("config_invalid", f"{entry.url!r} leads over a network without TLS.")
            if entry != old:
                # On disk first: a server that starts while nothing finds nodes reaches what runs there.
                await self._declared.keep(entry)
                await self._routes.put(entry.name, entry)
