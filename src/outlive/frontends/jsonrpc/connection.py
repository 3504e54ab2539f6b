"""One open WebSocket of a client: `Connection` reads requests, sees to their answers, and ends with the
socket.

A request goes in a straight line: `requested` finds its method and checks its parameters, `Requested.answer`
runs it, turns every failure into an error, and keeps a batch together.

`continuations` finds what goes on for a client that has come back: which processes, from where, in which
format.
"""

import asyncio
import contextlib
import itertools
import logging
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import get_args

import msgspec
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
    ProtocolViolation,
)
from outlive.core.events import AuditEvent
from outlive.core.values import dataclass
from outlive.engine import Engine, Process, ProcessFilter
from outlive.frontends.jsonrpc.context import Concurrency, Context, Method, Observe, Result
from outlive.frontends.jsonrpc.event_feed import EventFeed
from outlive.frontends.jsonrpc.methods import WITH_BYTES, methods
from outlive.frontends.jsonrpc.sessions import Sessions
from outlive.frontends.jsonrpc.subscriptions import OutputFormat, Subscriptions
from outlive.operations.requests import decode_request
from outlive.operations.table import all_operations
from outlive.policy.access import Access
from outlive.protocols.jsonrpc.answers import encode_batch, encode_error, encode_notification, encode_result
from outlive.protocols.jsonrpc.output import FrameHeads
from outlive.protocols.jsonrpc.params import OutputMode
from outlive.protocols.jsonrpc.requests import (
    MAX_BATCH_ANSWER_BYTES,
    NULL_ID,
    Batch,
    Request,
    RequestRefusal,
    Resumption,
    parse_binary,
    parse_frame,
)
from outlive.protocols.jsonrpc.views import process_view
from outlive.protocols.websocket_frames import binary_frame, text_frame
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

_TURN_REQUESTS = 32  # of which most take some 0.1 ms: then other tasks run
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


class _Entry(msgspec.Struct, frozen=True):
    """One request of a frame: its method with checked parameters, or the error that it gets instead.

    An error of the parameters has its method beside it: a caller that may not call a method at all learns
    that first, as over REST and MCP, whatever the parameters are.
    """

    request_id: bytes | None
    label: str | None = None
    method: Method | None = None
    params: msgspec.Struct | None = None
    payload: memoryview | None = None  # what a binary frame brought with it
    error: OutliveError | None = None

    async def run(self, context: Context) -> Result | OutliveError:
        """Return what the method gives, or why it does not; raises nothing but a cancellation."""
        method = self.method
        if method is None:
            assert self.error is not None
            return self.error
        begun = time.monotonic()
        try:
            context.access.require(all_operations()[method.name].scope)
            if self.error is not None:
                return self.error
            if self.payload is None:
                result = await method.answer(context, self.params, self.label)
            else:
                result = await WITH_BYTES[method.name][1](context, self.params, self.payload)
        except OutliveError as error:
            if isinstance(error, AccessDenied):
                by, details = context.owner(self.label), {"path": f"/ws/mcp {method.name}"}
                context.engine.events.publish(
                    AuditEvent(what="access", by=by, decision="denied", reason=error.code, details=details)
                )
            await context.engine.events.recorded()
            return error
        except Exception:
            reference = secrets.token_hex(4)
            _logger.exception("a request failed", extra={"reference": reference})
            text = f"Something went wrong (reference {reference})."
            return OutliveError("internal_error", text, details={"reference": reference})
        context.observe(method.name, time.monotonic() - begun)
        return result


