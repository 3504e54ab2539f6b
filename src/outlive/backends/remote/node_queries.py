"""What can be asked about a node and its processes, and how it is asked: the ground under `verbs`."""

from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from outlive.backends.contract import NodeState
from outlive.backends.remote.contract import NodeConnection
from outlive.backends.remote.link import NodeLink
from outlive.backends.remote.mirror import RemoteProcess
from outlive.backends.remote.node_follower import NodeFollower
from outlive.core.errors import (
    AccessDenied,
    BackendUnavailable,
    InvalidRequest,
    InvalidState,
    OutliveError,
    ProcessNotFound,
)
from outlive.core.identity import ProcessId
from outlive.core.process import NOTHING, Observation, Waiting

_T = TypeVar("_T")
_AWAY = frozenset({"server_unavailable", "connection_limit"})


class NodeLooking:
    """Asks; everything raises BackendUnavailable where the node does not answer.

    `node_unavailable`: it is away, and nothing was asked; `server_lost`: it went away before it answered.
    """

    _connection: NodeConnection | None
    _link: NodeLink
    _following: NodeFollower
    _name: str
    _address: str

    async def observe(self, process_id: ProcessId, *, has_stdin: bool) -> Observation:  # noqa: ARG002 - the node knows
        """Have the node look at the tree; nothing while it is away."""
        if self._link.is_away:
            return NOTHING
        try:
            async with self._link.asking():
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

    def _mirror(self, process_id: ProcessId) -> RemoteProcess | None:
        return self._following.mirrors.get(process_id)

    def _reach(self) -> NodeConnection:
        if self._connection is None or self._link.is_away:
            raise self._link.unavailable()
        return self._connection

    async def _ask(
        self, method: str, process_id: ProcessId, *, is_repeatable: bool = True, **params: object
    ) -> None:
        words = {"process_id": process_id, **params}
        await self._over(lambda node: node.request(method, words, is_repeatable=is_repeatable))

    async def _over(self, ask: Callable[[NodeConnection], Awaitable[_T]]) -> _T:
        """Return what the node answers; its refusals in the words of this server."""
        connection = self._reach()
        try:
            async with self._link.asking():
                return await ask(connection)
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
