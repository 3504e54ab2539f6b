"""JSON-RPC messages as MCP sends them: `read_message`, errors, and the id in bytes that are no message. Pure.

Standard library only, and decoded JSON goes in: the relay, which starts in a few milliseconds, reads its
host's lines by it, too.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Literal

from outlive.core.values import dataclass, field

MessageId = str | int


class Code(IntEnum):
    """The error codes of MCP (JSON-RPC 2.0, section 5.1, and what the revisions add)."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    RESOURCE_NOT_FOUND = -32002  # of the revisions with sessions ("Resources", Error Handling)
    HEADER_MISMATCH = -32020  # this one and the next two: of 2026-07-28
    MISSING_CAPABILITY = -32021
    UNSUPPORTED_REVISION = -32022


ENVELOPE_REVISION = "io.modelcontextprotocol/protocolVersion"  # in `_meta` of every request of 2026-07-28

_Params = Mapping[str, Any]


class McpError(Exception):
    """A request is answered with this JSON-RPC error; `status` is that of HTTP, where nothing was answered
    yet.
    """

    def __init__(
        self,
        code: int,
        message: str,
        data: object = None,
        *,
        status: int = 400,
        request_id: MessageId | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.status = status
        self.request_id = request_id

    def response(self) -> dict[str, object]:
        """Return the response that says so."""
        error: dict[str, object] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return {"jsonrpc": "2.0", "id": self.request_id, "error": error}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One JSON-RPC message. `request_id` has the type it was sent with; notifications have none.

    `outcome`: of a response, the object with its `result` or `error`; empty otherwise.
    """

    kind: Literal["request", "notification", "response"]
    method: str = ""
    params: _Params = field(default_factory=dict)
    request_id: MessageId | None = None
    outcome: _Params = field(default_factory=dict)

    @property
    def meta(self) -> _Params:
        """Its `_meta`; empty where there is none."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def is_enveloped(self) -> bool:
        """Whether it says of itself that it belongs to a revision without sessions."""
        return self.method != "initialize" and ENVELOPE_REVISION in self.meta

    @property
    def cancels(self) -> MessageId | None:
        """The request that a cancel notification names."""
        return id_of(self.params.get("requestId")) if self.method == "notifications/cancelled" else None


def id_of(raw: object) -> MessageId | None:
    """Return a request's id; None for everything that is none (JSON-RPC 2.0, section 4)."""
    return raw if isinstance(raw, str | int) and not isinstance(raw, bool) else None


def read_message(raw: object) -> Message:
    """Return the message that a decoded JSON value is.

    Raises:
        McpError: It is none; with the id where one was seen.
    """
    if not isinstance(raw, dict):
        raise _invalid("A message is a JSON object.")
    request_id = id_of(raw.get("id"))
    if request_id is None and "id" in raw:
        raise _invalid("The id of a request is a string or a whole number.")
    if raw.get("jsonrpc") != "2.0":
        raise _invalid('A message carries "jsonrpc": "2.0".', request_id)
    if "method" not in raw:
        if request_id is not None and ("result" in raw) != ("error" in raw):
            return Message(kind="response", request_id=request_id, outcome=raw)
        raise _invalid("A request names its method.", request_id)
    method, params = raw["method"], raw.get("params")
    if not isinstance(method, str) or not (params is None or isinstance(params, dict)):
        raise _invalid("The method is a string, the params are an object.", request_id)
    kind: Literal["request", "notification"] = "notification" if request_id is None else "request"
    return Message(kind=kind, method=method, params=params or {}, request_id=request_id)


def _invalid(sentence: str, request_id: MessageId | None = None) -> McpError:
    return McpError(Code.INVALID_REQUEST, sentence, request_id=request_id)
