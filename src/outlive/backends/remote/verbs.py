"""The verbs on a node's processes, passed on to it: one half of `RemoteBackend`."""

import asyncio
import contextlib
import functools
from collections.abc import Callable

from outlive.backends.remote.contract import NodeConnection
from outlive.backends.remote.folder import write_stop
from outlive.backends.remote.node_queries import NodeLooking
from outlive.backends.remote.process_follower import put_down_state
from outlive.core.cursor import Cursor
from outlive.core.errors import LimitExceeded
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import Cause
from outlive.protocols.keeper import CauseCode

_PIECE_BYTES = 256 * 1024  # of an input in one request: on a slow line another request waits for no more
_NEWS_S = 5.0  # how long the feed may take to tell of what was acknowledged


class NodeVerbs(NodeLooking):
    """Every verb raises BackendUnavailable where the node does not answer.

    `node_unavailable`: it is away, and nothing of it was done; `server_lost`: it went away before it answered.
    """

    async def pause(self, process_id: ProcessId, *, acknowledged: Callable[[], None]) -> None:
        """Stop the whole tree there."""
        await self._control(process_id, "PAUSE", is_paused=True, acknowledged=acknowledged)

    async def resume(self, process_id: ProcessId, *, acknowledged: Callable[[], None]) -> None:
        """Continue the whole tree there."""
        await self._control(process_id, "RESUME", is_paused=False, acknowledged=acknowledged)

    async def stop(self, process_id: ProcessId, *, cause: Cause, grace_s: float, note: str) -> None:
        """End the whole tree there: TERM now, KILL after the grace period, which the node counts."""
        mirror = self._mirror(process_id)
        if mirror is not None and not self._link.is_away:
            code = int(CauseCode[cause.name])
            mirror.ask_end(code, note)
            with contextlib.suppress(OSError):
                await asyncio.to_thread(write_stop, mirror.folder, code, note)
        await self._ask("control", process_id, type="CANCEL", grace=grace_s)

    async def signal(
        self, process_id: ProcessId, number: int, *, whole_tree: bool, whole_group: bool = False
    ) -> None:
        """Send a signal; never repeated."""
        await self._ask(
            "signal",
            process_id,
            is_repeatable=False,
            signal=number,
            whole_tree=whole_tree,
            whole_group=whole_group,
        )

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

    async def close_stdin(self, process_id: ProcessId) -> None:
        """Close the input."""
        await self._ask("close_stdin", process_id)

    async def resize(self, process_id: ProcessId, *, rows: int, cols: int) -> None:
        """Set the terminal's window size."""
        await self._ask("resize", process_id, rows=rows, cols=cols)
        mirror = self._mirror(process_id)
        if mirror is not None:
            mirror.size = (rows, cols)

    async def release(self, process_id: ProcessId, *, stdout_bytes: int, stderr_bytes: int) -> None:
        """Let go of output before these offsets, there and here."""
        cursor = Cursor(stdout_bytes, stderr_bytes)
        mirror = self._mirror(process_id)
        if mirror is None or mirror.spec.on_limit != "block":
            return
        await self._ask("release", process_id, cursor=str(cursor))
        await asyncio.to_thread(mirror.files.release, cursor)
        self._following.tell([mirror])

    async def unbound(self, process_id: ProcessId, *, output_limit: int | None) -> None:  # noqa: ARG002 - the node has its own
        """Let it wait for no reader any more; the node's own limit holds from then on."""
        await self._ask("release", process_id, unbound=True)

    async def close_output(self, process_id: ProcessId, stream: int) -> None:
        """Close the reading end of a pipe there."""
        await self._ask("close_output", process_id, type="stderr" if stream else "stdout")

    async def _control(
        self, process_id: ProcessId, verb: str, *, is_paused: bool, acknowledged: Callable[[], None]
    ) -> None:
        mirror = self._mirror(process_id)
        since = 0 if mirror is None else mirror.times_heard(is_paused=is_paused)
        await self._ask("control", process_id, type=verb)
        if mirror is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_NEWS_S):
                    await mirror.hear_of(is_paused=is_paused, since=since)
            if mirror.is_paused != is_paused:
                return  # it has changed again since, or its feed is late: what it tells then counts
            await put_down_state(mirror)
        acknowledged()


async def _write(process_id: ProcessId, data: memoryview, node: NodeConnection) -> int:
    return await node.write(process_id, data)
