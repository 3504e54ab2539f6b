"""The table of methods: the operation of that name, parameters, what answers, and whether others wait for that.

Requests to answers: runs what was asked, turns every failure into an error, keeps a batch together.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import TypeVar

import msgspec

from outlive.core.errors import AccessDenied, InvalidRequest, OutliveError, ProtocolViolation
from outlive.core.events import AuditEvent
from outlive.core.process import Owner
from outlive.frontends.jsonrpc import questions, verbs
from outlive.frontends.jsonrpc import questions as approvals
from outlive.frontends.jsonrpc.context import Context, Result
from outlive.frontends.jsonrpc.questions import terminal_method
from outlive.operations.requests import decode_request
from outlive.operations.table import OPERATIONS
from outlive.policy.access import Scope
from outlive.protocols.jsonrpc.answers import encode_batch, encode_error, encode_result
from outlive.protocols.jsonrpc.params import (
    ApprovalsParams,
    ApproveParams,
    AttachParams,
    CloseOutputParams,
    ControlParams,
    DenyParams,
    EventsParams,
    ExecuteParams,
    GetParams,
    ListParams,
    NodesParams,
    ProcessParams,
    ReadParams,
    RelabelParams,
    ReleaseParams,
    RemoveParams,
    ResizeParams,
    SignalParams,
    WaitParams,
    WriteParams,
)
from outlive.protocols.jsonrpc.requests import Batch, Request, RequestRefusal
from outlive.protocols.terminal import requests
from outlive.protocols.websocket_frames import text_frame
from outlive.server.terminal_calls import TerminalCalls

_Params = TypeVar("_Params", bound=msgspec.Struct)


class Concurrency(IntEnum):
    """How a request runs beside the others of its connection; a batch as the last of these that one of its requests has."""

    IN_ORDER = 0  # the next request is read after the answer: quick, and the order matters
    STARTS = 1  # side by side, a bounded number: the next ones wait
    LONG = 2  # side by side for as long as it takes: too many are refused


class BoundCall(msgspec.Struct, frozen=True):
    """A request with checked parameters, ready to run."""

    method: str
    run: Callable[[Context, str | None], Awaitable[Result]]
    lane: Concurrency
    scope: Scope


@dataclass(frozen=True, slots=True)
class _Method:
    scope: Scope
    shape: type[msgspec.Struct]
    bind: Callable[[str, bytes], BoundCall]


def _method(
    name: str,
    shape: type[_Params],
    handler: Callable[[Context, _Params, str | None], Awaitable[Result]],
    lane: Callable[[_Params], Concurrency] = lambda _: Concurrency.IN_ORDER,
) -> tuple[str, _Method]:
    scope = OPERATIONS[name].scope

    def bind(method: str, raw: bytes) -> BoundCall:
        params = decode_request(raw, shape)
        return BoundCall(method, lambda context, label: handler(context, params, label), lane(params), scope)

    return name, _Method(scope, shape, bind)


def _terminal(
    name: str,
    shape: type[_Params],
    call: Callable[[TerminalCalls, _Params, Owner], Awaitable[dict[str, object]]],
) -> tuple[str, _Method]:
    # A terminal may be somebody else's to answer for (an editor's): none of them is quick for certain.
    return _method(name, shape, terminal_method(call), lambda _: Concurrency.LONG)


def _start_lane(params: ExecuteParams) -> Concurrency:
    return Concurrency.STARTS if params.concurrent else Concurrency.IN_ORDER


METHODS: Mapping[str, _Method] = MappingProxyType(
    dict(
        [
            _method("execute", ExecuteParams, verbs.execute, _start_lane),
            _method("control", ControlParams, verbs.control),
            _method("attach", AttachParams, questions.attach),
            _method("list", ListParams, questions.list_processes),
            _method("get", GetParams, questions.get),
            _method("read", ReadParams, questions.read),
            # The engine serves the inputs of one process in the order of the calls, so these may run side by side.
            _method("write", WriteParams, verbs.write, lambda _: Concurrency.LONG),
            _method("close_stdin", ProcessParams, verbs.close_stdin, lambda _: Concurrency.LONG),
            _method("close_output", CloseOutputParams, verbs.close_output),
            _method("release", ReleaseParams, verbs.release),
            _method("resize", ResizeParams, verbs.resize),
            _method("signal", SignalParams, verbs.signal),
            _method("relabel", RelabelParams, verbs.relabel),
            _method("remove", RemoveParams, verbs.remove, lambda _: Concurrency.LONG),
            _method("approvals", ApprovalsParams, approvals.approvals),
            _method("approve", ApproveParams, approvals.approve, lambda _: Concurrency.LONG),
            _method("deny", DenyParams, approvals.deny, lambda _: Concurrency.LONG),
            _method("events", EventsParams, questions.events),
            _method("nodes", NodesParams, questions.nodes),
            _method("wait", WaitParams, questions.wait, lambda _: Concurrency.LONG),
            _terminal("terminal_list", requests.ListTerminals, TerminalCalls.list),
            _terminal("terminal_create", requests.CreateTerminal, TerminalCalls.create),
            _terminal("terminal_execute", requests.ExecuteInTerminal, TerminalCalls.execute),
            _terminal("terminal_read", requests.ReadTerminal, TerminalCalls.read),
            _terminal("terminal_write", requests.WriteToTerminal, TerminalCalls.write),
            _terminal("terminal_resize", requests.ResizeTerminal, TerminalCalls.resize),
            _terminal("terminal_close", requests.CloseTerminal, TerminalCalls.close),
        ]
    )
)


def prepare(method: str, params: bytes, payload: memoryview | None = None) -> BoundCall:
    """Return the call that a request asks for; `payload` is what a binary frame brought with it.

    Raises:
        ProtocolViolation: `method_not_found`; `binary_frame`: the method takes no bytes.
        InvalidRequest: The parameters are impossible.
    """
    known = METHODS.get(method)
    if known is None:
        raise ProtocolViolation("method_not_found", f"There is no method {method[:40]!r}.")
    if payload is None:
        return known.bind(method, params)
    if method != "write":
        raise ProtocolViolation("binary_frame", f"{method} is asked for in a text frame.")
    asked = decode_request(params, ProcessParams)
    return BoundCall(
        method,
        lambda context, _label: verbs.write_bytes(context, asked, payload),
        Concurrency.LONG,
        known.scope,
    )


def refuse(method: str, error: InvalidRequest) -> BoundCall:
    """Return the call of a method that `prepare` refused for its parameters: it fails, once its caller's scope was checked.

    A caller that may not call a method at all learns that first, as over REST and MCP, whatever the parameters are.
    """

    async def fail(_context: Context, _label: str | None) -> Result:
        raise error

    return BoundCall(method, fail, Concurrency.IN_ORDER, METHODS[method].scope)


WORK_A_TURN = 32  # requests, of which most take some 0.1 ms: then others are looked at
_logger = logging.getLogger(__name__)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What goes out for one request or batch: frames for one write, and what happens behind it."""

    frames: bytes
    followups: Sequence[Callable[[], None]] = ()


