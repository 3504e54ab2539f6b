"""A node as a place of execution: `RemoteBackend`, put together from its parts.

What the node reports is kept in ordinary process folders (`folder`): every reader of logs and records finds
it as if the command had run here. Requests belong to `requests`, starts to `starts`, the news of the node to
`follower`, its connection to `link`.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from outlive.backends.contract import BackendListener, NodeState, StartOutcome, unknown_backend
from outlive.core.controls import Operation
from outlive.core.errors import InvalidRequest, LimitExceeded, OutliveError
from outlive.core.identity import ProcessId
from outlive.core.layout import Layout
from outlive.core.location import Kind
from outlive.core.process import NOTHING, InputWait, Observation, Waiting
from outlive.extensions.fleet.follower import NodeFollower
from outlive.extensions.fleet.link import NodeLink, Pauses
from outlive.extensions.fleet.node_client import NodeClient
from outlive.extensions.fleet.processes import NodeProcesses
from outlive.extensions.fleet.starts import NodeControls, NodeRequests, NodeStarts
from outlive.store.process_folder import Punch

_PAUSES = Pauses()


class RemoteBackend:
    """One node, by its name (see `Backend`).

    Attributes:
        requests: Asks the node for what no process is needed for: files.

    Every request raises BackendUnavailable where the node does not answer. `node_unavailable`: it is away,
    and nothing was done; `server_lost`: it went away before it answered.
    """

    def __init__(
        self,
        name: str,
        connection: NodeClient | None,
        *,
        state_dir: str,
        punch: Punch,
        address: str = "",
        pauses: Pauses = _PAUSES,
    ) -> None:
        """Take what it is made of; nothing is opened.

        Args:
            name: The name by which commands ask for it.
            connection: How it is reached; None for one that no setting names any more, but that has
                processes.
            state_dir: Our state folder, absolute.
            punch: Releases a range of a file (`kernel.calls.punch_hole`).
            address: For people.
            pauses: When to try again.
        """
        self._name = name
        self._address = address
        self._stack = contextlib.AsyncExitStack()
        self._tasks: asyncio.TaskGroup | None = None
        self._processes = NodeProcesses(Layout(state_dir), name, punch=punch)
        self._link = NodeLink(name, connection, pauses=pauses)
        self.requests = NodeRequests(self._link)
        self._controls = NodeControls(self.requests, self._processes)
        self._starts = NodeStarts(self.requests, self._processes)
        self._follower = NodeFollower(self._link, self._processes, begin=self._starts.begin_again)

    def kind_of(self, backend: str) -> Kind:
        """Return the kind of a node, for its own name.

        Raises:
            InvalidRequest: It is another one.
        """
        if backend != self._name:
            raise unknown_backend(backend, [self._name])
        return "node"

    async def open(self, listener: BackendListener) -> None:
        """Report the processes that are followed, as the files know them.

        The node is looked for meanwhile.
        """
        self._processes.listener = listener
        self._link.changed = listener.node_changed
        await self._processes.load()
        self._processes.publish(*self._processes.by_id.values())
        self._tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
        task = self._tasks.create_task(self._link.run(self._follower.follow), name=f"node {self._name}")
        self._stack.callback(task.cancel)
        self._stack.callback(self._link.shut)

    async def reconnect(self, connection: NodeClient | None, *, address: str, pauses: Pauses) -> None:
        """Reach the node otherwise from now on, or (None) not any more; its processes stay known.

        Starts that it has not answered are asked for there, under their own names.
        """
        self._address = address
        await self._link.reconnect(connection, pauses=pauses)

    async def close(self) -> None:
        """Disconnect; what runs there goes on, and is found again by the folders."""
        self._starts.cancel()
        if (connection := self._link.connection) is not None:
            await connection.close()
        await self._stack.aclose()
        self._processes.listener = None
        for process in self._processes.by_id.values():
            process.files.close()

    async def start(
        self,
        process_id: ProcessId,
        spec: bytes,
        script: bytes,
        *,
        settle: Callable[[StartOutcome | OutliveError], None],
        secrets: Mapping[str, str] | None = None,
        backend: str = "",  # noqa: ARG002 - it is this one
    ) -> StartOutcome:
        """Start a command there once (see `Backend.start`).

        A start that the node does not answer is asked for again under its name until it does, and settled
        then.

        Raises:
            BackendUnavailable: `node_unavailable`: it is away, nothing was started; `start_unanswered`: it
            may run.
            OutliveError: What the node says to it.
        """
        tasks = self._tasks
        if tasks is None:
            raise AssertionError("a backend is open while it is used")

        async def carry_out() -> StartOutcome | OutliveError:
            outcome = await self._starts.run(process_id, spec, script, secrets or {}, settle=settle)
            process = self._processes.by_id.get(process_id)
            if process is not None and isinstance(outcome, StartOutcome) and not outcome.is_existing:
                self._follower.attach(process)
            return outcome

        return await self._starts.wait(process_id, lambda: tasks.create_task(carry_out()))

    async def adopt(self, process_id: ProcessId, spec: bytes, *, pid: int, started_ns: int) -> None:
        """Follow a process that the node runs already, or has run; it is kept when this returns.

        Args:
            process_id: Its id there and here.
            spec: What describes it here. The node is never asked to start it.
            pid: Its pid there.
            started_ns: When it was started, in Unix nanoseconds.

        Raises:
            InvalidRequest: The id is taken.
            LimitExceeded: `disk_full`.
        """
        try:
            process = await self._processes.add(process_id, spec, b"", started=(pid, started_ns))
        except OSError as error:
            text = f"What runs on a node cannot be put down: {error.strerror}."
            raise LimitExceeded("disk_full", text) from error
        self._processes.publish(process)
        self._follower.attach(process)

    async def control(
        self,
        process_id: ProcessId,
        operation: Operation,
        *,
        acknowledged: Callable[[], None] | None = None,
    ) -> None:
        """Have the node carry out an operation."""
        await self._controls.control(process_id, operation, acknowledged=acknowledged)

    async def write(self, process_id: ProcessId, data: bytes | memoryview) -> None:
        """Write to the input; never repeated."""
        await self.requests.write(process_id, data)

    async def observe(self, process_ids: Sequence[ProcessId], *, has_stdin: bool) -> list[Observation]:  # noqa: ARG002 - the node knows
        """Have the node look at each."""
        return list(await asyncio.gather(*(_observed(self.requests, one) for one in process_ids)))

    async def input_wait(self, process_id: ProcessId) -> InputWait | None:
        """Have the node look; None while it is away."""
        seen = await _observed(self.requests, process_id)
        return None if seen.waiting == "no" else InputWait(kind=seen.waiting, is_at_prompt=seen.is_at_prompt)

    async def window_size(self, process_id: ProcessId) -> tuple[int, int] | None:
        """Return the size that was set last from here; the wire has no question for it."""
        process = self._processes.by_id.get(process_id)
        return None if process is None or process.spec.stdio != "pty" else process.size

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
            processes=len(self._processes.by_id),
        )
        return {self._name: state}


async def _observed(requests: NodeRequests, process_id: ProcessId) -> Observation:
    """Have the node look at the tree; nothing while it is away."""
    try:
        view = await requests.over(lambda node: node.get(process_id, stats=True))
    except OutliveError:
        return NOTHING
    if (seen := view.stats) is None:
        return NOTHING
    return Observation(
        pids=seen.pids,
        threads=seen.threads,
        cpu_s=seen.cpu_s,
        memory_bytes=seen.memory_bytes,
        ports=seen.ports,
        waiting=cast("Waiting", seen.waiting or "no"),
        is_at_prompt=seen.is_at_prompt,
    )
