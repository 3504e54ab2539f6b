"""The verbs on a process on behalf of a caller: what was asked, by whom, and whether it was done, is announced.

The doors call the engine through this where a caller asks for something; what the server does by itself it does
directly. What is decided here is one thing, for every verb: a caller that lives in a process of ours acts on no process
with a weaker profile (`check_reach`). The doors have decided before whose processes a caller sees.
"""

import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping

from outlive.core.errors import AccessDenied, CommandRefused, OutliveError
from outlive.core.events import AuditEvent
from outlive.core.process import Owner
from outlive.engine.inside import check_reach, check_request
from outlive.engine.process import Process
from outlive.engine.queries import Queries
from outlive.engine.records import Records


class AuditedControls:
    """The verbs of `Engine` that change something, for one caller; each does what its namesake there does.

    Each raises CommandRefused (`profile_too_weak`) where `check` does.
    """

    __slots__ = ("_announce", "_by", "_engine", "_queries")

    def __init__(
        self, engine: Records, queries: Queries, by: Owner, *, announce: Callable[[AuditEvent], None]
    ) -> None:
        """Act for `by`; `queries` knows the process in which it may live."""
        self._engine = engine
        self._queries = queries
        self._by = by
        self._announce = announce

    async def pause(self, process: Process) -> None:
        """Stop the whole tree until `resume`."""
        async with self._telling("pause", process):
            await self._engine.pause(process)

    async def resume(self, process: Process) -> None:
        """Continue the whole tree."""
        async with self._telling("resume", process):
            await self._engine.resume(process)

    async def cancel(self, process: Process, *, grace_s: float | None = None, note: str = "") -> None:
        """End the whole tree: TERM now, KILL after the grace period."""
        async with self._telling("cancel", process):
            await self._engine.cancel(process, grace_s=grace_s, note=note)

    async def end(self, process: Process, *, grace_s: float, note: str) -> bool:
        """End the whole tree and return when it is gone; tell whether the KILL was needed."""
        async with self._telling("cancel", process):
            return await self._engine.end(process, grace_s=grace_s, note=note)

    async def signal(
        self, process: Process, number: int, *, whole_tree: bool = False, whole_group: bool = False
    ) -> None:
        """Send a signal."""
        async with self._telling("signal", process, signal=number, whole_tree=whole_tree):
            await self._engine.signal(process, number, whole_tree=whole_tree, whole_group=whole_group)

    async def write(self, process: Process, data: bytes | memoryview | AsyncIterable[bytes]) -> int:
        """Write to the process's input; how many bytes is announced once, and what they were to no one."""
        async with self._telling("write", process) as details:
            details["bytes"] = 0
            written = await self._engine.write(process, data)
            details["bytes"] = written
        return written

    async def close_stdin(self, process: Process) -> None:
        """Close the process's input."""
        async with self._telling("close_stdin", process):
            await self._engine.close_stdin(process)

    async def close_output(self, process: Process, stream: int) -> None:
        """Close the reading end of a pipe (0 stdout, 1 stderr)."""
        async with self._telling("close_output", process, stream=stream):
            await self._engine.close_output(process, stream)

    async def resize(self, process: Process, rows: int, cols: int) -> None:
        """Set the terminal's window size."""
        async with self._telling("resize", process):
            await self._engine.resize(process, rows, cols)

    async def relabel(self, process: Process, *, tags: Mapping[str, str], group: str | None) -> None:
        """Give a process other tags and another group."""
        async with self._telling("relabel", process):
            await self._engine.relabel(process, tags=tags, group=group)

    async def remove(self, process: Process, *, force: bool = False, note: str = "") -> None:
        """Forget a finished process."""
        async with self._telling("remove", process, force=force):
            await self._engine.remove(process, force=force, note=note)

    async def release(
        self, process: Process, *, stdout_bytes: int = 0, stderr_bytes: int = 0, unbound: bool = False
    ) -> None:
        """Let go of output that was delivered; not announced, because a reader does it many times a second."""
        await self.check(process)
        await self._engine.release(
            process, stdout_bytes=stdout_bytes, stderr_bytes=stderr_bytes, unbound=unbound
        )

    async def check(self, what: Process | Owner) -> None:
        """Let the caller act by a verb that is none of these on a process, or cancel a request that has started none yet.

        Args:
            what: The process, or who sent the request.

        Raises:
            CommandRefused: `profile_too_weak`: the caller lives in a process of ours with a stronger profile than that
                process has, or than what the request starts may have.
        """
        if isinstance(what, Owner):
            await check_request(self._queries, what, self._by)
        else:
            await check_reach(self._queries, what, self._by)

    @contextlib.asynccontextmanager
    async def _telling(
        self, what: str, process: Process, **details: int | str | bool
    ) -> AsyncIterator[dict[str, int | str | bool]]:
        try:
            await self.check(process)
            yield details
        except OutliveError as error:
            is_denied = isinstance(error, CommandRefused | AccessDenied)
            self._announce(
                AuditEvent(
                    what=what,
                    by=self._by,
                    decision="denied" if is_denied else "failed",
                    reason=error.code,
                    process_id=process.process_id,
                    details=details,
                )
            )
            raise
        self._announce(AuditEvent(what=what, by=self._by, process_id=process.process_id, details=details))
