"""The connection to one node, looked for again for ever: `NodeLink`, which says when it is there, and why when it is not."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from outlive.backends.remote.contract import NodeConnection, NodeFeed
from outlive.core.errors import BackendUnavailable, OutliveError, ProtocolViolation

__all__ = ["NodeLink", "Pauses"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """How long to wait between two attempts, in seconds.

    They grow from `first_s` to `longest_s`, each shortened by up to a half at random: a hundred servers that lost one node do
    not come back in step. `refused_s` where the node said no: a token does not become right by asking often. `beat_s`: how
    often the node is asked whether it is there, and how long it may take for the answer.
    """

    first_s: float = 0.1
    longest_s: float = 15.0
    refused_s: float = 30.0
    beat_s: float = 15.0


class NodeLink:
    """Keeps a feed open while it can.

    Attributes:
        name: The node's.
        trouble: Why the node is away; None while it is there.
        since: When that began, aware UTC.
    """

    def __init__(self, name: str, connection: NodeConnection | None, *, pauses: Pauses) -> None:
        """Nothing is opened; without a connection the node stays away."""
        self.name = name
        self.since = datetime.now(UTC)
        text = "it is being connected to" if connection is not None else "no setting names it (any more)"
        self.trouble: OutliveError | None = BackendUnavailable("server_unavailable", text)
        self._connection = connection
        self._pauses = pauses
        self._pause_s = pauses.first_s

    @property
    def is_away(self) -> bool:
        """Whether nothing can be asked of the node now."""
        return self.trouble is not None

    def unavailable(self) -> BackendUnavailable:
        """Return the error for who asks for a process there."""
        why = "it does not answer" if self.trouble is None else self.trouble.message.rstrip(".")
        text = f"The node {self.name!r} is not available: {why}."
        return BackendUnavailable("node_unavailable", text, details={"node": self.name})

    def opened(self) -> None:
        """Take note that the node is there."""
        if self.trouble is not None:
            _logger.info("the node is there: %s", self.name)
            self.trouble, self.since = None, datetime.now(UTC)
        self._pause_s = self._pauses.first_s

    async def run(self, follow: Callable[[NodeFeed], Awaitable[None]]) -> None:
        """Open a feed and have it followed, again and again, until cancelled."""
        if self._connection is None:
            return
        while True:
            try:
                feed = await self._connection.feed()
                try:
                    await follow(feed)
                finally:
                    await feed.close()
                error = OutliveError("server_lost", "The connection has ended.")
            except OutliveError as found:
                error = found
            except Exception as found:  # noqa: BLE001 - whatever a node says, it must not end the server
                error = _cause_of(found)
            self._closed(error)
            await asyncio.sleep(self._pause(error))

    def _closed(self, error: OutliveError) -> None:
        if self.trouble is None or self.trouble.message != error.message:
            _logger.warning("the node is away: %s: %s", self.name, error.message)
        if self.trouble is None:
            self.since = datetime.now(UTC)
        self.trouble = error

    def _pause(self, error: OutliveError) -> float:
        if not isinstance(error, BackendUnavailable):
            return self._pauses.refused_s * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        pause = self._pause_s * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        self._pause_s = min(self._pause_s * 2, self._pauses.longest_s)
        return pause


def _cause_of(error: Exception) -> OutliveError:
    """Return why a feed's tasks have ended; what is no error of ours is a node that speaks another language, and logged."""
    if isinstance(error, ExceptionGroup):
        ours, others = error.split(OutliveError)
        if others is None and ours is not None:
            found: BaseException = ours
            while isinstance(found, BaseExceptionGroup):
                found = found.exceptions[0]
            if isinstance(found, OutliveError):
                return found
    _logger.error("what a node said makes no sense", exc_info=error)
    text = "What the node says makes no sense here: its version may be another one."
    return ProtocolViolation("invalid_request", text, hint="The server's log has the details.")
