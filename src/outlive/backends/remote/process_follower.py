"""What is done for one process of a node while there is a connection: attach, note its end, follow what it leaves behind.

One half of `Following`, which owns the connection and the mirrors.

What is put down here of a node's process: that it runs, how it has ended, and what came behind its end.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable

from outlive.backends.contract import Bell
from outlive.backends.remote.contract import NodeConnection, NodeFeed
from outlive.backends.remote.mirror import RemoteProcess
from outlive.core.cursor import Cursor
from outlive.core.errors import BackendUnavailable, OutliveError, ProcessNotFound


async def put_down_end(mirror: RemoteProcess, end: Cursor) -> None:
    """Put down how a process has ended, and that its output is whole up to `end`; the mirror knows both then.

    Raises:
        OSError: The disk does not take it now.
    """
    kind, number, ended_ns = mirror.end

    def write() -> None:
        mirror.files.write_end(kind, number, ended_ns)
        mirror.files.write_done(
            end,
            cause=mirror.cause,
            note=mirror.note,
            descendants=mirror.descendants,
            is_closed=mirror.is_closed,
        )

    await asyncio.to_thread(write)
    mirror.complete(end)


async def put_down_state(mirror: RemoteProcess) -> None:
    """Put down that a process was started, and whether it is paused; what a full disk does not take is put down later."""
    if not mirror.is_put_down:
        with contextlib.suppress(OSError):
            await asyncio.to_thread(mirror.put_down)


async def put_down_closed(mirror: RemoteProcess) -> None:
    """Put down that the streams of a process have ended after its completion."""
    await asyncio.to_thread(mirror.files.write_closed)


async def end_here(mirror: RemoteProcess, kind: str, note: str) -> None:
    """End a process of which the node knows nothing: it "failed" to start there, or is "lost"."""
    mirror.end_without_node(kind, note)
    await put_down_end(mirror, mirror.files.cursor)


async def read_late(connection: NodeConnection, mirror: RemoteProcess, *, raw: bool) -> int:
    """Fetch what descendants have written behind the completion; return how many bytes.

    Raises:
        OutliveError: The node does not answer.
        OSError: The disk does not take it now.
    """
    before = sum(mirror.files.sizes)
    page = await connection.read(mirror.process_id, mirror.files.cursor, raw=raw)

    def write() -> None:
        for item in page.items:
            stream = int(item.stream == "stderr")
            end = item.cursor.stderr if stream else item.cursor.stdout
            data = getattr(item, "data", None)
            if data is None:
                mirror.files.skip(stream, mirror.files.sizes[stream], end)
            else:
                mirror.files.append(stream, data, end)

    await asyncio.to_thread(write)
    return sum(mirror.files.sizes) - before


_logger = logging.getLogger(__name__)
_LATE_S, _LATEST_S = 0.1, 3.0  # between two looks for what descendants write
_RETRY_S = 0.5
_GONE = "The node does not know this process any more: it was removed there, or started with another token."


class Pursuing:
    """One half of `Following`."""

    mirrors: dict[str, RemoteProcess]
    _connection: NodeConnection | None
    _begin: Callable[[RemoteProcess], Awaitable[None]]
    _finished: Callable[[RemoteProcess], Awaitable[None]]
    _ring: Callable[[Iterable[Bell]], None]
    _feed: NodeFeed | None
    _tasks: asyncio.TaskGroup | None

    def tell(self, mirrors: Iterable[RemoteProcess]) -> None:
        """Ring the doorbells of processes."""
        self._ring([mirror.bell() for mirror in mirrors])

    async def _resume(self, mirror: RemoteProcess, feed: NodeFeed) -> None:
        if not mirror.is_acknowledged:
            await self._begin(mirror)
            if not mirror.is_acknowledged:
                return
        try:
            if mirror.completion is None:
                await feed.attach(mirror.process_id, mirror.files.cursor)
            else:
                mirror.is_unknown = False
                self.tell([mirror])
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

    async def _lose(self, mirror: RemoteProcess, kind: str, note: str) -> None:
        """End a process of which the node knows nothing."""
        mirror.is_unknown = False
        await _insist(lambda: end_here(mirror, kind, note))
        self.tell([mirror])
        await self._drop(mirror)

    async def _finish(self, mirror: RemoteProcess, end: Cursor) -> None:
        """Put down an end; the process is followed on while something of it lives."""
        if mirror.completion is not None:
            return
        if not await asyncio.to_thread(os.path.isdir, mirror.folder):
            await self._drop(mirror)  # somebody has removed it: there is no place for what comes
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

    def _follow_late(self, mirror: RemoteProcess) -> None:
        if not mirror.is_followed_late:
            mirror.is_followed_late = True
            self._spawn(self._late(mirror))

    async def _late(self, mirror: RemoteProcess) -> None:
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

    async def _fetch(self, mirror: RemoteProcess, *, raw: bool) -> int:
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

    async def _drop(self, mirror: RemoteProcess) -> None:
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
