"""What a node is asked: `NodeRequests` sends a request, `NodeControls` passes on what is done to a process.

Starts belong to `starts`, what the node reports by itself to `follower`.
"""

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable
from typing import TypeVar

from outlive.core.controls import Operation, Pause, ReleaseOutput, ResizeWindow, Resume, SignalProcess, Stop
from outlive.core.cursor import Cursor
from outlive.core.errors import (
    AccessDenied,
    BackendUnavailable,
    InvalidState,
    LimitExceeded,
    ProcessNotFound,
)
from outlive.core.identity import ProcessId
from outlive.extensions.fleet.link import NodeLink
from outlive.extensions.fleet.node_client import NodeClient
from outlive.extensions.fleet.process import RemoteProcess
from outlive.extensions.fleet.processes import NodeProcesses
from outlive.protocols.keeper import CauseCode
from outlive.store.process_folder import write_stop

_T = TypeVar("_T")
_AWAY = frozenset({"server_unavailable", "connection_limit"})
_PIECE_BYTES = 256 * 1024  # of an input in one request: on a slow line another request waits for no more
_NEWS_S = 5.0  # how long the feed may take to report what was acknowledged


class NodeRequests:
    """Asks one node; everything raises BackendUnavailable where it does not answer.

    `node_unavailable`: it is away, and nothing was asked; `server_lost`: it went away before it answered.
    """

    def __init__(self, link: NodeLink) -> None:
        self.link = link

    @property
    def node(self) -> NodeClient:
        """The node, while it is there.

        Raises:
            BackendUnavailable: `node_unavailable`.
        """
        node = self.link.connection
        if node is None or self.link.is_away:
            raise self.link.unavailable()
        return node

    async def over(self, ask: Callable[[NodeClient], Awaitable[_T]]) -> _T:
        """Return what the node answers; its refusals in the words of this server."""
        try:
            return await self.plainly(ask)
        except ProcessNotFound as error:
            text = "The node does not know this process (yet, or any more)."
            raise InvalidState("process_ended", text) from error
        except AccessDenied as error:
            raise BackendUnavailable(
                "node_unavailable",
                f"The node {self.link.name!r} does not allow this: {error.message}",
                hint=error.hint,
            ) from error

    async def plainly(self, ask: Callable[[NodeClient], Awaitable[_T]]) -> _T:
        """Return what the node answers; its refusals in its own words, where they are about something that
        the caller has named.
        """
        node = self.node
        try:
            async with self.link.asking():
                return await ask(node)
        except BackendUnavailable as error:
            if error.code not in _AWAY:
                raise
            raise self.link.unavailable() from error

    async def write(self, process_id: ProcessId, data: bytes | memoryview) -> None:
        """Write to an input; never repeated.

        As many bytes at once as the node takes, as they are where it takes that.
        """
        view = memoryview(data)
        while view:
            try:
                view = view[await self.over(functools.partial(_write, process_id, view[:_PIECE_BYTES])) :]
            except LimitExceeded as error:
                before, written = len(data) - len(view), error.details.get("written_bytes", 0)
                details = {
                    **error.details,
                    "written_bytes": before + (written if isinstance(written, int) else 0),
                }
                raise LimitExceeded(error.code, error.message, hint=error.hint, details=details) from error


async def _write(process_id: ProcessId, data: memoryview, node: NodeClient) -> int:
    return await node.write(process_id, data)


class NodeControls:
    """Passes each operation on as one request, and takes over here what the node does not report."""

    def __init__(self, requests: NodeRequests, processes: NodeProcesses) -> None:
        """Ask through `requests` about `processes`."""
        self._requests = requests
        self._processes = processes

    async def control(
        self, process_id: ProcessId, operation: Operation, *, acknowledged: Callable[[], None] | None
    ) -> None:
        """Have the node carry out an operation (see `Backend.control`)."""
        process = self._processes.by_id.get(process_id)
        if isinstance(operation, ReleaseOutput) and (process is None or process.spec.on_limit != "block"):
            return  # nothing waits for it
        if isinstance(operation, Stop) and process is not None and not self._requests.link.is_away:
            # Before the request: the end may be reported before the answer, and says why it came.
            await _record_stop(process, operation)
        heard = process.times_heard() if process is not None else (0, 0)
        params = {"process_id": process_id, **operation.params()}
        is_repeatable = not isinstance(operation, SignalProcess)
        await self._requests.over(
            lambda node: node.request(operation.method, params, is_repeatable=is_repeatable)
        )
        match operation:
            case Pause() | Resume():
                is_paused = isinstance(operation, Pause)
                if process is not None and not await _hear_of(process, is_paused=is_paused, heard=heard):
                    return
                if acknowledged is not None:
                    acknowledged()
            case ResizeWindow(rows=rows, cols=cols) if process is not None:
                process.size = (rows, cols)
            case ReleaseOutput(stdout_bytes=stdout_bytes, stderr_bytes=stderr_bytes) if process is not None:
                await asyncio.to_thread(process.files.release, Cursor(stdout_bytes, stderr_bytes))
                self._processes.publish(process)


async def _record_stop(process: RemoteProcess, stop: Stop) -> None:
    code = int(CauseCode[stop.cause.name])
    process.ask_end(code, stop.note)
    with contextlib.suppress(OSError):
        await asyncio.to_thread(write_stop, process.folder, code, stop.note)


async def _hear_of(process: RemoteProcess, *, is_paused: bool, heard: tuple[int, int]) -> bool:
    """Wait until the feed has reported a pause or resume, which was acknowledged; False: another state has
    followed.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_NEWS_S):
            await process.hear_of(is_paused=is_paused, since=heard[is_paused])
    if process.is_paused != is_paused:
        return False  # it has changed again since, or its feed is late: what that reports then counts
    await process.record_state()
    return True
