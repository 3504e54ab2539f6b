"""The fleet's share of a server: other servers on which commands run, those that dial in as nodes, and those
that this one dials as a node.
"""

import asyncio
import contextlib
from typing import Self

from starlette.routing import BaseRoute

from outlive.backends.contract import Backend
from outlive.backends.routing import Route
from outlive.extensions.fleet.adoption import Adoption
from outlive.extensions.fleet.joined.door import NodeDoor
from outlive.extensions.fleet.joined.entrance import NodeEntrance
from outlive.extensions.fleet.joined.gateways import JoinedGateways
from outlive.extensions.fleet.joined.lanes import JoinedNodes
from outlive.extensions.fleet.joined.messages import NODE_PATH
from outlive.extensions.fleet.node_files import NodeFiles
from outlive.extensions.fleet.nodes import FoundNodes, Nodes
from outlive.extensions.fleet.operations import OPERATIONS
from outlive.extensions.fleet.routes import FleetRoutes
from outlive.extensions.server_part import Built, Given, ServerPart
from outlive.kernel.disk import Reserve
from outlive.server.operations import Carrier


class FleetPart(ServerPart):
    """Reaches nodes, and is one."""

    def __init__(self, given: Given) -> None:
        """Take the server, and the nodes that settings and files name.

        Raises:
            ConfigInvalid: The file of the nodes' tokens cannot be used.
        """
        super().__init__(given)
        self._joined = JoinedNodes()
        self._stack = contextlib.AsyncExitStack()
        self.remote_files = self._routes = FleetRoutes(given.settings, given.layout, self._joined)

    def backends(self, _local: Backend) -> dict[str, Route]:
        """Return the nodes."""
        return {name: Route(kind="node", backend=node) for name, node in self._routes.backends.items()}

    def join(self, built: Built) -> None:
        """Take the places, make the nodes, and what serves a session to a server that was joined."""
        self._routes.routing = built.routing
        engine, layout = built.engine, self.given.layout
        self._gateways = JoinedGateways(
            layout, built.sessions, max_message_bytes=self.given.settings.max_message_bytes
        )
        self.nodes = Nodes(
            NodeFiles(layout, fit=Reserve(layout.root).fit),
            self._routes,
            engine.places,
            gateways=self._gateways,
            adoption=Adoption(engine.settings, self._routes, names=engine.names, queries=engine.queries),
            events=engine.events,
        )
        self._placement = engine.placement
        self.entrance = NodeEntrance(NODE_PATH, self.nodes.keys.name_of)
        self._door = NodeDoor(self.nodes.keys, self._joined)

    def routes(self) -> list[BaseRoute]:
        """Return where nodes dial in."""
        return self._door.routes()

    def carriers(self) -> dict[str, Carrier]:
        """Return what carries out each operation on nodes."""
        return dict.fromkeys((one.name for one in OPERATIONS), self.nodes.answer)

    async def begin(self) -> None:
        """Take over what was declared of nodes, before anything that waits is given a place there."""
        await self.nodes.declared.open()

    async def __aenter__(self) -> Self:
        """Dial the servers that were joined earlier, and use what the placement finds."""
        await self._stack.enter_async_context(self.nodes.changes)
        await self._stack.enter_async_context(self._gateways)
        tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
        self._stack.callback(tasks.create_task(FoundNodes(self.nodes).take(self._placement)).cancel)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """End all connections."""
        self.hang_up()
        await self._stack.aclose()

    def hang_up(self) -> None:
        """End the connections that have come in; the nodes dial again."""
        self._joined.close()
