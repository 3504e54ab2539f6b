"""The connection to one node, looked for again for ever: `NodeLink`, which says when it is there, and why
when it is not.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime

from outlive.core.errors import BackendUnavailable, OutliveError, ProtocolViolation
from outlive.core.values import dataclass
from outlive.extensions.fleet.node_client import AsyncFeed, NodeClient
from outlive.placement.fleet import FleetNode

_logger = logging.getLogger(__name__)
_LOOK_FIRST = "When the node is back, look at the process before you repeat this."


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """How long to wait between two attempts, in seconds.

    They grow from `first_s` to `longest_s`, each shortened by up to a half at random: a hundred servers that
    lost one node do not come back in step. `refused_s` where the node said no: a token does not become right
    by asking often.

    A node that has reported nothing for `beat_s` is asked whether it is there, and is away when it has not
    said anything `answer_s` later: together less than the 5 s within which a silent node is reported.
    """

    first_s: float = 0.1
    longest_s: float = 15.0
    refused_s: float = 30.0
    beat_s: float = 1.5
    answer_s: float = 3.0


class NodeLink:
    """Keeps a feed open while it can.

    Attributes:
        name: The node's.
        trouble: Why the node is away; None while it is there.
        since: When that began, aware UTC.
        connection: How the node is reached; None while nothing names it.
        pauses: How long it waits for what.
        is_there: Set while the node is there, for callers that wait until it is back.
        changed: Called with the name, why it is away (None: it is there) and what it is, when it comes and
            when it goes.
        described: What the node has for commands, once it has said so.
        feed: The open connection, over which commands are started; None while the node is away.
    """

    def __init__(
        self,
        name: str,
        connection: NodeClient | None,
        *,
        pauses: Pauses,
    ) -> None:
        self.name = name
        self.is_there = asyncio.Event()
        self.changed: Callable[[str, str | None, FleetNode | None], None] = lambda _name, _reason, _node: None
        self.described: FleetNode | None = None
        self.feed: AsyncFeed | None = None
        self._asking: set[asyncio.Timeout] = set()
        self.since = datetime.now(UTC)
        self.trouble: OutliveError | None = _trouble(connection)
        self.connection = connection
        self._is_replaced = asyncio.Event()
        self._attempt: asyncio.Timeout | None = None
        self._is_shut = False
        self.pauses = pauses
        self._pause_s = pauses.first_s

    @property
    def is_away(self) -> bool:
        """Whether nothing can be asked of the node now."""
        return self.trouble is not None

    def unavailable(self) -> BackendUnavailable:
        """Return the error for a caller that asks for a process there."""
        why = "it does not answer" if self.trouble is None else self.trouble.message.rstrip(".")
        text = f"The node {self.name!r} is not available: {why}."
        return BackendUnavailable("node_unavailable", text, details={"node": self.name})

    def opened(self, feed: AsyncFeed) -> None:
        """Record that the node is there, and over which connection."""
        self.feed = feed
        if self.trouble is not None:
            _logger.info("the node is there: %s", self.name)
            self.trouble, self.since = None, datetime.now(UTC)
            self.is_there.set()
            self.changed(self.name, None, self.described)
        self._pause_s = self.pauses.first_s

    @contextlib.asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        """Ask the node in the block, which ends when the node goes away: no caller waits for a node that says
        nothing.

        Raises:
            BackendUnavailable: `node_unavailable`: it is away, nothing was asked; `server_lost`: it went away
                meanwhile, and whether it has done what it was asked is not known.
        """
        if self.is_away:
            raise self.unavailable()
        scope = asyncio.timeout(None)
        self._asking.add(scope)
        try:
            async with scope:
                yield
        except TimeoutError as error:
            if not scope.expired():
                raise
            text = f"The node {self.name!r} went away before it answered: whether it was done is not known."
            details = {"node": self.name}
            raise BackendUnavailable("server_lost", text, hint=_LOOK_FIRST, details=details) from error
        finally:
            self._asking.discard(scope)

    async def reconnect(self, connection: NodeClient | None, *, pauses: Pauses) -> None:
        """Reach the node otherwise from now on, or (None) not any more; what is known of it stays.

        What is being asked for ends as when the node goes away; a start is asked for again under its name.
        """
        old, self.connection = self.connection, connection
        self.pauses, self._pause_s = pauses, pauses.first_s
        self._is_replaced.set()
        if self._attempt is not None:
            self._attempt.reschedule(asyncio.get_running_loop().time())
        if old is not None:
            await old.close()

    def shut(self) -> None:
        """Look for the node no more once the feed of now has ended.

        The task of `run` is cancelled as well.
        """
        self._is_shut = True

    async def run(self, follow: Callable[[AsyncFeed], Awaitable[None]]) -> None:
        """Open a feed and have it followed, again and again, until cancelled."""
        while True:
            self._is_replaced.clear()
            connection = self.connection
            if connection is None:
                await self._is_replaced.wait()
                continue
            error = await self._follow_once(connection, follow)
            # A task group that ends by an error of its own drops a cancellation that came at the same moment
            # (Python 3.11): the node has hung up just when it was removed, and its removal would wait for
            # this for ever.
            if self._is_shut:
                return
            if self._is_replaced.is_set():
                self._closed(_trouble(self.connection))
                continue
            self._closed(error)
            await connection.reset()  # what was sent over it may wait in a network that is gone
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause(error)):
                    await self._is_replaced.wait()

    async def _follow_once(
        self, connection: NodeClient, follow: Callable[[AsyncFeed], Awaitable[None]]
    ) -> OutliveError:
        """Open a feed, have it followed, and return why it has ended."""
        task = asyncio.current_task()
        assert task is not None
        cancels = task.cancelling()
        try:
            async with asyncio.timeout(None) as self._attempt:
                feed = await connection.feed()
                try:
                    await follow(feed)
                finally:
                    await feed.close()
        except OutliveError as found:
            error = found
        except Exception as found:  # noqa: BLE001 - whatever a node says, it must not end the server
            error = _trouble(self.connection) if self._is_replaced.is_set() else _cause_of(found)
        else:
            error = OutliveError("server_lost", "The connection has ended.")
        finally:
            self._attempt = None
        # A task group that fails cancels the task it is in, and before Python 3.11.4 leaves that counted:
        # each later `asyncio.timeout` of the task would take its own end for a cancellation from outside.
        while task.cancelling() > cancels:
            task.uncancel()
        return error

    def _closed(self, error: OutliveError) -> None:
        if self.trouble is None or self.trouble.message != error.message:
            _logger.warning("the node is away: %s: %s", self.name, error.message)
        was_there, self.trouble, self.feed = self.trouble is None, error, None
        if not was_there:
            return
        self.since = datetime.now(UTC)
        self.is_there.clear()
        now = asyncio.get_running_loop().time()
        for scope in self._asking:
            scope.reschedule(now)
        self.changed(self.name, error.message, self.described)

    def _pause(self, error: OutliveError) -> float:
        if not isinstance(error, BackendUnavailable):
            return self.pauses.refused_s * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        pause = self._pause_s * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        self._pause_s = min(self._pause_s * 2, self.pauses.longest_s)
        return pause


def _trouble(connection: NodeClient | None) -> BackendUnavailable:
    """Return why a node is away that was not asked yet."""
    text = "it is being connected to" if connection is not None else "no setting names it (any more)"
    return BackendUnavailable("server_unavailable", text)


def _cause_of(error: Exception) -> OutliveError:
    """Return why a feed's tasks have ended.

    What is no error of ours is a node that speaks another language, and logged.
    """
    if isinstance(error, ExceptionGroup):
        ours, others = error.split(OutliveError)
        if others is None and ours is not None:
            found: BaseException = ours
            while isinstance(found, BaseExceptionGroup):
                found = found.exceptions[0]
            if isinstance(found, OutliveError):
                return found
    _logger.error("what a node said makes no sense", exc_info=error)
    text = "What the node says makes no sense here."
    return ProtocolViolation("invalid_request", text, hint="The server's log has the details.")
