"""What outlives a socket: a `Session`, the state behind one `session_id` (promises S0.13, S0.14), and
`Sessions`, all of them.

A session has at most one connection. When that is lost, the reconnect grace begins; a client that comes back
in time finds its session again, otherwise the session ends, and its processes that are not detached are
cancelled. The grace counts only while this server lives: from the disconnect, or from the end of the recovery
for clients of an earlier server. A server that stops ends no process.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from outlive.config import Settings
from outlive.core.cursor import Cursor
from outlive.core.errors import BackendUnavailable, InvalidState, LimitExceeded
from outlive.core.process import ProcessRecord
from outlive.core.values import dataclass, field
from outlive.engine import Engine, Process, ProcessFilter
from outlive.engine.semaphores import Semaphores
from outlive.frontends.jsonrpc.subscriptions import OutputFormat, Subscriptions


class Holder(Protocol):
    """The open connection of a session, as far as the session needs it."""

    def supersede(self) -> dict[str, OutputFormat]:
        """Stop at once, because another connection takes over; return what was not delivered completely."""

    @property
    def subscriptions(self) -> Subscriptions:
        """What it sends of which processes."""


@dataclass(eq=False, slots=True)
class Session:
    """One client's session: its open connection or the reconnect grace, and what was not delivered yet.

    Attributes:
        session_id: A uuid4. Records of processes name it as their owner's `connection_id`.
        principal: The owner; no other principal can resume the session.
        holder: The open connection; None while the client is away.
        undelivered: Processes whose end the client has not received, and the format of their output.
        grace: Ends the session when the client stays away; None while it is here.
        starts: How many processes start just now.
    """

    engine: Engine
    session_id: str
    principal: str
    holder: Holder | None = field(default=None, init=False)
    undelivered: dict[str, OutputFormat] = field(default_factory=dict, init=False)
    grace: asyncio.Task[None] | None = field(default=None, init=False)
    starts: int = field(default=0, init=False)

    def running(self) -> list[Process]:
        """Return the processes of this session that are not complete, oldest first."""
        return self.engine.connections.running_of(self.session_id)

    def check_free(self) -> None:
        """Let a start pass that wants the session's one place.

        Detached processes belong to the principal and take none.

        Raises:
            InvalidState: `process_running`, with the pid in the details (None while it starts).
        """
        busy = next((process for process in self.running() if not process.base.is_detached), None)
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
            record.is_detached or owner.connection_id == self.session_id
        )


_logger = logging.getLogger(__name__)

_RETRY_S = 1.0
# Of one principal, from all of its connections, waiting or on their way; the others are read later.
_MAX_STARTS = 64


class Sessions:
    """The sessions by id. `async with` runs the reconnect graces.

    Attributes:
        open_count: How many clients are connected.
        starts: How many starts of a principal are read at a time. Fifty connections that read sixty-four each
            would only fill the memory with tasks which wait for their turn, and the requests of all others
            would wait behind them.
    """

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self.starts = Semaphores(_MAX_STARTS)
        self._sessions: dict[str, Session] = {}
        self.open_count = 0
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
            if processes and connection_id not in self._sessions:
                self._wait_for_return(self._open_session(connection_id, processes[0].record.owner.principal))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Forget the graces; the processes go on."""
        self._is_running = False
        if self._expecting is not None:
            self._expecting.cancel()
        for session in self._sessions.values():
            if session.grace is not None:
                session.grace.cancel()
        await self._tasks.__aexit__(kind, error, trace)

    async def claim(self, wanted: str, principal: str, holder: Holder) -> tuple[Session, bool]:
        """Return the session with the id `wanted`, or a new one, held by `holder` from now on.

        And whether it was resumed.

        A connection that still holds the session is superseded.

        Raises:
            LimitExceeded: `connection_limit`: there are as many sessions as the server may have.
        """
        session = self._sessions.get(wanted)
        if session is None and wanted:
            session = await self._restore(wanted, principal)
        if session is not None and session.principal != principal:
            session = None  # for another principal it does not exist
        is_takeover = session is not None and session.holder is not None
        if not is_takeover and self.open_count >= self._settings.max_connections:
            raise LimitExceeded(
                "connection_limit", f"All {self._settings.max_connections} sessions of this server are taken."
            )
        resumed = session is not None
        if session is None:
            session = self._open_session(str(uuid.uuid4()), principal)
        if session.holder is not None:
            session.undelivered |= session.holder.supersede()
        else:
            self.open_count += 1
        if session.grace is not None:
            session.grace.cancel()
            session.grace = None
        session.holder = holder
        return session, resumed

    def leave(self, session: Session, holder: Holder) -> None:
        """Note that a connection has ended; nothing happens when another one holds the session."""
        if session.holder is holder:
            session.holder = None
            self.open_count -= 1
            self._wait_for_return(session)

    def subscriptions_of(self, session_id: str, principal: str) -> Subscriptions | None:
        """Return what an open session of a principal is sent; None where there is none, or none any more."""
        session = self._sessions.get(session_id)
        if session is None or session.principal != principal or session.holder is None:
            return None
        return session.holder.subscriptions

    def announce(self, process_id: str, encode: Callable[[Cursor], bytes], *, but: Session) -> None:
        """Send news about a process to every other client that follows it."""
        for session in self._sessions.values():
            if session.holder is not None and session is not but:
                session.holder.subscriptions.announce(process_id, encode)

    def lag_bytes(self) -> int:
        """Return how far the slowest client is behind."""
        holders = (session.holder for session in self._sessions.values())
        return max((holder.subscriptions.lag_bytes() for holder in holders if holder is not None), default=0)

    def _open_session(self, session_id: str, principal: str) -> Session:
        session = self._sessions[session_id] = Session(self._engine, session_id, principal)
        return session

    async def _restore(self, connection_id: str, principal: str) -> Session | None:
        """Return the session of a client of an earlier server, known by the processes that it started."""
        known = await self._engine.queries.list(
            ProcessFilter(connection_id=connection_id, principal=principal), limit=1
        )
        if connection_id in self._sessions:  # another connection came back with it meanwhile
            return self._sessions[connection_id]
        return self._open_session(connection_id, principal) if known else None

    def _wait_for_return(self, session: Session) -> None:
        if self._is_running:
            session.grace = self._tasks.create_task(self._expire(session))

    async def _expire(self, session: Session) -> None:
        """End the session when its client did not come back in time, and cancel its private processes."""
        await asyncio.sleep(self._settings.reconnect_grace_s)
        del self._sessions[session.session_id]
        session.grace = None
        try:
            doomed = [process for process in session.running() if not process.base.is_detached]
            await asyncio.gather(*map(self._cancel, doomed))
        except Exception:
            _logger.exception(
                "cancelling abandoned processes failed", extra={"connection_id": session.session_id}
            )

    async def _cancel(self, process: Process) -> None:
        note = (
            f"Cancelled because its client went away and was not back within "
            f"{self._settings.reconnect_grace_s:g} s."
        )
        while not process.status.is_ended:
            try:
                await self._engine.controls.cancel(process, note=note)
            except BackendUnavailable:
                await asyncio.sleep(_RETRY_S)  # nothing else will end it
            except InvalidState:
                return  # it has ended by itself meanwhile
            else:
                return
