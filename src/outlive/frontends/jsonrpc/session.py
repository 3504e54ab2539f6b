"""What outlives a socket: `Session`, the restorable state behind one `session_id` (promises S0.13, S0.14)."""

import asyncio
from types import TracebackType
from typing import Protocol

from outlive.core.errors import InvalidState
from outlive.core.process import ProcessRecord
from outlive.engine import Engine, Process
from outlive.frontends.jsonrpc.followers import Followers, OutputFormat


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
        starts: How many processes start just now (`starting`).
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

    def starting(self, *, is_concurrent: bool) -> "_Starting":
        """Return what keeps the connection's one place inside `with`, while a process starts.

        Detached processes belong to the principal and take no place.

        Raises:
            InvalidState: `process_running`, with the pid in the details (None while it starts).
        """
        if not is_concurrent:
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
        return _Starting(self)

    def may_see(self, process: Process) -> bool:
        """Tell whether a process is this connection's own, or a detached one of the same principal."""
        return self.may_see_record(process.record)

    def may_see_record(self, record: ProcessRecord) -> bool:
        """Tell the same by what is known of it."""
        owner = record.owner
        return owner.principal == self.principal and (
            record.is_detached or owner.connection_id == self.connection_id
        )


class _Starting:
    """A start on its way. A class, because a generator for it would cost four times as much on every start."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Session) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.starts += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.starts -= 1
