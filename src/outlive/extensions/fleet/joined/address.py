"""A node that dials in by itself, as a place to connect to: `JoinedAddress` takes the next connection that it
has opened.

The twin of `link.Address`, which opens connections. Where the node's connections come in is the server's
(`Lane`).
"""

from collections.abc import Mapping

from outlive.client.runtime import ConnectionLost, Runtime, Transport, Unreachable
from outlive.core.errors import BackendUnavailable
from outlive.extensions.fleet.joined.lanes import Lane, NodeSocket

# A connection that lay ready while the link was cut looks as good as any other until the node does not answer
# on it. The node is reported as away after 4.5 s of silence (`extensions.fleet.link`); looking at its spare
# must not take longer.
_ANSWERS_S = 3.0
_PATIENCE_S = 15.0  # then the reason is given once more, and the wait goes on


class _TakenTransport:
    """One of them as a `Transport`; its first message was read already."""

    def __init__(self, opened: NodeSocket, first: str | bytes) -> None:
        self._opened = opened
        self._first: str | bytes | None = first

    async def send(self, frame: str | bytes) -> None:
        try:
            await self._opened.send(frame)
        except EOFError as error:
            raise ConnectionLost(was_sent=False) from error

    async def receive(self, timeout_s: float | None) -> str | bytes:
        first, self._first = self._first, None
        if first is not None:
            return first
        try:
            return await self._opened.receive(timeout_s)
        except EOFError as error:
            raise ConnectionLost from error

    async def close(self) -> None:
        self._opened.close()


class JoinedAddress:
    """One node that dials in.

    Attributes:
        is_started_here: No server is started for it.
        was_reached: Whether it has ever answered.
    """

    def __init__(self, name: str, lane: Lane) -> None:
        self._name = name
        self._lane = lane
        self.is_started_here = False
        self.was_reached = False

    def __str__(self) -> str:
        """Return what error messages call it."""
        return f"the node {self._name!r}, which dials in"

    async def dial(self, world: Runtime, query: Mapping[str, str]) -> Transport:
        """Return an open WebSocket; waits some seconds for the node to open one.

        Raises:
            Unreachable: None came, or what came is dead.

        Cancellation: safe; what was taken is closed.
        """
        deadline = world.now() + _PATIENCE_S
        while True:
            try:
                opened = await self._lane.take(patience_s=max(0.0, deadline - world.now()))
            except BackendUnavailable as error:
                raise Unreachable(error.message) from error
            try:
                await opened.begin(query)
                return _TakenTransport(opened, await opened.receive(_ANSWERS_S))
            except (EOFError, TimeoutError):
                opened.close()  # a dead one: the next may be on its way
            except BaseException:
                opened.close()
                raise
