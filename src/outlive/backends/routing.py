"""The backend that the engine has: `Routing` passes each call to the one that has the process.

A container's processes are the local keeper's, too: `ready` sees to the container, and the start goes to
`local`. Nodes are other servers; one that is away keeps no caller waiting, neither when this opens nor when
it is asked about others.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence

from outlive.backends.contract import Backend, BackendListener, NodeState, StartOutcome, unknown_backend
from outlive.core.controls import Operation
from outlive.core.errors import BackendUnavailable, OutliveError
from outlive.core.identity import ProcessId
from outlive.core.location import HERE, LOCAL, Kind, Location
from outlive.core.process import InputWait, Observation
from outlive.core.spec import Spec
from outlive.core.values import dataclass
from outlive.protocols.keeper import decode_spec, encode_spec

_CANCELLED = "The caller left before its container was ready: it never ran."


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A name under which commands ask for a place: its kind, the backend that starts them, and what comes
    before.

    `ready` is awaited with the spec's container before `backend` is asked; `adapt` returns the spec with
    which it is asked.
    """

    kind: Kind
    backend: Backend
    ready: Callable[[str], Awaitable[None]] | None = None
    adapt: Callable[[Spec], Spec] | None = None


class Routing:
    """All places where commands run, behind one contract (see `Backend`); nodes come and go. On the event
    loop only.
    """

    def __init__(
        self,
        routes: Mapping[str, Route],
        *,
        located: Callable[[ProcessId], Location] = lambda _process_id: HERE,
    ) -> None:
        """Take the places by their names, this machine's first; nothing is opened.

        Args:
            routes: One of them is "local": this machine's keeper.
            located: Returns where a live process is.
        """
        self._routes = dict(routes)
        self._listener: BackendListener | None = None
        self._local = self._routes[LOCAL].backend
        # A backend may serve several names, as the keeper does containers.
        self._others = [
            one for one in dict.fromkeys(route.backend for route in routes.values()) if one is not self._local
        ]
        self._located = located

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all places, this machine first."""
        return tuple(self._routes)

    def kind_of(self, backend: str) -> Kind:
        """Return what kind of place is meant by a name.

        Raises:
            InvalidRequest: There is none of that name.
        """
        return self._route(backend).kind

    async def open(self, listener: BackendListener) -> None:
        """Connect to the keeper and to all others; when one cannot be opened, none is.

        Nodes are looked for meanwhile, and their processes are known from their folders.
        """
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._local.close)
            # First: when the keeper has reported all that lives here, what lives on nodes is known, too.
            for other in self._others:
                stack.push_async_callback(other.close)
                await other.open(listener)
            await self._local.open(listener)
            stack.pop_all()
            self._listener = listener

    async def close(self) -> None:
        """Disconnect from all; what runs goes on."""
        await self._local.close()
        await asyncio.gather(*(other.close() for other in self._others))

    async def put(self, name: str, route: Route) -> None:
        """Serve a new name from now on by a backend, which is opened before it is asked for anything."""
        if self._listener is not None:
            await route.backend.open(self._listener)
        self._others.append(route.backend)
        self._routes[name] = route

    async def drop(self, name: str) -> None:
        """Serve a name no more."""
        old = self._routes.pop(name, None)
        if old is not None:
            self._others.remove(old.backend)
            await old.backend.close()

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
            route = self._route(backend)
            if route.ready is not None:
                await route.ready(decode_spec(spec, with_command=False).container)
            if route.adapt is not None:
                spec = encode_spec(route.adapt(decode_spec(spec)))
        except OutliveError as error:
            settle(error)
            raise
        except asyncio.CancelledError:
            settle(BackendUnavailable("timeout", _CANCELLED))
            raise
        return await route.backend.start(
            process_id, spec, script, settle=settle, secrets=secrets, backend=backend
        )

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

    async def observe(self, process_ids: Sequence[ProcessId], *, has_stdin: bool) -> list[Observation]:
        """Look at the trees, each place at its own."""
        places: dict[int, tuple[Backend, list[ProcessId]]] = {}
        for one in process_ids:
            backend = self._of(one)
            places.setdefault(id(backend), (backend, []))[1].append(one)
        seen = await asyncio.gather(
            *(backend.observe(ids, has_stdin=has_stdin) for backend, ids in places.values())
        )
        found = {
            one: observation
            for (_, ids), observations in zip(places.values(), seen, strict=True)
            for one, observation in zip(ids, observations, strict=True)
        }
        return [found[one] for one in process_ids]

    async def input_wait(self, process_id: ProcessId) -> InputWait | None:
        """Ask what a process waits for."""
        return await self._of(process_id).input_wait(process_id)

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
        return {name: state for other in self._others for name, state in other.nodes().items()}

    def _of(self, process_id: ProcessId) -> Backend:
        """Return the backend that has a process: the keeper, for all of this machine's places."""
        location = self._located(process_id)
        return self._route(location.backend).backend if location.is_elsewhere else self._local

    def _route(self, name: str) -> Route:
        """Return the place of a name.

        Raises:
            InvalidRequest: There is none of that name.
        """
        route = self._routes.get(name)
        if route is None:
            raise unknown_backend(name, self._routes)
        return route
