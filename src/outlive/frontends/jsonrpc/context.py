"""What a method may use: `Context`, one for each channel, and `Result`, what it gives back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from outlive.core.errors import InvalidRequest, ProcessNotFound
from outlive.core.process import Owner
from outlive.engine import AuditedControls, Engine, Process
from outlive.frontends.jsonrpc.event_feed import EventFeed
from outlive.frontends.jsonrpc.sessions import JsonRpcSettings, Session, Sessions
from outlive.frontends.jsonrpc.subscriptions import Followers, OutputFormat
from outlive.policy.access import Access, Scope
from outlive.protocols.jsonrpc.params import OutputMode
from outlive.server.terminal_calls import TerminalCalls

Observe = Callable[[str, float], None]  # a method that was answered, and the seconds that took


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A result, the notifications that leave in the same write behind it, and what happens after that write.

    `then` is called exactly once, also when nobody is there to read the result.
    """

    result: Mapping[str, object]
    notifications: tuple[bytes, ...] = ()
    then: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One client's view of the server; `observe` hears of every answer."""

    engine: Engine
    access: Access
    connection: Session
    connections: Sessions
    followers: Followers
    events: EventFeed
    settings: JsonRpcSettings
    observe: Observe
    terminals: TerminalCalls

    @property
    def acting(self) -> AuditedControls:
        """The verbs that change something, on this client's behalf."""
        return self.engine.as_(self.owner())

    def owner(self, request_id: str | None = None) -> Owner:
        """Return who asks here."""
        return Owner(
            principal=self.connection.principal,
            connection_id=self.connection.connection_id,
            request_id=request_id,
            inside=self.access.inside,
            door="jsonrpc",
            address=self.access.address,
            is_admin=self.access.scope >= Scope.ADMIN,
        )

    async def find(self, process_id: str | None) -> Process:
        """Return the process that is meant: by id, or the one that runs in this connection.

        Raises:
            ProcessNotFound: There is none, or it belongs to somebody else.
            InvalidRequest: `process_ambiguous`: several run and no id was given.
        """
        if process_id is not None:
            process = await self.engine.queries.find(process_id)
            if not self.connection.may_see(process):
                raise ProcessNotFound("process_not_found", f"There is no process {process_id[:40]!r}.")
            return process
        running = self.connection.running()
        if not running:
            raise ProcessNotFound("no_process", "No process runs in this session.")
        if len(running) > 1:
            raise InvalidRequest(
                "process_ambiguous",
                f"{len(running)} processes run in this session.",
                details={"process_ids": [process.process_id for process in running]},
            )
        return running[0]

    def output_format(
        self, mode: OutputMode, max_line_bytes: int | None, *, raw: bool = False
    ) -> OutputFormat:
        """Return how output is sent; None takes the server's limit for a line, `raw` hides no secrets (`Engine.read_raw`)."""
        limit = self.settings.max_line_bytes if max_line_bytes is None else max_line_bytes
        return OutputFormat(mode, limit, is_raw=raw)
