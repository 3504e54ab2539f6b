"""What a method is (`Method`), what it may use (`Context`, one for each connection), and what it gives back
(`Result`).

How much a method's caller must be allowed is said in `operations.table`.
"""

from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from typing import Any

import msgspec

from outlive.config import Settings
from outlive.core.errors import InvalidRequest, ProcessNotFound
from outlive.core.process import Owner
from outlive.core.values import dataclass
from outlive.engine import Asker, AuditedControls, Engine, Process
from outlive.frontends.jsonrpc.event_feed import EventFeed
from outlive.frontends.jsonrpc.sessions import Session, Sessions
from outlive.frontends.jsonrpc.subscriptions import OutputFormat, Subscriptions
from outlive.policy.access import Access
from outlive.protocols.jsonrpc.params import AttachParams, ExecuteParams
from outlive.protocols.trace_context import valid_traceparent
from outlive.server.operations import Operations

Observe = Callable[[str, float], None]  # a method that was answered, and the seconds that took
Members = Mapping[str, object]


class Result(msgspec.Struct, frozen=True):
    """A result, the notifications that leave in the same write behind it, and what happens after that write.

    `then` is called exactly once, also when the client that asked is gone. With a `payload` the answer is a
    binary frame, which has these bytes behind a line of JSON.
    """

    members: Members
    notifications: tuple[bytes, ...] = ()
    then: Callable[[], None] | None = None
    payload: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One client's view of the server; `observe` takes the time that each answer took.

    `operations` carry out what every door answers alike.
    """

    engine: Engine
    access: Access
    session: Session
    sessions: Sessions
    subscriptions: Subscriptions
    events: EventFeed
    settings: Settings
    observe: Observe
    operations: Operations

    @property
    def acting(self) -> AuditedControls:
        """The verbs that change something, on this client's behalf."""
        return self.engine.as_(self.owner())

    def owner(self, request_id: str | None = None, traceparent: str | None = None) -> Owner:
        """Return the identity of this client; `traceparent` is what its request says."""
        return self.access.owner(
            "jsonrpc",
            connection_id=self.session.session_id,
            request_id=request_id,
            traceparent="" if traceparent is None else valid_traceparent(traceparent),
        )

    async def find(self, word: str | None, project: str | None = None) -> Process:
        """Return the process that a word means (`engine.lookup`), or without one that which runs in this
        session.

        Raises:
            ProcessNotFound: There is none, or it belongs to another principal.
            InvalidRequest: `process_ambiguous`: several run and no id was given, or several could be meant.
        """
        if word is not None:
            session = self.session
            asker = Asker(principal=session.principal, project=project, connection_id=session.session_id)
            return await self.engine.lookup.find(word, asker)
        running = self.session.running()
        if not running:
            raise ProcessNotFound("no_process", "No process runs in this session.")
        if len(running) > 1:
            raise InvalidRequest(
                "process_ambiguous",
                f"{len(running)} processes run in this session.",
                details={"process_ids": [process.process_id for process in running]},
            )
        return running[0]

    def output_format(self, asked: ExecuteParams | AttachParams) -> OutputFormat:
        """Return how output is sent; without a limit for a line the server's own holds."""
        limit = self.settings.max_line_bytes if asked.max_line_bytes is None else asked.max_line_bytes
        return OutputFormat(asked.output, limit, is_raw=asked.raw)


class Concurrency(IntEnum):
    """How a request runs beside the others of its connection.

    A batch runs as the last of these that one of its requests has.
    """

    IN_ORDER = 0  # the next request is read after the answer: quick, and the order matters
    STARTS = 1  # side by side, a bounded number: the next ones wait
    LONG = 2  # side by side for as long as it takes: too many are refused
    # side by side, few at a time, since each answer is large: the next ones wait until answers have left
    LARGE = 3


# Answers one request, whose parameters have the method's shape; the text is the request's id.
Handler = Callable[[Context, Any, str | None], Awaitable[Result]]
# Answers one request that has brought bytes.
BytesHandler = Callable[[Context, Any, memoryview], Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class Method:
    """One method: `shape` is what it takes, `result` what it gives, as a struct declares its members."""

    name: str
    shape: type[msgspec.Struct]
    result: type[msgspec.Struct]
    answer: Handler
    concurrency: Concurrency = Concurrency.IN_ORDER


def table_of(*methods: Method) -> dict[str, Method]:
    """Return methods by their names."""
    return {one.name: one for one in methods}
