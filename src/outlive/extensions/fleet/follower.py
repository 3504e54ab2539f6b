"""The processes of one node followed: from its news to folders and doorbells, over any number of connections.

`NodeFollower` listens to one connection after another; `_Connection` is what is done over one of them for
each process. One task reads, others ask. A connection that ends cancels all of them, and the next one begins
where the files end.

`OutputWriter` brings output from the connection to the folders, a bounded batch at a time.
"""

import asyncio
import contextlib
import errno
import functools
import logging
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any

from outlive.client.messages import (
    Attached,
    Begun,
    Ended,
    FollowedMessage,
    OutputMissing,
    OutputPiece,
    read_info,
)
from outlive.client.results import ProcessEvent, ProcessInfo
from outlive.core.cursor import Cursor
from outlive.core.errors import (
    AccessDenied,
    BackendUnavailable,
    OutliveError,
    ProcessNotFound,
    ProtocolViolation,
)
from outlive.core.needs import THOUSANDTHS, Amounts
from outlive.core.process import MAX_TAG_NAME, MAX_TAG_VALUE, MAX_TAGS
from outlive.core.values import dataclass
from outlive.extensions.fleet.link import NodeLink
from outlive.extensions.fleet.node_client import AsyncFeed, NodeClient
from outlive.extensions.fleet.process import RemoteProcess
from outlive.extensions.fleet.processes import NodeProcesses
from outlive.placement.fleet import FleetNode
from outlive.store.process_folder import ProcessFolder