class _Outcome(msgspec.Struct, frozen=True):
    """One request's part: its response (None for a notification), what follows it, what happens behind it."""

    response: bytes | None
    notifications: tuple[bytes, ...] = ()
    then: Callable[[], None] | None = None


class _Job(msgspec.Struct, frozen=True):
    """One entry: a prepared call, or the error that it got instead."""

    request_id: bytes | None
    label: str | None
    call: BoundCall | None
    error: OutliveError | None

    async def run(self, context: Context) -> _Outcome:
        """Return the outcome; raises nothing but a cancellation."""
        error = self.error
        if self.call is not None:
            begun = time.monotonic()
            try:
                context.access.require(self.call.scope)
                reply = await self.call.run(context, self.label)
            except OutliveError as refusal:
                error = refusal
                if isinstance(error, AccessDenied):
                    path = {"path": f"/ws/mcp {self.call.method}"}
                    by = context.owner(self.label)
                    context.engine.events.publish(
                        AuditEvent(what="access", by=by, decision="denied", reason=error.code, details=path)
                    )
            except Exception:
                reference = secrets.token_hex(4)
                _logger.exception("a request failed", extra={"reference": reference})
                error = OutliveError(
                    "internal_error",
                    f"Something went wrong (reference {reference}).",
                    details={"reference": reference},
                )
            else:
                context.observe(self.call.method, time.monotonic() - begun)
                response = None if self.request_id is None else encode_result(self.request_id, reply.result)
                return _Outcome(response, reply.notifications, reply.then)
        if error is None:
            raise AssertionError("a job without a call has an error")
        return _Outcome(None if self.request_id is None else encode_error(self.request_id, error))


class RequestBatch:
    """What one text frame asks for. `lane` tells how it may run beside other frames of its connection."""

    __slots__ = ("_is_batch", "_jobs", "lane")

    def __init__(self, jobs: Sequence[_Job], *, is_batch: bool) -> None:
        """Keep prepared jobs; made by `work_of`."""
        self._jobs = jobs
        self._is_batch = is_batch
        self.lane = max([job.call.lane for job in jobs if job.call is not None], default=Concurrency.IN_ORDER)

    def __len__(self) -> int:
        """Return how many requests it is."""
        return len(self._jobs)

    def refuse(self, error: OutliveError) -> Answer:
        """Return the answer when nothing of this is done."""
        return self._answer(
            [
                _Outcome(None if job.request_id is None else encode_error(job.request_id, error))
                for job in self._jobs
            ]
        )

    async def run(self, context: Context) -> Answer:
        """Do what is asked, one entry after the other."""
        outcomes = []
        for number, job in enumerate(self._jobs, 1):
            outcomes.append(await job.run(context))
            if number % WORK_A_TURN == 0:
                await asyncio.sleep(0)
        return self._answer(outcomes)

    def _answer(self, outcomes: Sequence[_Outcome]) -> Answer:
        responses: list[bytes] = []
        notifications: list[bytes] = []
        followups: list[Callable[[], None]] = []
        for outcome in outcomes:
            if outcome.response is not None:
                responses.append(outcome.response)
            notifications += outcome.notifications
            if outcome.then is not None:
                followups.append(outcome.then)
        if self._is_batch and responses:
            responses = [encode_batch(responses)]
        return Answer(frames=b"".join(map(text_frame, responses + notifications)), followups=followups)


def work_of(frame: Request | RequestRefusal | Batch) -> RequestBatch:
    """Return the work in a parsed frame; parameters are checked here."""
    if isinstance(frame, Batch):
        return RequestBatch([_job(entry) for entry in frame.entries], is_batch=True)
    return RequestBatch([_job(frame)], is_batch=False)


def _job(entry: Request | RequestRefusal) -> _Job:
    if isinstance(entry, RequestRefusal):
        return _Job(entry.request_id, None, None, entry.error)
    try:
        call = prepare(entry.method, entry.params, entry.payload)
    except InvalidRequest as error:
        call = refuse(entry.method, error)
    except OutliveError as error:
        return _Job(entry.request_id, None, None, error)
    return _Job(entry.request_id, entry.label, call, None)