class Requested(msgspec.Struct, frozen=True, kw_only=True):
    """What one frame asks for. `concurrency` says how it may run beside other frames of its connection."""

    entries: Sequence[_Entry]
    is_batch: bool
    concurrency: Concurrency

    async def answer(self, context: Context) -> tuple[bytes, list[Callable[[], None]]]:
        """Do what is asked, one request after the other.

        Return frames for one write, and what happens behind it.

        The responses of a batch lie in memory until all are there: what would come behind
        `MAX_BATCH_ANSWER_BYTES` is not done.
        """
        responses: list[bytes] = []
        notifications: list[bytes] = []
        followups: list[Callable[[], None]] = []
        answered_bytes = 0
        for number, entry in enumerate(self.entries, 1):
            is_full = answered_bytes > MAX_BATCH_ANSWER_BYTES and entry.request_id is not None
            result = _batch_is_full() if is_full else await entry.run(context)
            before = len(responses)
            if isinstance(result, OutliveError):
                context.engine.redaction.finish(result, getattr(entry.params, "env_secrets", {}))
                if entry.request_id is not None:
                    responses.append(encode_error(entry.request_id, result))
            else:
                if entry.request_id is not None and result.payload is None:
                    responses.append(encode_result(entry.request_id, result.members))
                elif entry.request_id is not None and self.is_batch:
                    error = ProtocolViolation("binary_frame", "Bytes are asked for in a request of its own.")
                    responses.append(encode_error(entry.request_id, error))
                elif entry.request_id is not None and result.payload is not None:
                    head = encode_result(entry.request_id, result.members)
                    return binary_frame(b"\n".join((head, result.payload))), followups
                notifications += result.notifications
                if result.then is not None:
                    followups.append(result.then)
            answered_bytes += sum(map(len, responses[before:]))
            if number % _TURN_REQUESTS == 0:
                await asyncio.sleep(0)
        return self._framed(responses, notifications), followups

    def refuse(self, error: OutliveError) -> bytes:
        """Return the frames of the answer when nothing of this is done."""
        asked = [one.request_id for one in self.entries if one.request_id is not None]
        return self._framed([encode_error(request_id, error) for request_id in asked], [])

    def _framed(self, responses: list[bytes], notifications: list[bytes]) -> bytes:
        if self.is_batch and responses:
            responses = [encode_batch(responses)]
        return b"".join(map(text_frame, responses + notifications))


def _batch_is_full() -> LimitExceeded:
    return LimitExceeded(
        "batch_limit", f"This batch was answered with {MAX_BATCH_ANSWER_BYTES} bytes already."
    )


def requested(frame: Request | RequestRefusal | Batch) -> Requested:
    """Return what a parsed frame asks for; methods are found and parameters checked here."""
    if isinstance(frame, Batch):
        found = [_entry_of(one) for one in frame.entries]
        return Requested(
            entries=[entry for entry, _ in found],
            is_batch=True,
            concurrency=max(concurrency for _, concurrency in found),
        )
    entry, concurrency = _entry_of(frame)
    return Requested(entries=(entry,), is_batch=False, concurrency=concurrency)


def _entry_of(request: Request | RequestRefusal) -> tuple[_Entry, Concurrency]:
    """Return a request with its method and checked parameters, and how it may run beside others."""
    if isinstance(request, RequestRefusal):
        return _Entry(request.request_id, error=request.error), Concurrency.IN_ORDER
    request_id, method = request.request_id, methods().get(request.method)
    error: OutliveError
    if method is None:
        error = ProtocolViolation("method_not_found", f"There is no method {request.method[:40]!r}.")
        return _Entry(request_id, error=error), Concurrency.IN_ORDER
    shape = method.shape
    if request.payload is not None:
        if method.name not in WITH_BYTES:
            error = ProtocolViolation("binary_frame", f"{method.name} is asked for in a text frame.")
            return _Entry(request_id, error=error), Concurrency.IN_ORDER
        shape = WITH_BYTES[method.name][0]
    try:
        params = decode_request(request.params, shape)
    except InvalidRequest as refusal:
        return _Entry(request_id, request.label, method, error=refusal), Concurrency.IN_ORDER
    # A start that wants the session's one place is answered in order; only those beside it are not.
    concurrency = method.concurrency if getattr(params, "concurrent", True) else Concurrency.IN_ORDER
    return _Entry(request_id, request.label, method, params, request.payload), concurrency


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
            greeting = await self._greeting(context, followed, is_resumed=is_resumed)
            await self._outbox.send(text_frame(greeting))
            for known in followed:
                self.subscriptions.follow(known.process, known.cursor, known.form)
                session.undelivered.pop(known.process.process_id, None)
            await self._receive(context)
        except OutliveError as error:  # an impossible cursor, or a registry that does not answer
            await self.refuse(error)
        except Exception:
            _logger.exception("a connection failed", extra={"reference": secrets.token_hex(4)})
            self._close_code = _INTERNAL_ERROR

    async def _greeting(self, context: Context, followed: list[Continuation], *, is_resumed: bool) -> bytes:
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
            **await self._engine.disk.view(),
        }
        return encode_notification("connected", params)

    async def _receive(self, context: Context) -> None:
        """Take frames until the socket ends."""
        for number in itertools.count(1):
            # Frames that have come already are received without a pause, 40 000 of them at once: other tasks
            # run in between.
            if number % _TURN_REQUESTS == 0:
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
