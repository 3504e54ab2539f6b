"""Requests to text and frames to values (docs/jsonrpc.md, from the client's side). Pure.

Imports the standard library only: a program that starts one command should start quickly itself. Which
request an answer belongs to is found by `channel`.
"""

import binascii
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from outlive import PROTOCOL, __version__
from outlive.client.results import (
    Completion,
    FoundLine,
    FoundLines,
    Gap,
    Output,
    Page,
    PendingApproval,
    ProcessEvent,
    ProcessInfo,
    ProcessStats,
    ServiceInfo,
    StackInfo,
    Stream,
)
from outlive.core.cursor import Cursor
from outlive.core.documents import decode_json
from outlive.core.errors import OutliveError, ProtocolViolation, error_from_slug
from outlive.core.values import dataclass, names_of

# Larger pieces gain nothing: copying a megabyte takes a millisecond, far more than the round trip. The server
# holds a piece twice.
_MAX_INPUT_BYTES = 1024 * 1024
_MAX_FRAME_BYTES = 64 << 20  # a page of output at its largest has some 22 MiB
_INPUT_HEAD_BYTES = 4096  # more than the line of JSON before the bytes can take

_T = TypeVar("_T")
_Object = Mapping[str, Any]  # a JSON object from the server; reading a missing member raises KeyError


@dataclass(frozen=True, slots=True)
class ServerHello:
    """The server's first message.

    `backend` is the backend of commands that name none. `input_bytes`: how much input a binary frame may
    carry.
    """

    session_id: str
    is_resumed: bool
    backend: str
    input_bytes: int
    scope: str  # how much this client may do
    degraded: str | None = None  # why its disk accepts no writes now


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """The answer to a request; `request_id` None: to none in particular. Exactly one of the others is set."""

    request_id: int | None
    result: _Object | None
    error: OutliveError | None


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """Output as it was sent: bytes of a stream up to offset `end`, in which `redacted` secrets were replaced
    by stars.
    """

    process_id: str
    stream: Stream
    data: bytes
    end: int
    redacted: int = 0


@dataclass(frozen=True, slots=True)
class OutputMissing:
    """Output that the log no longer holds: `start` to `end` of a stream."""

    process_id: str
    stream: Stream
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Begun:
    """A process runs from now on; it may have waited for its turn."""

    process_id: str
    pid: int | None


@dataclass(frozen=True, slots=True)
class Ended:
    """A process's completion; no more output of this subscription follows."""

    process_id: str
    completion: Completion


@dataclass(frozen=True, slots=True)
class Attached:
    """A process's state, as the wire has it, when it was attached beside others.

    Its order among the events matters.
    """

    process_id: str
    view: Mapping[str, Any]


OutputMessage = OutputPiece | OutputMissing | Ended
FollowedMessage = OutputMessage | ProcessEvent | Attached | Begun
Message = ServerHello | ServerAnswer | FollowedMessage | None


def encode_bytes(
    request_id: int, method: str, params: Mapping[str, object], data: bytes | memoryview
) -> bytes:
    """Return a request with bytes behind it as one binary frame."""
    return b"".join((encode_request(request_id, method, params).encode(), b"\n", data))


def encode_request(request_id: int, method: str, params: Mapping[str, object]) -> str:
    """Return a request as the text of one frame."""
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def read_frame(frame: str | bytes) -> Message:
    """Return the message in a frame; None for one that is not for this client.

    Raises:
        ProtocolViolation: The frame does not come from an outlive server, or (`protocol_mismatch`) from one
        of another version.
    """
    try:
        if isinstance(frame, bytes):
            head, _, data = frame.partition(b"\n")
            message = decode_json(head)
            if "result" in message:
                return ServerAnswer(message.get("id"), {**message["result"], "data": data}, None)
            params = message["params"]
            redacted = params.get("redacted", 0)
            return OutputPiece(params["process_id"], params["type"], data, params["end"], redacted)
        return _read_message(decode_json(frame, max_bytes=_MAX_FRAME_BYTES))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = "What answers there does not speak outlive's JSON-RPC."
        raise ProtocolViolation("invalid_request", text, hint="Check the address.") from error


def _read_message(message: _Object) -> Message:
    if "method" not in message:
        error = message.get("error")
        return ServerAnswer(
            message.get("id"), message.get("result"), None if error is None else read_error(error)
        )
    params = message["params"]
    match message["method"]:
        case "connected":
            session_id = params["session_id"]
            _check_protocol(params)
            offered = params["capabilities"]
            return ServerHello(
                session_id,
                is_resumed=params["resumed"],
                backend=offered["backend"],
                input_bytes=_input_bytes(offered["max_message_bytes"]),
                scope=offered["scope"],
                degraded=params.get("degraded"),
            )
        case "process.started":
            return Begun(params["process_id"], params["pid"])
        case "process.gap":
            return OutputMissing(params["process_id"], params["type"], params["from"], params["to"])
        case "process.completed":
            return Ended(params["process_id"], _read_completion(params))
        case "event":
            return _read_event(params)
    return None


