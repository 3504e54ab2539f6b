"""Following the processes of one node: from its news to folders and doorbells, over any number of connections.

One task hears, others ask; a connection that ends takes all of them along, and the next one begins where the files end.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable

from outlive.backends.contract import Bell
from outlive.backends.remote.contract import NodeConnection, NodeFeed, NodeView
from outlive.backends.remote.ending import end_here, put_down_closed, put_down_end, read_late
from outlive.backends.remote.mirror import Mirror
from outlive.backends.remote.writing import Writing
from outlive.core.cursor import Cursor
from outlive.core.errors import BackendUnavailable, OutliveError, ProcessNotFound

__all__ = ["Following"]

_logger = logging.getLogger(__name__)
_AT_ONCE = 16  # processes that are asked about side by side after a reconnect
_LATE_S, _LATEST_S = 0.1, 3.0  # between two looks for what descendants write
_RETRY_S = 0.5
_GONE = "The node does not know this process any more: it was removed there, or started with another token."


class Following:
    """The `NodeListener` of one node, and who owns its mirrors.

    Attributes:
        mirrors: The followed processes by id; who starts one enters it.
    """

    def __init__(
        self,
        connection: NodeConnection | None,
        *,
        begin: Callable[[Mirror], Awaitable[None]],
        finished: Callable[[Mirror], Awaitable[None]],
        ring: Callable[[Iterable[Bell]], None],
        opened: Callable[[], None],
        beat_s: float,
    ) -> None:
        """Follow nothing yet.

        Args:
            connection: The node; None where no setting names it, and nothing is ever followed.
            begin: Asks once more for the start of a mirror whose start was never answered.
            finished: Awaited for a process that needs no following any more.
            ring: The engine's doorbells.
            opened: Called when the node is there.
            beat_s: How often it is asked whether it still is, and how long it may take for the answer.
        """
        self.mirrors: dict[str, Mirror] = {}
        self._connection = connection
        self._begin = begin
        self._finished = finished
        self._ring = ring
        self._opened = opened
        self._beat_s = beat_s
        self._feed: NodeFeed | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._writing = Writing(self.mirrors, ring=self.tell)
        self._ended: list[tuple[Mirror, Cursor]] = []

    def tell(self, mirrors: Iterable[Mirror]) -> None:
        """Ring the doorbells of processes."""
        self._ring([mirror.bell() for mirror in mirrors])

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

    def attach(self, mirror: Mirror) -> None:
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
            await self._writing.flush()
            ended, self._ended = self._ended, []
            for mirror, cursor in ended:
                self._spawn(self._finish(mirror, cursor))
            if not is_whole:
                await self._catch_up(feed)

    async def _beat(self, feed: NodeFeed) -> None:
        """Notice that the other machine is gone without a word."""
        while True:
            await asyncio.sleep(self._beat_s)
            await feed.beat(answer_s=self._beat_s)

    async def _catch_up(self, feed: NodeFeed) -> None:
        """Follow everything from where its files end."""
        self._feed = None  # who starts something now is among those of this list, or comes after it
        await feed.listen()
        self._feed = feed
        self._opened()
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(mirror: Mirror) -> None:
            async with places:
                await self._resume(mirror, feed)

        async with asyncio.TaskGroup() as tasks:
            for mirror in list(self.mirrors.values()):
                tasks.create_task(one(mirror))

    async def _resume(self, mirror: Mirror, feed: NodeFeed) -> None:
        if not mirror.is_acknowledged:
            await self._begin(mirror)
            if not mirror.is_acknowledged:
                return
        try:
            if mirror.completion is None:
                mirror.learn(await feed.attach(mirror.process_id, mirror.files.cursor))
            else:
                self._follow_late(mirror)
        except ProcessNotFound:
            await self._lose(mirror, "lost", _GONE)
            return
        except OutliveError as error:
            if isinstance(error, BackendUnavailable):
                raise
            _logger.warning(
                "a process on a node cannot be followed: %s: %s", mirror.process_id, error.message
            )
            return
        mirror.is_unknown = False
        self.tell([mirror])
        with contextlib.suppress(OSError):
            await asyncio.to_thread(mirror.files.write_paused, is_paused=mirror.is_paused)

    async def _lose(self, mirror: Mirror, kind: str, note: str) -> None:
        """End a process of which the node knows nothing."""
        mirror.is_unknown = False
        await _insist(lambda: end_here(mirror, kind, note))
        self.tell([mirror])
        await self._drop(mirror)

    async def _finish(self, mirror: Mirror, end: Cursor) -> None:
        """Put down an end; the process is followed on while something of it lives."""
        if mirror.completion is not None:
            return
        if mirror.files.cursor.stdout < end.stdout or mirror.files.cursor.stderr < end.stderr:
            raise BackendUnavailable("server_lost", f"The node ended {mirror.process_id} before its output.")
        if not mirror.is_known_complete:
            mirror.learn(await self._node.get(mirror.process_id))
        await _insist(lambda: put_down_end(mirror, end))
        self.tell([mirror])
        if mirror.is_finished:
            await self._drop(mirror)
        else:
            self._follow_late(mirror)

    def _follow_late(self, mirror: Mirror) -> None:
        if not mirror.is_followed_late:
            mirror.is_followed_late = True
            self._spawn(self._late(mirror))

    async def _late(self, mirror: Mirror) -> None:
        """Follow what descendants do after the end, until nothing is left of them."""
        pause_s = _LATE_S
        while not mirror.is_finished:
            view = await self._node.get(mirror.process_id)
            raw = self._feed is not None and self._feed.is_raw
            was_closed, count = mirror.is_closed, -1
            while count:
                count = await self._fetch(mirror, raw=raw)
                pause_s = _LATE_S if count else pause_s
            mirror.learn(view)
            if mirror.is_closed and not was_closed:
                await _insist(lambda: put_down_closed(mirror))
            self.tell([mirror])
            if mirror.is_finished:
                break
            mirror.news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await mirror.news.wait()
            pause_s = min(pause_s * 2, _LATEST_S)
        await self._drop(mirror)

    async def _fetch(self, mirror: Mirror, *, raw: bool) -> int:
        count = 0

        async def fetch() -> None:
            nonlocal count
            count = await read_late(self._node, mirror, raw=raw)

        await _insist(fetch)
        return count

    @property
    def _node(self) -> NodeConnection:
        if self._connection is None:
            raise AssertionError("only a connection tells anything")
        return self._connection

    async def _drop(self, mirror: Mirror) -> None:
        self.mirrors.pop(mirror.process_id, None)
        await self._finished(mirror)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        if self._tasks is None:
            work.close()
        else:
            self._tasks.create_task(self._following(work))

    async def _following(self, work: Coroutine[object, object, None]) -> None:
        """Carry out what concerns one process: that it is gone there ends nothing else."""
        with contextlib.suppress(ProcessNotFound):
            await work


async def _insist(write: Callable[[], Awaitable[None]]) -> None:
    """Put something down, however long the disk is full."""
    while True:
        try:
            await write()
        except FileNotFoundError:
            return  # the folder was removed: there is no place for it
        except OSError:
            await asyncio.sleep(_RETRY_S)
        else:
            return
