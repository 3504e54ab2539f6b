"""Following the processes of one node: from its news to folders and doorbells, over any number of connections.

One task hears, others ask; a connection that ends takes all of them along, and the next one begins where the files end.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from outlive.backends.contract import Bell
from outlive.backends.remote.contract import NodeConnection, NodeFeed, NodeView
from outlive.backends.remote.mirror import RemoteProcess, Writing
from outlive.backends.remote.process_follower import Pursuing, put_down_state
from outlive.core.cursor import Cursor
from outlive.core.errors import BackendUnavailable

_SILENT = "It says nothing any more"
_AT_ONCE = 16  # processes that are asked about side by side after a reconnect


class NodeFollower(Pursuing):
    """The `NodeListener` of one node, and who owns its mirrors.

    Attributes:
        mirrors: The followed processes by id; who starts one enters it.
    """

    def __init__(
        self,
        connection: NodeConnection | None,
        *,
        begin: Callable[[RemoteProcess], Awaitable[None]],
        finished: Callable[[RemoteProcess], Awaitable[None]],
        ring: Callable[[Iterable[Bell]], None],
        opened: Callable[[], None],
        beat_s: float,
        answer_s: float,
    ) -> None:
        """Follow nothing yet.

        Args:
            connection: The node; None where no setting names it, and nothing is ever followed.
            begin: Asks once more for the start of a mirror whose start was never answered.
            finished: Awaited for a process that needs no following any more.
            ring: The engine's doorbells.
            opened: Called when the node is there.
            beat_s: How long nothing is heard of it before it is asked whether it still is.
            answer_s: How long it may stay silent then.
        """
        self.mirrors: dict[str, RemoteProcess] = {}
        self._connection = connection
        self._begin = begin
        self._finished = finished
        self._ring = ring
        self._opened = opened
        self._beat_s = beat_s
        self._answer_s = answer_s
        self._is_heard = False  # anything since the last look
        self._feed: NodeFeed | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._writing = Writing(self.mirrors, ring=self.tell)
        self._ended: list[tuple[RemoteProcess, Cursor]] = []

    async def follow(self, feed: NodeFeed) -> None:
        """Follow everything over a new connection until it ends.

        Raises:
            OutliveError, ExceptionGroup: It has ended, and why.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                tasks.create_task(self._catch_up(feed))
                tasks.create_task(self._hear(feed))
                tasks.create_task(self._beat(feed))
        finally:
            self._feed = self._tasks = None
            for mirror in self.mirrors.values():
                mirror.is_unknown, mirror.is_followed_late = True, False
            self.tell(self.mirrors.values())

    def attach(self, mirror: RemoteProcess) -> None:
        """Follow a process that has just been started, if the connection is there; the next one does it else."""
        feed, tasks = self._feed, self._tasks
        if feed is not None and tasks is not None:
            tasks.create_task(self._resume(mirror, feed))

    # What a feed tells: called by `NodeFeed.hear`, in the order of the wire.

    def piece(self, process_id: str, stream: int, data: bytes, end: int) -> None:
        """Take bytes."""
        self._writing.add(process_id, stream, start=end - len(data), end=end, data=data)

    def missing(self, process_id: str, stream: int, start: int, end: int) -> None:
        """Take a gap."""
        self._writing.add(process_id, stream, start=start, end=end, data=None)

    def ended(self, process_id: str, cursor: Cursor) -> None:
        """Take an end; it counts when all before it is on disk."""
        mirror = self.mirrors.get(process_id)
        if mirror is not None and mirror.completion is None:
            self._ended.append((mirror, cursor))

    def attached(self, process_id: str, info: NodeView) -> None:
        """Take over what a process is like that is followed now."""
        mirror = self.mirrors.get(process_id)
        if mirror is None or mirror.completion is not None:
            return
        mirror.is_unknown = False
        mirror.learn(info)
        self.tell([mirror])
        self._spawn(put_down_state(mirror))

    def happened(self, event: str, process_id: str | None, info: NodeView | None) -> None:
        """Take over what a process is like."""
        if event == "missed" and self._feed is not None and self._tasks is not None:
            self._tasks.create_task(self._catch_up(self._feed))
        mirror = None if process_id is None else self.mirrors.get(process_id)
        if mirror is None or info is None or mirror.completion is not None:
            if mirror is not None:
                mirror.news.set()
            return
        mirror.learn(info)
        self.tell([mirror])

    async def _hear(self, feed: NodeFeed) -> None:
        while True:
            is_whole = await feed.hear(self)
            self._is_heard = True
            await self._writing.flush()
            ended, self._ended = self._ended, []
            for mirror, cursor in ended:
                self._spawn(self._finish(mirror, cursor))
            if not is_whole:
                await self._catch_up(feed)

    async def _beat(self, feed: NodeFeed) -> None:
        """Notice that the other machine is gone without a word: who tells something is there, and needs no asking."""
        while True:
            await asyncio.sleep(self._beat_s)
            self._is_heard, was_heard = False, self._is_heard
            if was_heard:
                continue
            try:
                await feed.beat(answer_s=self._answer_s)
            except BackendUnavailable as error:
                if error.code != "timeout":
                    raise
                if not self._is_heard:  # an answer may lie behind much output
                    raise BackendUnavailable("server_unavailable", _SILENT) from error

    async def _catch_up(self, feed: NodeFeed) -> None:
        """Follow everything from where its files end."""
        self._feed = None  # who starts something now is among those of this list, or comes after it
        await feed.listen()
        self._feed = feed
        self._opened()
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(mirror: RemoteProcess) -> None:
            async with places:
                await self._resume(mirror, feed)

        async with asyncio.TaskGroup() as tasks:
            for mirror in list(self.mirrors.values()):
                tasks.create_task(one(mirror))
