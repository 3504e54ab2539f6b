"""The verbs on a node's processes, passed on to it: one half of `RemoteBackend`."""

import asyncio
import base64
import contextlib
from collections.abc import Callable
from typing import cast

from outlive.backends.contract import NodeState
from outlive.backends.remote.contract import NodeConnection
from outlive.backends.remote.following import Following
from outlive.backends.remote.link import NodeLink
from outlive.backends.remote.mirror import Mirror
from outlive.core.cursor import Cursor
from outlive.core.errors import (
    AccessDenied,
    BackendUnavailable,
    InvalidRequest,
    InvalidState,
    OutliveError,
    ProcessNotFound,
)
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import Cause
from outlive.core.observation import NOTHING, Observation, Waiting
from outlive.protocols.keeper import CauseCode

__all__ = ["NodeVerbs"]

_AWAY = frozenset({"server_unavailable", "connection_limit"})


class NodeVerbs:
    """Every verb raises BackendUnavailable `node_unavailable` while the node is away: nothing of it was done then."""

    _connection: NodeConnection | None
    _link: NodeLink
    _following: Following
    _name: str
    _address: str

    async def pause(self, process_id: ProcessId, *, acknowledged: Callable[[], None]) -> None:
        """Stop the whole tree there."""
        await self._ask("control", process_id, type="PAUSE")
        await self._paused(process_id, is_paused=True)
        acknowledged()

    async def resume(self, process_id: ProcessId, *, acknowledged: Callable[[], None]) -> None:
        """Continue the whole tree there."""
        await self._ask("control", process_id, type="RESUME")
        await self._paused(process_id, is_paused=False)
        acknowledged()

    async def stop(self, process_id: ProcessId, *, cause: Cause, grace_s: float, note: str) -> None:
        """End the whole tree there: TERM now, KILL after the grace period, which the node counts."""
        mirror = self._mirror(process_id)
        if mirror is not None and not self._link.is_away:
            code = int(CauseCode[cause.name])
            mirror.ask_end(code, note)
            with contextlib.suppress(OSError):
                await asyncio.to_thread(mirror.files.write_stop, code, note)
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

    async def write(self, process_id: ProcessId, data: bytes) -> None:
        """Write to the input; never repeated."""
        text = base64.b64encode(data).decode("ascii")
        await self._ask("write", process_id, is_repeatable=False, data=text, encoding="base64")

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

    async def observe(self, process_id: ProcessId, *, has_stdin: bool) -> Observation:  # noqa: ARG002 - the node knows
        """Have the node look at the tree; nothing while it is away."""
        if self._link.is_away:
            return NOTHING
        try:
            seen = (await self._reach().get(process_id, stats=True)).stats
        except OutliveError:
            return NOTHING
        if seen is None:
            return NOTHING
        return Observation(
            pids=seen.pids,
            threads=seen.threads,
            cpu_s=seen.cpu_s,
            memory_bytes=seen.memory_bytes,
            ports=seen.ports,
            waiting=cast("Waiting", seen.waiting or "no"),
        )

    async def window_size(self, process_id: ProcessId) -> tuple[int, int] | None:
        """Return the size that was set last from here; the wire has no question for it."""
        mirror = self._mirror(process_id)
        return None if mirror is None or mirror.spec.stdio != "pty" else mirror.size

    async def offers(self) -> str:
        """Nothing is known of the node's bounds.

        Raises:
            InvalidRequest: Always.
        """
        raise InvalidRequest("invalid_params", "A node chooses its bounds by itself.")

    async def status(self) -> dict[str, object]:
        """Return whether the node is there."""
        return {"is_away": self._link.is_away}

    def nodes(self) -> dict[str, NodeState]:
        """Return what is known of this node."""
        trouble = self._link.trouble
        state = NodeState(
            address=self._address,
            is_away=trouble is not None,
            since=self._link.since,
            reason=None if trouble is None else trouble.message,
            hint=None if trouble is None else trouble.hint,
            processes=len(self._following.mirrors),
        )
        return {self._name: state}

    def _mirror(self, process_id: ProcessId) -> Mirror | None:
        return self._following.mirrors.get(process_id)

    async def _paused(self, process_id: ProcessId, *, is_paused: bool) -> None:
        mirror = self._mirror(process_id)
        if mirror is not None:
            mirror.pause(is_paused=is_paused)
            with contextlib.suppress(OSError):
                await asyncio.to_thread(mirror.files.write_paused, is_paused=is_paused)

    def _reach(self) -> NodeConnection:
        if self._connection is None or self._link.is_away:
            raise self._link.unavailable()
        return self._connection

    async def _ask(
        self, method: str, process_id: ProcessId, *, is_repeatable: bool = True, **params: object
    ) -> None:
        connection = self._reach()
        try:
            await connection.request(
                method, {"process_id": process_id, **params}, is_repeatable=is_repeatable
            )
        except ProcessNotFound as error:
            text = "The node does not know this process (yet, or any more)."
            raise InvalidState("process_ended", text) from error
        except AccessDenied as error:
            raise BackendUnavailable(
                "node_unavailable",
                f"The node {self._name!r} does not allow this: {error.message}",
                hint=error.hint,
            ) from error
        except BackendUnavailable as error:
            if error.code not in _AWAY:
                raise
            raise self._link.unavailable() from error