def _input_bytes(message_bytes: int) -> int:
    return min(_MAX_INPUT_BYTES, max(message_bytes - _INPUT_HEAD_BYTES, message_bytes // 2))


def _check_protocol(greeting: _Object) -> None:
    """Let pass what a server of our own protocol has said: nothing else is tried with another one."""
    if (spoken := greeting.get("protocol")) != PROTOCOL:
        text = (
            f"The server there (outlive {greeting.get('version')}) speaks protocol {spoken}, and "
            f"outlive {__version__} here protocol {PROTOCOL}."
        )
        raise ProtocolViolation("protocol_mismatch", text)


def _read_completion(params: _Object) -> Completion:
    return _read(Completion, params, **_end_of(params))


def _read_event(params: _Object) -> ProcessEvent:
    process = params["process"]
    info = None if process is None else read_info(process)
    return _read(ProcessEvent, params, at=datetime.fromisoformat(params["at"]), info=info)


def _end_of(view: _Object) -> dict[str, int | None]:
    """Return exit code and signal from the wire's one number (promise S0.9)."""
    code: int | None = view["exit_code"]
    if code is None or code >= 0:
        return {"exit_code": code, "exit_signal": None}
    return {"exit_code": None, "exit_signal": -code}


def read_error(error: _Object) -> OutliveError:
    """Return the error that the server reported, of the family that its reason belongs to."""
    data = dict(error.get("data") or {})
    reason, hint = str(data.pop("reason", "")), str(data.pop("hint", ""))
    return error_from_slug(reason, str(error["message"]), hint=hint, details=data)


# The wire's names of members that are called otherwise here, in units or as claims.
_WIRE_NAMES = {
    "is_blocked": "blocked",
    "is_complete": "completed",
    "is_stalled": "stalled",
    "is_detached": "detached",
    "is_unknown": "unknown",
    "is_reachable": "reachable",
    "has_gaps": "gaps",
    "timeout_s": "timeout",
    "grace_s": "grace",
    "cpu_s": "cpu",
    "secret_names": "env_secrets",
    "is_at_prompt": "at_prompt",
    "is_person_asked": "person_asked",
    "is_session_over": "session_over",
}
# How members are read that are no plain JSON here; null stays None.
_READERS: Mapping[str, Callable[[Any], object]] = {
    "cursor": Cursor.parse,
    **dict.fromkeys(
        ("created_at", "started_at", "ended_at", "since", "expires_at", "until"), datetime.fromisoformat
    ),
    **dict.fromkeys(("features", "secret_names", "pids", "ports", "argv", "variables", "after"), tuple),
}


def _read(kind: type[_T], view: _Object, **members: object) -> _T:
    """Return a value of a class of `results`, whose fields are named as the view's members; `members` are
    read already.

    Members that have a default may be absent: they are where they do not apply.
    """
    for name in names_of(kind):
        wire_name = _WIRE_NAMES.get(name, name)
        if name in members or wire_name not in view:
            continue
        value, reader = view[wire_name], _READERS.get(name)
        members[name] = value if reader is None or value is None else reader(value)
    return kind(**members)


def read_info(view: _Object) -> ProcessInfo:
    """Return a process as `get`, `list` and `wait` show it."""
    stats = view.get("stats")
    return _read(
        ProcessInfo,
        view,
        **_end_of(view),
        is_closed=view["streams"] == "closed",
        profile=view["sandbox"]["profile"],
        features=tuple(view["sandbox"]["features"]),
        stats=None if stats is None else _read(ProcessStats, stats),
    )


def read_approval(view: _Object) -> PendingApproval:
    """Return a command that waits for an approval, as `approvals` shows it."""
    return _read(PendingApproval, view)


def read_found(result: _Object) -> FoundLines:
    """Return what `search` answers."""
    lines = tuple(
        _read(FoundLine, one, stream=one["type"], before=tuple(one["before"]), after=tuple(one["after"]))
        for one in result["matches"]
    )
    return _read(FoundLines, result, matches=lines)


def read_stacks(result: _Object) -> list[StackInfo]:
    """Return services as every method about them answers."""
    return [
        _read(
            StackInfo,
            stack,
            services=tuple(_read(ServiceInfo, one, **_end_of(one)) for one in stack["services"]),
        )
        for stack in result["stacks"]
    ]


def read_page(result: _Object, cursor: Cursor) -> Page:
    """Return the answer to `read` with encoding "base64", asked for at `cursor`."""
    items: list[Output | Gap] = []
    ends = {"stdout": cursor.stdout, "stderr": cursor.stderr}
    for chunk in result["chunks"]:
        stream: Stream = chunk["type"]
        ends[stream] = chunk["end"]
        behind = Cursor(ends["stdout"], ends["stderr"])
        if chunk.get("gap"):
            items.append(Gap(stream, chunk["from"], chunk["to"], behind))
        else:
            data = binascii.a2b_base64(chunk["data"])
            items.append(Output(stream, data, behind, chunk.get("redacted", 0)))
    return Page(
        items=tuple(items),
        cursor=Cursor.parse(result["cursor"]),
        has_more=result["more"],
        is_complete=result["completed"],
    )
