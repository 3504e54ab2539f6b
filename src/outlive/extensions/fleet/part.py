"""The fleet's share of a server: other servers on which commands run, those that dial in as nodes, and those
that this one dials as a node.
"""

from typing import Self

from starlette.routing import BaseRoute

from outlive.backends.contract import Backend
from outlive.backends.routing import Route
from outlive.extensions.fleet.joined.door import NodeDoor
from outlive.extensions.fleet.joined.entrance import NodeEntrance
from outlive.extensions.fleet.joined.gateways import JoinedGateways
from outlive.extensions.fleet.joined.lanes import JoinedNodes
from outlive.extensions.fleet.joined.messages import NODE_PATH
from outlive.extensions.fleet.routes import FleetRoutes
from outlive.extensions.server_part import Built, Given, ServerPart


class FleetPart(ServerPart):
    """Reaches nodes, and is one."""

    def __init__(self, given: Given) -> None:
        """Take the server, and the nodes that settings and files name.

        Raises:
            ConfigInvalid: The file of the nodes' tokens cannot be used.
        """
        super().__init__(given)
        self._joined = JoinedNodes()
        self.nodes = self._routes = FleetRoutes(given.settings, given.layout, self._joined)

    def backends(self, _local: Backend) -> dict[str, Route]:
        """Return the nodes."""
        return {name: Route(kind="node", backend=node) for name, node in self._routes.backends.items()}

    def join(self, built: Built) -> None:
        """Take the places, the engine's nodes, and what serves a session to a server that was joined."""
        self._routes.routing = built.routing
        nodes = built.engine.nodes
        self.entrance = NodeEntrance(NODE_PATH, nodes.keys.name_of)
        self._door = NodeDoor(nodes.keys, self._joined)
        self._gateways = nodes.gateways = JoinedGateways(
            self.given.layout, built.sessions, max_message_bytes=self.given.settings.max_message_bytes
        )

    def routes(self) -> list[BaseRoute]:
        """Return where nodes dial in."""
        return self._door.routes()

    async def __aenter__(self) -> Self:
        """Dial the servers that were joined earlier."""
        await self._gateways.__aenter__()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """End all connections."""
        self.hang_up()
        await self._gateways.__aexit__(None, None, None)

    def hang_up(self) -> None:
        """End the connections that have come in; the nodes dial again."""
        self._joined.close()
