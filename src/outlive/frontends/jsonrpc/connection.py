"""One open WebSocket of a client: `Connection` reads requests, sees to their answers, and ends with the
socket.

`continuations` finds what goes on for a client that has come back: which processes, from where, in which
format.
"""

import asyncio
import contextlib
import itertools
import logging
import secrets
from collections.abc import Coroutine, Mapping
from typing import get_args

from starlette.websockets import WebSocket, WebSocketDisconnect

from outlive import PROTOCOL, __version__
from outlive.config import Settings
from outlive.core.cursor import Cursor
from outlive.core.errors import (
    AccessDenied,
    BackendUnavailable,
    InvalidRequest,
    LimitExceeded,
    OutliveError,
    ProcessNotFound,
)
from outlive.core.values import dataclass
from outlive.engine import Engine, Process, ProcessFilter
from outlive.frontends.jsonrpc.context import Concurrency, Context, Observe
from outlive.frontends.jsonrpc.event_feed import EventFeed
from outlive.frontends.jsonrpc.methods import TURN_REQUESTS, Requested, methods, requested
from outlive.frontends.jsonrpc.sessions import Sessions
from outlive.frontends.jsonrpc.subscriptions import OutputFormat, Subscriptions
from outlive.policy.access import Access
from outlive.protocols.jsonrpc.answers import encode_error, encode_notification
from outlive.protocols.jsonrpc.output import FrameHeads
from outlive.protocols.jsonrpc.params import OutputMode
from outlive.protocols.jsonrpc.requests import NULL_ID, Resumption, parse_binary, parse_frame
from outlive.protocols.jsonrpc.views import process_view
from outlive.protocols.websocket_frames import text_frame
from outlive.server.http.websocket_io import Outbox
from outlive.server.limiters import Take
from outlive.server.operations import Operations
from outlive.server.shown_output import check_within


@dataclass(frozen=True, slots=True)
class Continuation:
    """One process that goes on for the client."""

    process: Process
    cursor: Cursor
    form: OutputFormat


async def continuations(
    context: Context, resumption: Resumption, undelivered: Mapping[str, OutputFormat]
) -> list[Continuation]:
    """Return what a resumed session follows, oldest process first.

    That is: what still runs, what ended while the client was away, what it names, and (for a cursor without a
    name) the process that it started last.

    Raises:
        InvalidRequest: A cursor lies behind the end of its process's output.
    """
    session = context.session
    processes: dict[str, Process] = {process.process_id: process for process in session.running()}
    cursors = {process_id: resumption.position(process_id) for process_id in {*processes, *undelivered}}
    cursors |= resumption.named
    if resumption.cursor is not None:
        newest = await context.engine.queries.list(ProcessFilter(connection_id=session.session_id), limit=1)
        cursors |= {record.process_id: resumption.cursor for record in newest}
    found: list[Continuation] = []
    for process_id, cursor in sorted(cursors.items()):
        process = processes.get(process_id) or await _find(context, process_id)
        if process is None:
            continue  # removed by retention meanwhile, or never this client's
        check_within(process, cursor)
        form = undelivered.get(process_id) or OutputFormat("lines", context.settings.max_line_bytes)
        if resumption.output is not None:
            form = OutputFormat(resumption.output, form.max_line_bytes)
        if form.is_raw:
            try:
                await context.engine.as_(context.owner()).read_raw(process.process_id, cursor)
            except (AccessDenied, BackendUnavailable):  # this caller may do less than the one before it
                form = OutputFormat(form.mode, form.max_line_bytes)
        found.append(Continuation(process, cursor, form))
    return found


async def _find(context: Context, process_id: str) -> Process | None:
    try:
        return await context.find(process_id)
    except ProcessNotFound:
        return None


_logger = logging.getLogger(__name__)

