"""The table of methods: name -> the scope it needs, parameters, what answers, and whether others wait for that."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import TypeVar

import msgspec

from outlive.core.errors import ProtocolViolation
from outlive.core.process import Owner
from outlive.frontends.jsonrpc import questions, verbs
from outlive.frontends.jsonrpc import questions as approvals
from outlive.frontends.jsonrpc.context import Context, Result
from outlive.frontends.jsonrpc.questions import terminal_method
from outlive.operations.requests import decode_request
from outlive.policy.access import Scope
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
from outlive.protocols.terminal import requests
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
    scope: Scope,
    shape: type[_Params],
    handler: Callable[[Context, _Params, str | None], Awaitable[Result]],
    lane: Callable[[_Params], Concurrency] = lambda _: Concurrency.IN_ORDER,
) -> _Method:
    def bind(method: str, raw: bytes) -> BoundCall:
        params = decode_request(raw, shape)
        return BoundCall(method, lambda context, label: handler(context, params, label), lane(params), scope)

    return _Method(scope, shape, bind)


def _terminal(
    scope: Scope,
    shape: type[_Params],
    call: Callable[[TerminalCalls, _Params, Owner], Awaitable[dict[str, object]]],
) -> _Method:
    # A terminal may be somebody else's to answer for (an editor's): none of them is quick for certain.
    return _method(scope, shape, terminal_method(call), lambda _: Concurrency.LONG)


def _start_lane(params: ExecuteParams) -> Concurrency:
    return Concurrency.STARTS if params.concurrent else Concurrency.IN_ORDER


METHODS: Mapping[str, _Method] = MappingProxyType(
    {
        "execute": _method(Scope.RUN, ExecuteParams, verbs.execute, _start_lane),
        "control": _method(Scope.RUN, ControlParams, verbs.control),
        "attach": _method(Scope.READ, AttachParams, questions.attach),
        "list": _method(Scope.READ, ListParams, questions.list_processes),
        "get": _method(Scope.READ, GetParams, questions.get),
        "read": _method(Scope.READ, ReadParams, questions.read),
        # The engine serves the inputs of one process in the order of the calls, so these may run side by side.
        "write": _method(Scope.RUN, WriteParams, verbs.write, lambda _: Concurrency.LONG),
        "close_stdin": _method(Scope.RUN, ProcessParams, verbs.close_stdin, lambda _: Concurrency.LONG),
        "close_output": _method(Scope.RUN, CloseOutputParams, verbs.close_output),
        "release": _method(Scope.RUN, ReleaseParams, verbs.release),
        "resize": _method(Scope.RUN, ResizeParams, verbs.resize),
        "signal": _method(Scope.RUN, SignalParams, verbs.signal),
        "relabel": _method(Scope.RUN, RelabelParams, verbs.relabel),
        "remove": _method(Scope.RUN, RemoveParams, verbs.remove, lambda _: Concurrency.LONG),
        "approvals": _method(Scope.ADMIN, ApprovalsParams, approvals.approvals),
        "approve": _method(Scope.ADMIN, ApproveParams, approvals.approve, lambda _: Concurrency.LONG),
        "deny": _method(Scope.ADMIN, DenyParams, approvals.deny, lambda _: Concurrency.LONG),
        "events": _method(Scope.READ, EventsParams, questions.events),
        "nodes": _method(Scope.READ, NodesParams, questions.nodes),
        "wait": _method(Scope.READ, WaitParams, questions.wait, lambda _: Concurrency.LONG),
        "terminal_list": _terminal(Scope.READ, requests.ListTerminals, TerminalCalls.list),
        "terminal_create": _terminal(Scope.RUN, requests.CreateTerminal, TerminalCalls.create),
        "terminal_execute": _terminal(Scope.RUN, requests.ExecuteInTerminal, TerminalCalls.execute),
        "terminal_read": _terminal(Scope.READ, requests.ReadTerminal, TerminalCalls.read),
        "terminal_write": _terminal(Scope.RUN, requests.WriteToTerminal, TerminalCalls.write),
        "terminal_resize": _terminal(Scope.RUN, requests.ResizeTerminal, TerminalCalls.resize),
        "terminal_close": _terminal(Scope.RUN, requests.CloseTerminal, TerminalCalls.close),
    }
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
