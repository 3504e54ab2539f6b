"""The verbs on a node's processes, passed on to it: one half of `RemoteBackend`."""

import asyncio
import contextlib
import functools
from collections.abc import Callable
from typing import assert_never

from outlive.backends.contract import (
    CloseInput,
    CloseOutput,
    Operation,
    Pause,
    ReleaseOutput,
    ResizeWindow,
    Resume,
    SignalProcess,
    Stop,
    Unbind,
)
from outlive.backends.remote.contract import NodeConnection
from outlive.backends.remote.folder import write_stop
from outlive.backends.remote.node_queries import NodeLooking
from outlive.backends.remote.process_follower import put_down_state
from outlive.core.cursor import Cursor
from outlive.core.errors import LimitExceeded
from outlive.core.identity import ProcessId
from outlive.protocols.keeper import CauseCode

_PIECE_BYTES = 256 * 1024  # of an input in one request: on a slow line another request waits for no more
_NEWS_S = 5.0  # how long the feed may take to tell of what was acknowledged


class NodeVerbs(NodeLooking):
    """Every verb raises BackendUnavailable where the node does not answer.

    `node_unavailable`: it is away, and nothing of it was done; `server_lost`: it went away before it answered.
    """

    async def control(
        self,
        process_id: ProcessId,
        operation: Operation,
        *,
        acknowledged: Callable[[], None] | None = None,
    ) -> None:
        """Have the node carry out an operation."""
        match operation:
            case Pause():
                await self._pause(process_id, is_paused=True, acknowledged=acknowledged)
            case Resume():
                await self._pause(process_id, is_paused=False, acknowledged=acknowledged)
            case Stop():
                await self._stop(process_id, operation)
            case SignalProcess(number=number, whole_tree=whole_tree, whole_group=whole_group):
                await self._ask(
                    "signal",
                    process_id,
                    is_repeatable=False,
                    signal=number,
                    whole_tree=whole_tree,
                    whole_group=whole_group,
                )
            case CloseInput():
                await self._ask("close_stdin", process_id)
            case CloseOutput(stream=stream):
                await self._ask("close_output", process_id, type="stderr" if stream else "stdout")
            case ResizeWindow(rows=rows, cols=cols):
                await self._ask("resize", process_id, rows=rows, cols=cols)
                if (mirror := self._mirror(process_id)) is not None:
                    mirror.size = (rows, cols)
            case ReleaseOutput(stdout_bytes=stdout_bytes, stderr_bytes=stderr_bytes):
                await self._release(process_id, Cursor(stdout_bytes, stderr_bytes))
            case Unbind():  # beyond its own limit: the node has one
                await self._ask("release", process_id, unbound=True)
            case _:
                assert_never(operation)

    async def write(self, process_id: ProcessId, data: bytes | memoryview) -> None:
        """Write to the input; never repeated. As many bytes at once as the node takes, as they are where it takes that."""
        view = memoryview(data)
        while view:
            try:
                view = view[await self._over(functools.partial(_write, process_id, view[:_PIECE_BYTES])) :]
            except LimitExceeded as error:
                before, written = len(data) - len(view), error.details.get("written_bytes", 0)
                details = {
                    **error.details,
                    "written_bytes": before + (written if isinstance(written, int) else 0),
                }
                raise LimitExceeded(error.code, error.message, hint=error.hint, details=details) from error

    async def _stop(self, process_id: ProcessId, stop: Stop) -> None:
        """End the whole tree there; the node counts the grace period."""
        mirror = self._mirror(process_id)
        if mirror is not None and not self._link.is_away:
            code = int(CauseCode[stop.cause.name])
            mirror.ask_end(code, stop.note)
            with contextlib.suppress(OSError):
                await asyncio.to_thread(write_stop, mirror.folder, code, stop.note)
        await self._ask("control", process_id, type="CANCEL", grace=stop.grace_s)

    async def _release(self, process_id: ProcessId, cursor: Cursor) -> None:
        """Let go of output there and here."""
        mirror = self._mirror(process_id)
        if mirror is None or mirror.spec.on_limit != "block":
            return
        await self._ask("release", process_id, cursor=str(cursor))
        await asyncio.to_thread(mirror.files.release, cursor)
        self._following.tell([mirror])

    async def _pause(
        self, process_id: ProcessId, *, is_paused: bool, acknowledged: Callable[[], None] | None
    ) -> None:
        """Pause or resume; acknowledged is what the feed has reported by then."""
        mirror = self._mirror(process_id)
        since = 0 if mirror is None else mirror.times_heard(is_paused=is_paused)
        await self._ask("control", process_id, type="PAUSE" if is_paused else "RESUME")
        if mirror is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_NEWS_S):
                    await mirror.hear_of(is_paused=is_paused, since=since)
            if mirror.is_paused != is_paused:
                return  # it has changed again since, or its feed is late: what it tells then counts
            await put_down_state(mirror)
        if acknowledged is not None:
            acknowledged()


async def _write(process_id: ProcessId, data: memoryview, node: NodeConnection) -> int:
    return await node.write(process_id, data)