# WebSocket close codes (RFC 6455, section 7.4; 1013 is IANA's "try again later"; 4000-4999 are ours to
# define).
_POLICY_VIOLATION = 1008
_INTERNAL_ERROR = 1011
_TRY_AGAIN_LATER = 1013
_SUPERSEDED = 4001

# Commands of one connection that may start although its principal's others fill `Sessions.starts`.
_OWN_STARTS = 4
_MAX_LONG = 256  # unanswered wait, write and close_stdin requests of one connection; more are refused
_MAX_LARGE = (
    32  # large answers of one connection that lie in memory or are made; our own client asks for 12 at once
)
_CLOSE_PATIENCE_S = 1.0  # for a client that does not read: the server then cuts the connection


class Connection:
    """Serves one accepted WebSocket; every task of it ends with `run`.

    Attributes:
        subscriptions: What it sends of which processes.
    """

    def __init__(
        self,
        websocket: WebSocket,
        outbox: Outbox,
        *,
        engine: Engine,
        sessions: Sessions,
        heads: FrameHeads,
        settings: Settings,
        observe: Observe,
        take: Take,
        operations: Operations,
    ) -> None:
        self._websocket = websocket
        self._outbox = outbox
        self._engine = engine
        self._sessions = sessions
        self._settings = settings
        self._observe = observe
        self._take = take
        self._operations = operations
        self.subscriptions = Subscriptions(outbox, heads, spawn=self._spawn, fail=self._fail)
        self._tasks = asyncio.TaskGroup()
        self._side: set[asyncio.Task[None]] = set()
        self._conversation: asyncio.Task[None] | None = None
        self._own_starts = asyncio.Semaphore(_OWN_STARTS)
        self._longs = asyncio.Semaphore(_MAX_LONG)
        self._large = asyncio.Semaphore(_MAX_LARGE)
        self._close_code: int | None = None  # set when the end is ours

    async def run(self, resumption: Resumption, access: Access) -> None:
        """Serve the client until it or the server ends it."""
        try:
            session, is_resumed = await self._sessions.claim(resumption.session_id, access.principal, self)
        except OutliveError as error:
            await self.refuse(error)
            return
        events = EventFeed(self._engine, session, self._outbox, spawn=self._spawn)
        context = Context(
            engine=self._engine,
            access=access,
            session=session,
            sessions=self._sessions,
            subscriptions=self.subscriptions,
            events=events,
            settings=self._settings,
            observe=self._observe,
            operations=self._operations,
        )
        try:
            async with self._tasks as tasks:
                self._conversation = tasks.create_task(
                    self._converse(context, resumption, is_resumed=is_resumed)
                )
                await asyncio.wait({self._conversation})
                events.close()
                for task in self._side:
                    task.cancel()
        finally:
            events.close()
            self.subscriptions.close()
            if session.holder is self:
                session.undelivered |= self.subscriptions.undelivered()
            self._sessions.leave(session, self)
        if self._close_code is not None:
            await self._close(self._close_code)

    async def refuse(self, error: OutliveError) -> None:
        """Send the reason why the client is not served (an error without a request), and close."""
        self._engine.redaction.finish(error)
        await self._outbox.send(text_frame(encode_error(NULL_ID, error)))
        await self._close(_POLICY_VIOLATION if isinstance(error, InvalidRequest) else _TRY_AGAIN_LATER)

    def supersede(self) -> dict[str, OutputFormat]:
        """Stop at once, because another connection takes over; return what was not delivered completely."""
        self._end(_SUPERSEDED)
        return self.subscriptions.undelivered()

    def _fail(self) -> None:
        """End because a follower broke down: the client comes back and continues at its cursor."""
        self._end(_INTERNAL_ERROR)

    def _end(self, code: int) -> None:
        self._close_code = code
        self.subscriptions.close()
        if self._conversation is not None:
            self._conversation.cancel()

    async def _close(self, code: int) -> None:
        with contextlib.suppress(TimeoutError, RuntimeError, WebSocketDisconnect):  # gone already, or stuck
            async with asyncio.timeout(_CLOSE_PATIENCE_S):
                await self._websocket.close(code)

    async def _converse(self, context: Context, resumption: Resumption, *, is_resumed: bool) -> None:
        """Greet the client, continue its processes, then answer until the socket ends.

        Outermost loop of the task.
        """
        try:
            session = context.session
            followed: list[Continuation] = []
            if is_resumed:
                followed = await continuations(context, resumption, session.undelivered)
            await self._outbox.send(text_frame(self._greeting(context, followed, is_resumed=is_resumed)))
            for known in followed:
                self.subscriptions.follow(known.process, known.cursor, known.form)
                session.undelivered.pop(known.process.process_id, None)
            await self._receive(context)
        except OutliveError as error:  # an impossible cursor, or a registry that does not answer
            await self.refuse(error)
        except Exception:
            _logger.exception("a connection failed", extra={"reference": secrets.token_hex(4)})
            self._close_code = _INTERNAL_ERROR

    def _greeting(self, context: Context, followed: list[Continuation], *, is_resumed: bool) -> bytes:
        """Return `connected` (promise S0.2)."""
        params: dict[str, object] = {
            "session_id": context.session.session_id,
            "version": __version__,
            "protocol": PROTOCOL,
            "capabilities": {
                "methods": sorted(methods()),
                "output": list(get_args(OutputMode)),
                "input": ["text", "base64", "binary"],
                "max_line_bytes": self._settings.max_line_bytes,
                "max_message_bytes": self._settings.max_message_bytes,
                "reconnect_grace": self._settings.reconnect_grace_s,
                "output_session": True,
                "backend": self._engine.settings.options.backend,
                "scope": context.access.scope.name.lower(),
            },
            "resumed": is_resumed,
            "processes": [process_view(known.process.record) for known in followed],
        }
        if self._engine.disk.degraded is not None:
            params["degraded"] = self._engine.disk.degraded
        return encode_notification("connected", params)

    async def _receive(self, context: Context) -> None:
        """Take frames until the socket ends."""
        for number in itertools.count(1):
            # Frames that have come already are received without a pause, 40 000 of them at once: other tasks
            # run in between.
            if number % TURN_REQUESTS == 0:
                await asyncio.sleep(0)
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            work = requested(parse_binary(message["bytes"]) if text is None else parse_frame(text))
            if early_s := self._take(context.access.principal, len(work.entries)):
                await asyncio.sleep(early_s)  # the client's further messages wait in its own buffers
            places = self._longs
            match work.concurrency:
                case Concurrency.IN_ORDER:
                    await self._answer(context, work)
                    continue
                case Concurrency.STARTS:
                    places = self._own_starts
                    if places.locked():
                        places = self._sessions.starts.of(context.access.principal)
                case Concurrency.LARGE:
                    places = self._large
                case Concurrency.LONG if self._longs.locked():
                    error = LimitExceeded(
                        "process_limit",
                        f"{_MAX_LONG} requests of this connection wait for their answers.",
                        hint="Wait for some of the answers first.",
                    )
                    if frames := work.refuse(error):
                        await self._outbox.send(frames)
                    continue
            # Beside the requests that follow, once there is a place for it.
            await places.acquire()
            self._spawn(self._answer(context, work, places))
            if work.concurrency is Concurrency.STARTS:
                # It has taken its session's place before the next request is looked at.
                await asyncio.sleep(0)

    async def _answer(
        self, context: Context, work: Requested, place: asyncio.Semaphore | None = None
    ) -> None:
        """Do what is asked and send the answer; then give back the place that it has taken."""
        try:
            frames, followups = await work.answer(context)
            if frames:
                await self._outbox.send(frames, followups)
            else:
                for followup in followups:
                    followup()
        finally:
            if place is not None:
                place.release()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run `work` in this connection's task group, until the connection ends."""
        task = self._tasks.create_task(work)
        self._side.add(task)
        task.add_done_callback(self._side.discard)
