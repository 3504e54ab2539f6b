"""Frames to requests (JSON-RPC 2.0, sections 4 and 6), and what a returning client says in its URL
(`Resumption`).

A frame is one request, one refusal, or a batch of both. Parameters stay undecoded bytes here: `params` checks
them once the method is known. The URL is `?session_id=…&cursor=…&output=…` (promise S0.14).
"""

import contextlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

import msgspec

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import InvalidRequest, OutliveError, ProtocolViolation
from outlive.core.values import dataclass, field
from outlive.operations.refusals import broken_json
from outlive.protocols.jsonrpc.params import OutputMode
from outlive.protocols.request_ids import find_request_id

MAX_BATCH = 1000  # requests in one array; their bytes are bounded by the frame's size
MAX_BATCH_ANSWER_BYTES = 16 * 1024 * 1024  # of all its answers; what is asked behind them is refused
NULL_ID = b"null"
_VERSION = b'"2.0"'
_NO_PARAMS = (b"", b"null")
_ID_STARTS = b'"-0123456789n'  # a string, a number or null; section 4 allows nothing else


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A well-formed request.

    `request_id` is the JSON text of the id, None for a notification; `params` JSON text.

    `payload` are the bytes behind the JSON of a binary frame; None for a request that came as text.
    """

    method: str
    params: bytes
    request_id: bytes | None
    payload: memoryview | None = None

    @property
    def label(self) -> str | None:
        """The id as a plain string, by which the same request is named elsewhere ("3" and 3 are the same)."""
        if self.request_id is None or self.request_id == NULL_ID:
            return None
        if self.request_id[:1] == b'"':
            return msgspec.json.decode(self.request_id, type=str)
        return self.request_id.decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefusal:
    """Something that is no request, and the error with which it is answered."""

    request_id: bytes
    error: OutliveError


@dataclass(frozen=True, slots=True)
class Batch:
    """An array of requests, answered by one array of responses (by none if all are notifications)."""

    entries: tuple[Request | RequestRefusal, ...]


# The usual request, decoded in one step; whatever does not fit is looked at member by member to find the
# right error.
class _Flawless(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    method: str
    id: msgspec.Raw = msgspec.Raw()
    params: msgspec.Raw = msgspec.Raw()


class _Envelope(msgspec.Struct):
    jsonrpc: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    method: msgspec.Raw = msgspec.Raw()
    params: msgspec.Raw = msgspec.Raw()


_USUAL = msgspec.json.Decoder(_Flawless)
_FRAME = msgspec.json.Decoder(_Envelope | list[msgspec.Raw])
_ENTRY = msgspec.json.Decoder(_Envelope)


def parse_frame(text: str) -> Request | RequestRefusal | Batch:
    """Return what a text frame asks for; never raises."""
    try:
        request = _USUAL.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _parse_unusual(text)
    request_id, params = bytes(request.id), bytes(request.params)
    if request_id and request_id[0] not in _ID_STARTS:
        return _parse_unusual(text)
    return Request(
        method=request.method,
        params=params if params not in _NO_PARAMS else b"{}",
        request_id=request_id or None,
    )


def parse_binary(frame: bytes | bytearray) -> Request | RequestRefusal:
    """Return what a binary frame asks for; never raises.

    Such a frame is the JSON text of one request, one newline (0x0A, which that JSON does not contain), then
    bytes up to the end of the frame: the same form as binary output. These bytes are not copied, so the frame
    must not change afterwards.
    """
    # The first newline ends the JSON, since JSON text of a request on one line contains none.
    end = frame.find(b"\n")
    head, payload = frame[:end] if end >= 0 else b"", memoryview(frame)[end + 1 :]
    if head.startswith(b"{"):
        with contextlib.suppress(UnicodeDecodeError):
            request = parse_frame(head.decode())
            if isinstance(request, Request):
                return msgspec.structs.replace(request, payload=payload)
            if isinstance(request, RequestRefusal):
                return request
    return RequestRefusal(
        request_id=_found_id(frame),
        error=ProtocolViolation("binary_frame", "A binary frame begins with the JSON text of one request."),
    )


def _parse_unusual(text: str) -> Request | RequestRefusal | Batch:
    """Return the batch in a frame, or the error that fits it."""
    try:
        parsed = _FRAME.decode(text)
    except msgspec.ValidationError:
        return _refusal("A request is a JSON object, a batch an array of them.")
    except (msgspec.DecodeError, RecursionError) as error:
        sentence = broken_json(error)  # a nesting that is too deep for the stack counts as no JSON, too
        request_id = _found_id(text.encode(errors="replace"))
        return RequestRefusal(request_id=request_id, error=ProtocolViolation("parse_error", f"{sentence}."))
    if isinstance(parsed, _Envelope):
        return _request(parsed)
    if not parsed:
        return _refusal("A batch needs at least one request.")
    if len(parsed) > MAX_BATCH:
        return _refusal(f"A batch may hold {MAX_BATCH} requests, this one has {len(parsed)}.")
    return Batch(tuple(_entry(raw) for raw in parsed))


def _found_id(frame: bytes | bytearray) -> bytes:
    found = find_request_id(frame)
    return NULL_ID if found is None else msgspec.json.encode(found)


def _entry(raw: msgspec.Raw) -> Request | RequestRefusal:
    try:
        return _request(_ENTRY.decode(raw))
    except msgspec.ValidationError:
        return _refusal("A request is a JSON object.")


def _request(envelope: _Envelope) -> Request | RequestRefusal:
    request_id = bytes(envelope.id)
    if request_id and request_id[0] not in _ID_STARTS:
        return _refusal("The id of a request is a string, a number or null.")
    # An error is reported under the request's own id, if that much could be read (section 5).
    refused_id = request_id or NULL_ID
    if bytes(envelope.jsonrpc) != _VERSION:
        return _refusal('A request carries "jsonrpc": "2.0".', refused_id)
    method = bytes(envelope.method)
    if method[:1] != b'"':
        return _refusal("A request names its method as a string.", refused_id)
    params = bytes(envelope.params)
    return Request(
        method=msgspec.json.decode(method, type=str),
        params=params if params not in _NO_PARAMS else b"{}",
        request_id=request_id or None,
    )


def _refusal(sentence: str, request_id: bytes = NULL_ID) -> RequestRefusal:
    return RequestRefusal(request_id=request_id, error=ProtocolViolation("invalid_request", sentence))


_MODES: tuple[OutputMode, ...] = get_args(OutputMode)
_MAX_CURSORS = 1000  # in one URL


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """Where to continue.

    `cursor` belongs to the process that the session started last, `named` to the processes that it names; the
    output of a process with neither is sent from its beginning. `output` None keeps each process's own way of
    output.
    """

    session_id: str = ""
    cursor: Cursor | None = None
    named: Mapping[str, Cursor] = field(default_factory=lambda: MappingProxyType({}))
    output: OutputMode | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> "Resumption":
        """Read the members of a query string; `cursor` is one cursor or
        "process_id:cursor,process_id:cursor".

        Raises:
            InvalidRequest: A text is no cursor, or the output mode is unknown.
        """
        session_id, text = query.get("session_id", ""), query.get("cursor", "")
        output = next((mode for mode in _MODES if mode == query.get("output")), None)
        if output is None and query.get("output"):
            raise InvalidRequest("invalid_params", f"output is one of {', '.join(_MODES)}.")
        # A process id contains no colon and a cursor neither, so one colon tells the two forms apart.
        if ":" not in text:
            cursor = Cursor.parse(text) if text else None
            return cls(session_id=session_id, cursor=cursor, output=output)
        pairs = text.split(",")
        if len(pairs) > _MAX_CURSORS:
            raise InvalidRequest("invalid_cursor", f"At most {_MAX_CURSORS} cursors fit into one URL.")
        named: dict[str, Cursor] = {}
        for pair in pairs:
            process_id, _, position = pair.partition(":")
            named[process_id.strip()] = Cursor.parse(position.strip())
        return cls(session_id=session_id, named=MappingProxyType(named), output=output)

    def position(self, process_id: str) -> Cursor:
        """Return where a process continues to which `cursor` does not belong."""
        return self.named.get(process_id, BEGINNING)
