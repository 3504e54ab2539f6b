"""What a POST to /mcp says, before anything is done: header rules and the JSON-RPC envelope. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

# The revisions with an initialize handshake; whatever else a header names is the SDK's to judge.
HANDSHAKE_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_ENVELOPE_KEY = "io.modelcontextprotocol/protocolVersion"  # in `_meta` of every request from 2026-07-28 on

_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600


@dataclass(frozen=True, slots=True)
class Bad:
    """A body that is no message: the JSON-RPC error that answers it, with the id where one was seen."""

    code: int
    message: str
    request_id: str | int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One JSON-RPC message. `request_id` has the type it was sent with; notifications have none.

    `outcome`: of a response, the object with its `result` or `error`; empty otherwise.
    """

    kind: Literal["request", "notification", "response"]
    method: str = ""
    params: Mapping[str, Any] | None = None
    request_id: str | int | None = None
    outcome: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_enveloped(self) -> bool:
        """Whether it says of itself that it belongs to a revision without handshake."""
        meta = (self.params or {}).get("_meta")
        return isinstance(meta, dict) and _ENVELOPE_KEY in meta and self.method != "initialize"

    @property
    def tool(self) -> str | None:
        """The tool that it calls; None for everything but tools/call."""
        name = (self.params or {}).get("name") if self.method == "tools/call" else None
        return name if isinstance(name, str) else None

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the tool; empty when they are missing or no object."""
        found = (self.params or {}).get("arguments")
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class Wants:
    """What the caller takes as an answer."""

    json: bool
    events: bool


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """Return the value of the first header of that (lower-case) name; None when there is none."""
    return next((value.decode("latin-1").strip() for key, value in headers if key == name), None)


def wants_of(accept: str | None, *, is_raw: bool) -> Wants:
    """Return what an Accept header asks for (RFC 9110, section 12.5.1, without weights).

    A raw caller gets JSON unless it names event streams and not JSON; where both are named, a background call is
    answered with events and every other one with JSON (promises S4.3, S4.11).
    """
    names = {part.partition(";")[0].strip().lower() for part in (accept or "").split(",")}
    if is_raw:
        events = "text/event-stream" in names
        return Wants(
            json=not events or bool(names & {"application/json", "application/*", "*/*"}), events=events
        )
    return Wants(
        json=bool(names & {"application/json", "application/*", "*/*"}),
        events=bool(names & {"text/event-stream", "text/*", "*/*"}),
    )


def parse_message(body: bytes) -> Message | Bad:
    """Return the one message of a body. Batches are of one old revision only and are refused. Never raises."""
    try:
        raw = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return Bad(_PARSE_ERROR, f"Parse error: {error}")
    if not isinstance(raw, dict):
        return Bad(_INVALID_REQUEST, "The body is one JSON-RPC message: a JSON object.")
    request_id = raw.get("id")
    if "id" in raw and (isinstance(request_id, bool) or not isinstance(request_id, str | int)):
        return Bad(_INVALID_REQUEST, "The id of a request is a string or a whole number.")
    if raw.get("jsonrpc") != "2.0":
        return Bad(_INVALID_REQUEST, 'A message carries "jsonrpc": "2.0".', request_id)
    if "method" not in raw:
        if request_id is not None and ("result" in raw) != ("error" in raw):
            return Message(kind="response", request_id=request_id, outcome=raw)
        return Bad(_INVALID_REQUEST, "A request names its method.", request_id)
    method, params = raw["method"], raw.get("params")
    if not isinstance(method, str) or not (params is None or isinstance(params, dict)):
        return Bad(_INVALID_REQUEST, "The method is a string, the params are an object.", request_id)
    kind: Literal["request", "notification"] = "notification" if request_id is None else "request"
    return Message(kind=kind, method=method, params=params, request_id=request_id)
