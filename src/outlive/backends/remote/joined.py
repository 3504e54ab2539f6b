"""The connections of nodes that dial in: `JoinedNodes` has a `Lane` for each, where one lies ready and `take`
gets it.

A node keeps one connection here that nothing is said over, its spare. A caller that needs a connection to the
node takes the spare, and the node dials the next one. Which machine may bring one is decided where they come
in (`frontends.joined.door`); nothing is read here.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from outlive.core.errors import BackendUnavailable


class DialledIn(Protocol):
    """A connection that a node has opened; one caller at a time uses it.

    `instance` names the server of the node for as long as that lives.
    """

    instance: str

    @property
    def is_closed(self) -> bool:
        """Whether it has ended."""

    async def begin(self, query: Mapping[str, str]) -> None:
        """Ask the node to serve a session over it, as for an upgrade with such a query.

        Raises:
            EOFError: It has ended.
        """

    async def send(self, frame: str | bytes) -> None:
        """Send a message; returns when there is room for more.

        Raises:
            EOFError: It has ended.
        """

    async def receive(self, timeout_s: float | None) -> str | bytes:
        """Return the next message. Cancellation: safe.

        Raises:
            EOFError: It has ended.
            TimeoutError: None came in time.
        """

    def close(self) -> None:
        """End it at once; safe to repeat."""


class Lane:
    """The connections of one node. On the event loop only.

    Attributes:
        entering: Held while a connection is let in: one after another, since each changes the node's
            credential.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.entering = asyncio.Lock()
        self._open: set[DialledIn] = set()
        self._spare: DialledIn | None = None
        self._came = asyncio.Condition()

    def __str__(self) -> str:
        """Return how it is named where others have an address."""
        return f"the node {self.name!r}, which dials in"

    def opened(self) -> list[DialledIn]:
        """Return those that have not ended."""
        self._open = {one for one in self._open if not one.is_closed}
        return list(self._open)

    async def offer(self, spare: DialledIn) -> None:
        """Take in a connection that nothing is said over.

        It takes the place of an earlier one, which ends.
        """
        async with self._came:
            old, self._spare = self._spare, spare
            self._open.add(spare)
            if old is not None and old is not spare:
                old.close()
            self._came.notify_all()

    def withdraw(self, spare: DialledIn) -> bool:
        """Take this very one out if it still lies ready, so that no other caller uses it; `offer` puts it
        back.
        """
        if self._spare is not spare or spare.is_closed:
            return False
        self._spare = None
        return True

    def ready(self) -> DialledIn | None:
        """Return the one that lies ready."""
        return None if self._spare is None or self._spare.is_closed else self._spare

    async def take(self, *, patience_s: float) -> DialledIn:
        """Return the one that lies ready, waiting for it.

        Raises:
            BackendUnavailable: `server_unavailable`: none came in time.

        Cancellation: safe.
        """
        try:
            async with asyncio.timeout(patience_s), self._came:
                while True:
                    found, self._spare = self.ready(), None
                    if found is not None:
                        return found
                    await self._came.wait()
        except TimeoutError as error:
            text = "It dials in by itself, and has not (again)."
            raise BackendUnavailable("server_unavailable", text) from error

    def close(self) -> None:
        """End all of them."""
        for one in self.opened():
            one.close()
        self._open.clear()
        self._spare = None


class JoinedNodes:
    """The lanes by name."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}

    def lane(self, name: str) -> Lane:
        """Return the lane of a node."""
        if name not in self._lanes:
            self._lanes[name] = Lane(name)
        return self._lanes[name]

    def forget(self, name: str) -> None:
        """End all connections of a node."""
        lane = self._lanes.pop(name, None)
        if lane is not None:
            lane.close()

    def close(self) -> None:
        """End all connections of all nodes."""
        for lane in self._lanes.values():
            lane.close()
