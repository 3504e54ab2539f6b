"""The table of methods: the operation of that name, parameters, what answers, and whether others wait for that."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import TypeVar

import msgspec

from outlive.core.errors import InvalidRequest, ProtocolViolation
from outlive.core.process import Owner
from outlive.frontends.jsonrpc import questions, verbs
from outlive.frontends.jsonrpc import questions as approvals
from outlive.frontends.jsonrpc.context import Context, Result
from outlive.frontends.jsonrpc.questions import terminal_method
from outlive.operations.requests import decode_request
from outlive.operations.table import OPERATIONS
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