_MOST_OPEN = 16  # processes whose files are kept open: of a thousand that have written, most rest
_MOST_BYTES = (
    2**44
)  # a file of ext4 ends there; a hole up to a place beyond would look like a log of exabytes
_FULL_S = 0.25  # between two attempts to write to a full disk
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes of a stream up to `end`; `data` None: a gap from `start` on."""

    process: RemoteProcess
    stream: int
    start: int
    end: int
    data: bytes | None


class OutputWriter:
    """Collects output on the event loop and writes it in a thread, a bounded batch at a time.

    The next batch is read from the connection when this one is on disk: a disk that is full or slow makes the
    node wait, and nothing piles up in memory.
    """

    def __init__(self, processes: NodeProcesses) -> None:
        self._processes = processes
        self._pieces: list[_Piece] = []
        self._open: OrderedDict[str, ProcessFolder] = (
            OrderedDict()
        )  # the one that was written last at the end

    def add(self, process_id: str, stream: int, *, start: int, end: int, data: bytes | None) -> None:
        """Take a piece of a followed process; those of others are dropped.

        Raises:
            ProtocolViolation: No log is as long.
        """
        if not 0 <= start <= end <= _MOST_BYTES:
            text = f"The node reported output at an impossible place: {start} to {end}."
            raise ProtocolViolation("invalid_request", text)
        process = self._processes.by_id.get(process_id)
        if process is not None:
            self._pieces.append(_Piece(process, stream, start, end, data))

    async def flush(self) -> None:
        """Return when everything taken is in the files, however long the disk is full.

        Raises:
            ProtocolViolation: The node has left bytes out: follow again from the files' end.
        """
        pieces, self._pieces = self._pieces, []
        grown = list({piece.process.process_id: piece.process for piece in pieces}.values())
        while pieces:
            count, error = await self._processes.disk.run(functools.partial(self._write, pieces))
            if isinstance(error, ValueError):
                raise ProtocolViolation("invalid_request", f"The node reported output with holes: {error}.")
            stuck = pieces[count].process if count < len(pieces) else None
            pieces = pieces[count:]
            for process in grown:
                process.is_stalled = process is stuck and error is not None and error.errno in _FULL
            if stuck is not None and not stuck.is_stalled:  # its folder was removed
                _logger.warning("output of a process on a node cannot be kept: %s", stuck.process_id)
                pieces = [piece for piece in pieces if piece.process is not stuck]
            self._processes.publish(*grown)
            if pieces:
                await asyncio.sleep(_FULL_S)

    def _write(self, pieces: Iterable[_Piece]) -> tuple[int, OSError | ValueError | None]:
        """Write in order; return how many were written, and the error of the next one.

        One call at a time, in a thread.
        """
        count = 0
        for piece in pieces:
            files, process_id = piece.process.files, piece.process.process_id
            try:
                if piece.data is None:
                    files.skip(piece.stream, piece.start, piece.end)
                else:
                    files.append(piece.stream, piece.data, piece.end)
            except (OSError, ValueError) as error:
                return count, error
            finally:
                self._open[process_id] = files
                self._open.move_to_end(process_id)
                if len(self._open) > _MOST_OPEN:
                    self._open.popitem(last=False)[1].close()
            count += 1
        return count, None


_logger = logging.getLogger(__name__)
_SILENT = "It says nothing any more"
_AT_ONCE = 16  # processes that are asked about side by side after a reconnect
_LATE_S, _LATEST_S = 0.1, 3.0  # between two looks for what descendants write
_RETRY_S = 0.5
_EVENT_S = 0.5  # between the completion of a process and the event that says how it has ended
_MOST = 1 << 62  # bytes or thousandths: JSON's writer takes 64 bits, and what is free may lie below zero
_GONE = "The node does not know this process any more: it was removed there, or started with another token."

# Asks once more for a start that was never answered.
_Begin = Callable[[RemoteProcess], Awaitable[None]]


class _Connection:
    """One open feed, and what is done for each process while it lasts."""

    def __init__(
        self,
        node: NodeClient,
        feed: AsyncFeed,
        tasks: asyncio.TaskGroup,
        *,
        processes: NodeProcesses,
        begin: _Begin,
    ) -> None:
        self.feed = feed
        self.is_listening = False  # whether events come
        self.node = node
        self._tasks = tasks
        self._processes = processes
        self._begin = begin

    def spawn(self, work: Coroutine[object, object, None]) -> None:
        """Do something for one process in a task; that it is gone on the node ends nothing else."""

        async def carry_out() -> None:
            with contextlib.suppress(ProcessNotFound):
                await work

        task = carry_out()
        try:
            # Cancelled before its first step, it has never begun the work.
            self._tasks.create_task(task).add_done_callback(lambda _: work.close())
        except RuntimeError:
            # The group is shutting down: this connection has just ended, and the next one takes the process
            # up.
            task.close()
            work.close()

    async def resume(self, process: RemoteProcess) -> None:
        """Follow a process from where its files end."""
        if not process.is_acknowledged:
            await self._begin(process)
            if not process.is_acknowledged or self.feed.follows(process.process_id):
                return
        try:
            if process.completion is None:
                await self.feed.attach(process.process_id, process.files.cursor)
            else:
                process.is_unknown = False
                self._processes.publish(process)
                self._follow_late(process)
        except ProcessNotFound:
            process.is_unknown = False
            await _insist(lambda: process.end_here("lost", _GONE))
            self._processes.publish(process)
            self._drop(process)
        except BackendUnavailable:
            raise
        except OutliveError as error:
            _logger.warning(
                "a process on a node cannot be followed: %s: %s", process.process_id, error.message
            )

    async def finish(self, process: RemoteProcess, end: Cursor) -> None:
        """Record an end; the process is followed on while something of it lives."""
        if process.completion is not None:
            return
        if process.files.cursor.stdout < end.stdout or process.files.cursor.stderr < end.stderr:
            if not await self._processes.disk.run(lambda: os.path.isdir(process.folder)):
                self._drop(process)  # its folder was removed: there is no place for what comes
                return
            raise BackendUnavailable("server_lost", f"The node ended {process.process_id} before its output.")
        await self._learn_end(process)
        await _insist(lambda: process.record_end(end))
        if process.completion is None:
            self._drop(process)  # as above
            return
        self._processes.publish(process)
        if process.is_finished:
            self._drop(process)
        else:
            self._follow_late(process)

    async def _learn_end(self, process: RemoteProcess) -> None:
        """Return once it is known how a process has ended, whose completion was received."""
        # The event follows over the same connection, unless it was left out for others.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_EVENT_S):
                while not process.is_known_complete:
                    process.news.clear()
                    await process.news.wait()
        if not process.is_known_complete:
            process.learn(await self.node.get(process.process_id))

    def _drop(self, process: RemoteProcess) -> None:
        self.feed.leave(process.process_id)
        self._processes.drop(process)

    def _follow_late(self, process: RemoteProcess) -> None:
        if not process.is_followed_late:
            process.is_followed_late = True
            self.spawn(self._late(process))

    async def _late(self, process: RemoteProcess) -> None:
        """Follow what descendants do after the end, until nothing is left of them, or the node knows nothing
        of it any more.
        """
        try:
            await self._look_late(process)
        except ProcessNotFound:
            # It was removed there. What is here stays, and nothing is to come.
            process.is_closed, process.descendants = True, 0
            await _insist(lambda: self._processes.disk.run(process.files.write_closed))
            self._processes.publish(process)
        self._drop(process)

    async def _look_late(self, process: RemoteProcess) -> None:
        pause_s = _LATE_S
        while not process.is_finished:
            view = await self.node.get(process.process_id)
            was_closed, before = process.is_closed, -1
            # Pages until one brings nothing: then everything written before `view` is here.
            while before != sum(process.files.sizes):
                if before != -1:
                    pause_s = _LATE_S
                before = sum(process.files.sizes)
                await _insist(lambda: self._fetch(process))
            process.learn(view)
            if process.is_closed and not was_closed:
                await _insist(lambda: self._processes.disk.run(process.files.write_closed))
            self._processes.publish(process)
            if process.is_finished:
                return
            process.news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await process.news.wait()
            pause_s = min(pause_s * 2, _LATEST_S)

    async def _fetch(self, process: RemoteProcess) -> None:
        """Fetch a page of what descendants have written behind the completion.

        Raises:
            OutliveError: The node does not answer.
            OSError: The disk does not take it now.
        """
        files = process.files
        try:
            page = await self.node.read(process.process_id, files.cursor, raw=self.feed.is_raw)
        except AccessDenied:
            if not self.feed.is_raw:
                raise
            # The node shows secrets to no token like ours, and nothing was attached over this connection to
            # find that out.
            self.feed.is_raw = False
            page = await self.node.read(process.process_id, files.cursor, raw=False)

        def write() -> None:
            for item in page.items:
                stream = int(item.stream == "stderr")
                end = item.cursor.stderr if stream else item.cursor.stdout
                data = getattr(item, "data", None)
                if data is None:
                    files.skip(stream, files.sizes[stream], end)
                else:
                    files.append(stream, data, end)

        await self._processes.disk.run(write)


class NodeFollower:
    """Follows the processes of one node."""

    def __init__(self, link: NodeLink, processes: NodeProcesses, *, begin: _Begin) -> None:
        """Follow nothing yet.

        Args:
            link: Knows how the node is reached, and is notified that the node is there.
            processes: The followed processes.
            begin: Asks once more for the start of a process whose start was never answered.
        """
        self._link = link
        self._processes = processes
        self._begin = begin
        self._is_heard = False  # anything since the last look
        self._connection: _Connection | None = None
        self._writer = OutputWriter(processes)
        self._ended: list[tuple[RemoteProcess, Cursor]] = []

    async def follow(self, feed: AsyncFeed) -> None:
        """Follow everything over a new connection until it ends.

        Raises:
            OutliveError, ExceptionGroup: It has ended, and why.
        """
        node = self._link.connection
        if node is None:
            raise AssertionError("only a connection brings news")
        try:
            async with asyncio.TaskGroup() as tasks:
                here = _Connection(node, feed, tasks, processes=self._processes, begin=self._begin)
                self._connection = here
                tasks.create_task(self._catch_up(here))
                tasks.create_task(self._hear(here))
                tasks.create_task(self._beat(feed))
        finally:
            self._connection = None
            for process in self._processes.by_id.values():
                process.is_unknown, process.is_followed_late = True, False
            self._processes.publish(*self._processes.by_id.values())

    def attach(self, process: RemoteProcess) -> None:
        """Follow a process that has just been started, unless its start has seen to that.

        Without a connection the next one does it.
        """
        here = self._connection
        if here is not None and here.is_listening and not here.feed.follows(process.process_id):
            here.spawn(here.resume(process))

    def _take(self, message: FollowedMessage) -> None:
        match message:
            case OutputPiece(process_id, stream, data, end):
                start = end - len(data)
                self._writer.add(process_id, int(stream == "stderr"), start=start, end=end, data=data)
            case OutputMissing(process_id, stream, start, end):
                self._writer.add(process_id, int(stream == "stderr"), start=start, end=end, data=None)
            case Ended(process_id, completion):
                process = self._processes.by_id.get(process_id)
                if process is not None and process.completion is None:
                    # It counts when everything before it is on disk.
                    self._ended.append((process, completion.cursor))
            case Begun(process_id, pid):
                process = self._processes.by_id.get(process_id)  # it may have waited on the node
                if process is not None and process.run(pid or 0) and self._connection is not None:
                    self._processes.publish(process)
                    self._connection.spawn(process.record_state())
            case Attached(process_id, view):
                self._attached(process_id, read_info(view))
            case ProcessEvent():
                self._happened(message.event, message.process_id, message.info)

    def _attached(self, process_id: str, info: ProcessInfo) -> None:
        """Take over the state of a process that is followed from now on."""
        process = self._processes.by_id.get(process_id)
        if process is None or process.completion is not None or self._connection is None:
            return
        process.is_unknown = False
        process.learn(info)
        self._processes.publish(process)
        self._connection.spawn(process.record_state())

    def _happened(self, event: str, process_id: str | None, info: ProcessInfo | None) -> None:
        """Take over the state of a process; after missed events ask for that of all."""
        here = self._connection
        if event == "missed" and here is not None and here.is_listening:
            here.spawn(self._catch_up(here))
        process = None if process_id is None else self._processes.by_id.get(process_id)
        if process is None:
            return
        if info is None or process.completion is not None:
            process.news.set()
            return
        process.learn(info)
        self._processes.publish(process)

    async def _hear(self, here: _Connection) -> None:
        while True:
            messages = await here.feed.hear()
            self._is_heard = True
            for message in messages:
                if message is not None:
                    self._take(message)
            await self._writer.flush()
            ended, self._ended = self._ended, []
            for process, cursor in ended:
                here.spawn(here.finish(process, cursor))
            if messages[-1] is None:
                await self._catch_up(here)

    async def _beat(self, feed: AsyncFeed) -> None:
        """Notice that the other machine is gone without a word: a node that reports something needs no
        question.
        """
        pauses = self._link.pauses
        while True:
            await asyncio.sleep(pauses.beat_s)
            self._is_heard, was_heard = False, self._is_heard
            if was_heard:
                continue
            try:
                await feed.beat(answer_s=pauses.answer_s)
            except BackendUnavailable as error:
                if error.code != "timeout":
                    raise
                if not self._is_heard:  # an answer may lie behind much output
                    raise BackendUnavailable("server_unavailable", _SILENT) from error

    async def _catch_up(self, here: _Connection) -> None:
        """Follow everything from where its files end."""
        # A process that is started meanwhile is in the table below already, or is attached by its start
        # afterwards.
        here.is_listening = False
        await here.feed.listen()
        here.is_listening = True
        self._link.described = _described(self._link.name, await here.feed.describe())
        self._link.opened(here.feed)
        here.spawn(here.node.open())
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(process: RemoteProcess) -> None:
            async with places:
                await here.resume(process)

        async with asyncio.TaskGroup() as tasks:
            for process in list(self._processes.by_id.values()):
                tasks.create_task(one(process))


def _described(name: str, members: Mapping[str, Any]) -> FleetNode:
    """Return a node as it describes its own machine, within bounds."""
    capacity = members["capacity"]
    amounts = Amounts(
        cpu_milli=_amount(capacity.get("cpu", 0), THOUSANDTHS),
        memory_bytes=_amount(capacity.get("memory", 0)),
        gpu_milli=_amount(capacity.get("gpu", 0), THOUSANDTHS),
    )
    # What does not fit is left out: a node of many labels is of use with some of them.
    fitting = ((str(label), str(value)) for label, value in members["labels"].items())
    labels = [one for one in fitting if _fits(*one)]
    return FleetNode(
        name=name,
        capacity=amounts,
        labels=frozenset(labels[:MAX_TAGS]),
        is_open=not members["draining"],
    )


def _fits(label: str, value: str) -> bool:
    try:
        f"{label}{value}".encode()
    except UnicodeEncodeError:  # half a surrogate pair: no answer could hold it
        return False
    return 1 <= len(label) <= MAX_TAG_NAME and len(value) <= MAX_TAG_VALUE


def _amount(said: float, unit: int = 1) -> int:
    """Return so much in its smallest unit: not less than nothing, and no more than answers can hold (NaN is
    nothing).
    """
    return round(max(0, min(said, _MOST // unit)) * unit)


async def _insist(write: Callable[[], Awaitable[None]]) -> None:
    """Write something, however long the disk is full."""
    while True:
        try:
            await write()
        except FileNotFoundError:
            return  # the folder was removed: there is no place for it
        except OSError:
            await asyncio.sleep(_RETRY_S)
        else:
            return
