"""What the parts of `joined` are to each other, so that the library's client is loaded only where a gateway
was joined.
"""

from typing import Protocol

from starlette.websockets import WebSocket

from outlive.extensions.fleet.gateway_files import GatewayEntry
from outlive.extensions.fleet.operations import GatewayView
from outlive.policy.access import Access


class SessionDoor(Protocol):
    """Serves sessions (`frontends.jsonrpc.door.JsonRpcFrontend`)."""

    async def converse(self, websocket: WebSocket, access: Access) -> None:
        """Serve one over a WebSocket, until it ends."""


class KeptGateway(Protocol):
    """A server that was joined (`gateway.Gateway`)."""

    entry: GatewayEntry

    def view(self) -> GatewayView:
        """Return what is shown of it."""
