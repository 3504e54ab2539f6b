"""All places of clients: `Sessions` gives them out, gives them back to who returns, and ends them after the grace.

The reconnect grace counts only while this server lives: from the disconnect, or from the end of the recovery for
clients of an earlier server (promise S0.14). Leaving the block ends no process.

What the door must be told: limits, times and its version.

What outlives a socket: `Session`, the restorable state behind one `session_id` (promises S0.13, S0.14).
"""

import asyncio
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from outlive.core.cursor import Cursor
from outlive.core.errors import BackendUnavailable, InvalidState, LimitExceeded
from outlive.core.process import ProcessRecord
from outlive.engine import Engine, Process, ProcessFilter
from outlive.engine.processes.groups import StartSlots
from outlive.frontends.jsonrpc.subscriptions import Followers, OutputFormat


class Holder(Protocol):
    """The open channel of a connection, as far as the connection needs it."""

    def supersede(self) -> dict[str, OutputFormat]:
        """Stop at once, because another channel takes the place; return what was not delivered completely."""

    @property
    def followers(self) -> Followers:
        """What it sends of which processes."""


class Session:
    """One client's place: who it is, its open channel or the reconnect grace, what it has not been told yet.

    Attributes:
        connection_id: The wire's `session_id`, a uuid4.
        principal: Whose it is; nobody else can resume it.
        holder: The open channel; None while the client is away.
        undelivered: Processes whose end the client has not been told, and the way of their output.
        grace: Ends the place when the client stays away; None while it is here.
        starts: How many processes start just now.
    """

    __slots__ = (
        "_engine",
        "connection_id",
        "grace",
        "holder",
        "principal",
        "starts",
        "undelivered",
    )

    def __init__(self, engine: Engine, connection_id: str, principal: str) -> None:
        """Begin without a channel."""
        self.connection_id = connection_id
        self.principal = principal
        self.holder: Holder | None = None
        self.undelivered: dict[str, OutputFormat] = {}
        self.grace: asyncio.Task[None] | None = None
        self.starts = 0
        self._engine = engine

    def running(self) -> list[Process]:
        """Return the processes of this connection that are not complete, oldest first."""
        return self._engine.connections.running_of(self.connection_id)

    def check_free(self) -> None:
        """Let a start pass that wants the session's one place; detached processes belong to the principal and take none.

        Raises:
            InvalidState: `process_running`, with the pid in the details (None while it starts).
        """
        busy = next((process for process in self.running() if not process.is_detached), None)
        if busy is not None or self.starts:
            raise InvalidState(
                "process_running",
                "A process runs in this session.",
                details={
                    "pid": None if busy is None else busy.record.pid,
                    "process_id": None if busy is None else busy.process_id,
                },
            )

    def may_see(self, record: ProcessRecord) -> bool:
        """Tell whether a process is this session's own, or a detached one of the same principal."""
        owner = record.owner
        return owner.principal == self.principal and (
            record.is_detached or owner.connection_id == self.connection_id
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRpcSettings:
    """Times are seconds, sizes bytes. `wait_s`: how long a terminal's command is waited for, if a request does not say."""

    version: str
    max_connections: int = 100
    reconnect_grace_s: float = 10.0
    max_line_bytes: int = 8192
    max_message_bytes: int = 16 * 1024 * 1024
    wait_s: float = 45.0


_logger = logging.getLogger(__name__)

_RETRY_S = 1.0
# Of one principal, from all of its connections, waiting or on their way; the others are read later.
_MAX_STARTS = 64


class Sessions:
    """The connections by id. `async with` runs the reconnect graces.

    Attributes:
        starts: How many starts of a principal are read at a time. Fifty connections that read sixty-four each would only
            fill the memory with tasks which wait for their turn, and everybody's requests would wait behind them.
    """

    def __init__(self, engine: Engine, settings: JsonRpcSettings) -> None:
        """Begin without any."""
        self._engine = engine
        self._settings = settings
        self.starts = StartSlots(_MAX_STARTS)
        self._places: dict[str, Session] = {}
        self._open = 0
        self._is_running = False
        self._tasks = asyncio.TaskGroup()
        self._expecting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin the grace of clients whose processes were found running."""
        await self._tasks.__aenter__()
        self._is_running = True
        self._expecting = self._tasks.create_task(self._expect_returns())
        return self

    async def _expect_returns(self) -> None:
        await self._engine.reconciliation.over()
        for connection_id in self._engine.connections.waiting():
            processes = self._engine.connections.live_of(connection_id)
            if processes and connection_id not in self._places:
                self._wait_for_return(self._place(connection_id, processes[0].record.owner.principal))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Forget the graces; the processes go on."""
        self._is_running = False
        if self._expecting is not None:
            self._expecting.cancel()
        for place in self._places.values():
            if place.grace is not None:
                place.grace.cancel()
        await self._tasks.__aexit__(kind, error, trace)

    @property
    def open_count(self) -> int:
        """How many clients are connected."""
        return self._open

    async def claim(self, wanted: str, principal: str, holder: Holder) -> tuple[Session, bool]:
        """Give `holder` the place with the id `wanted`, or a new one; tell whether it was resumed.

        A channel that still holds the place is superseded.

        Raises:
            LimitExceeded: `connection_limit`: no place is free.
        """
        place = self._places.get(wanted)
        if place is None and wanted:
            place = await self._restore(wanted, principal)
        if place is not None and place.principal != principal:
            place = None  # to somebody else it does not exist
        is_takeover = place is not None and place.holder is not None
        if not is_takeover and self._open >= self._settings.max_connections:
            raise LimitExceeded(
                "connection_limit", f"All {self._settings.max_connections} sessions of this server are taken."
            )
        resumed = place is not None
        if place is None:
            place = self._place(str(uuid.uuid4()), principal)
        if place.holder is not None:
            place.undelivered |= place.holder.supersede()
        else:
            self._open += 1
        if place.grace is not None:
            place.grace.cancel()
            place.grace = None
        place.holder = holder
        return place, resumed

    def leave(self, place: Session, holder: Holder) -> None:
        """Take the place back from a channel that has ended; nothing happens when another one holds it."""
        if place.holder is holder:
            place.holder = None
            self._open -= 1
            self._wait_for_return(place)

    def announce(self, process_id: str, encode: Callable[[Cursor], bytes], *, but: Session) -> None:
        """Tell every other client that follows a process some news about it."""
        for place in self._places.values():
            if place.holder is not None and place is not but:
                place.holder.followers.announce(process_id, encode)

    def lag_bytes(self) -> int:
        """Return how far the slowest client is behind."""
        holders = (place.holder for place in self._places.values())
        return max((holder.followers.lag_bytes() for holder in holders if holder is not None), default=0)

    def _place(self, connection_id: str, principal: str) -> Session:
        place = self._places[connection_id] = Session(self._engine, connection_id, principal)
        return place

    async def _restore(self, connection_id: str, principal: str) -> Session | None:
        """Return the place of a client of an earlier server, known by the processes it started."""
        known = await self._engine.queries.list(
            ProcessFilter(connection_id=connection_id, principal=principal), limit=1
        )
        if connection_id in self._places:  # somebody else came back with it meanwhile
            return self._places[connection_id]
        return self._place(connection_id, principal) if known else None

    def _wait_for_return(self, place: Session) -> None:
        if self._is_running:
            place.grace = self._tasks.create_task(self._expire(place))

    async def _expire(self, place: Session) -> None:
        """Give the place up when nobody came back in time, and cancel its private processes."""
        await asyncio.sleep(self._settings.reconnect_grace_s)
        del self._places[place.connection_id]
        place.grace = None
        try:
            doomed = [process for process in place.running() if not process.is_detached]
            await asyncio.gather(*map(self._cancel, doomed))
        except Exception:
            _logger.exception(
                "cancelling abandoned processes failed", extra={"connection_id": place.connection_id}
            )

    async def _cancel(self, process: Process) -> None:
        note = (
            f"Cancelled because its client went away and was not back within "
            f"{self._settings.reconnect_grace_s:g} s."
        )
        while not process.is_ended:
            try:
                await self._engine.controls.cancel(process, note=note)
            except BackendUnavailable:
                await asyncio.sleep(_RETRY_S)  # nobody else will end it
            except InvalidState:
                return  # it has ended by itself meanwhile
            else:
                return
