"""The backend that the engine has: `Routing` passes each call to the one that has the process.

A container's processes are the local keeper's, too: `ready` sees to the container, and the start goes to `local`. Nodes are
other servers; one that is away keeps nobody waiting, neither when this opens nor when it is asked about others.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping

from outlive.backends.contract import Backend, BackendListener, NodeState, StartOutcome, unknown_backend
from outlive.backends.operations import Operation
from outlive.core.errors import BackendUnavailable, OutliveError
from outlive.core.identity import ProcessId
from outlive.core.location import LOCAL
from outlive.core.process import Observation
from outlive.protocols.keeper import decode_spec

_CANCELLED = "The caller left before its container was ready: it never ran."


class Routing:
    """All places where commands run, behind one contract (see `Backend`)."""

    def __init__(
        self,
        local: Backend,
        *,
        nodes: Mapping[str, Backend] | None = None,
        ready: Mapping[str, Callable[[str], Awaitable[None]]] | None = None,
        located: Callable[[ProcessId], str] = lambda _process_id: LOCAL,
    ) -> None:
        """Take the parts; nothing is opened.

        Args:
            local: The keeper of this machine.
            nodes: Other servers, by the names under which commands ask for them.
            ready: By the name of a backend ("docker"): awaited with the spec's container before `local` starts it.
            located: Tells at which backend a live process is.
        """
        self._local = local
        self._nodes = dict(nodes or {})
        self._ready = dict(ready or {})
        self._located = located

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all backends, this machine first."""
        return (LOCAL, *self._ready, *self._nodes)

    def check(self, backend: str) -> None:
        """Let the name of a backend pass.

        Raises:
            InvalidRequest: There is none of that name.
        """
        if backend not in self.names:
            raise unknown_backend(backend, self.names)

    async def open(self, listener: BackendListener) -> None:
        """Connect to the keeper; nodes are looked for meanwhile, and their processes are known from their folders."""
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._local.close)
            # First: when the keeper has told all that lives here, what lives on nodes is known, too.
            for node in self._nodes.values():
                stack.push_async_callback(node.close)
                await node.open(listener)
            await self._local.open(listener)
            stack.pop_all()

    async def close(self) -> None:
        """Disconnect from everybody; what runs goes on."""
        await self._local.close()
        await asyncio.gather(*(node.close() for node in self._nodes.values()))

    async def start(
        self,
        process_id: ProcessId,
        spec: bytes,
        script: bytes,
        *,
        settle: Callable[[StartOutcome | OutliveError], None],
        secrets: Mapping[str, str] | None = None,
        backend: str = LOCAL,
    ) -> StartOutcome:
        """Start a command once, where `backend` says.

        Raises:
            InvalidRequest: There is no backend of that name (any more).
            OutliveError: As `Backend.start`; and what making its container ready raises.
        """
        try:
            chosen = self._named(backend)
            if (ready := self._ready.get(backend)) is not None:
                await ready(decode_spec(spec, with_command=False).container)
        except OutliveError as error:
            settle(error)
            raise
        except asyncio.CancelledError:
            settle(BackendUnavailable("timeout", _CANCELLED))
            raise
        return await chosen.start(process_id, spec, script, settle=settle, secrets=secrets, backend=backend)

    async def control(
        self,
        process_id: ProcessId,
        operation: Operation,
        *,
        acknowledged: Callable[[], None] | None = None,
    ) -> None:
        """Have an operation carried out where the process is."""
        await self._of(process_id).control(process_id, operation, acknowledged=acknowledged)

    async def write(self, process_id: ProcessId, data: bytes | memoryview) -> None:
        """Write to the input."""
        await self._of(process_id).write(process_id, data)

    async def observe(self, process_id: ProcessId, *, has_stdin: bool) -> Observation:
        """Look at a process's tree."""
        return await self._of(process_id).observe(process_id, has_stdin=has_stdin)

    async def window_size(self, process_id: ProcessId) -> tuple[int, int] | None:
        """Ask for a terminal's size."""
        return await self._of(process_id).window_size(process_id)

    async def offers(self) -> str:
        """Return what bounds this machine offers; nodes decide for themselves."""
        return await self._local.offers()

    async def status(self) -> dict[str, object]:
        """Return what the keeper says about itself."""
        return await self._local.status()

    def nodes(self) -> dict[str, NodeState]:
        """Return what is known of the nodes."""
        return {name: state for node in self._nodes.values() for name, state in node.nodes().items()}

    def _named(self, name: str) -> Backend:
        if name in self._nodes:
            return self._nodes[name]
        self.check(name)
        return self._local

    def _of(self, process_id: ProcessId) -> Backend:
        """Return the backend that has a process."""
        return self._nodes.get(self._located(process_id), self._local)
