"""Both directions together, as `app` has them: `JoinedFrontend`."""

from types import TracebackType
from typing import Self

from starlette.routing import BaseRoute

from outlive.core.layout import Layout
from outlive.engine.machines.nodes import Nodes
from outlive.frontends.joined.contract import SessionDoor
from outlive.frontends.joined.door import NodeDoor
from outlive.frontends.joined.gateways import JoinedGateways
from outlive.frontends.joined.lanes import JoinedNodes


class JoinedFrontend:
    """The nodes that dial in here, and the servers that this one dials as a node.

    It is made before the engine, whose nodes are reached over what comes in here, and then stands before it.

    Attributes:
        nodes: The connections that have come in.
    """

    def __init__(self, layout: Layout, *, max_message_bytes: int) -> None:
        self.nodes = JoinedNodes()
        self._layout = layout
        self._max_message_bytes = max_message_bytes
        self._door: NodeDoor | None = None
        self._gateways: JoinedGateways | None = None

    def stand_before(self, nodes: Nodes, sessions: SessionDoor) -> None:
        """Take the engine's nodes, and what serves a session to a server that was joined."""
        self._door = NodeDoor(nodes.keys, self.nodes)
        self._gateways = JoinedGateways(self._layout, sessions, max_message_bytes=self._max_message_bytes)
        nodes.gateways = self._gateways

    async def __aenter__(self) -> Self:
        """Dial the servers that were joined earlier."""
        if self._gateways is not None:
            await self._gateways.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all connections."""
        self.hang_up()
        if self._gateways is not None:
            await self._gateways.__aexit__(kind, error, trace)

    def routes(self) -> list[BaseRoute]:
        """Return what the application serves."""
        return [] if self._door is None else self._door.routes()

    def hang_up(self) -> None:
        """End the connections that have come in; the nodes dial again."""
        self.nodes.close()
