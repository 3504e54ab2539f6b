"""The parts of a message that the relay needs, its HTTP headers, and the relay's own answers. Pure.

Everything else in a message is passed on as it came: what methods mean is known to the server alone.
"""

import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

MessageId = str | int | None

_REVISION_KEY = "io.modelcontextprotocol/protocolVersion"  # in `_meta` of every request from 2026-07-28 on
# MCP revision 2026-07-28, "Transports": the parameter that the header Mcp-Name repeats.
# The last three are the tasks extension's ("Streamable HTTP: Routing Headers").
_NAMED_BY: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
_HEADER_SAFE = re.compile(r"[\x20-\x7E]*", re.ASCII)
_ENCODED = re.compile(r"=\?base64\?.*\?=", re.ASCII)
# Methods that may be sent again after a lost connection: doing them twice is as good as once.
_REPEATABLE = frozenset(
    {
        "initialize",
        "ping",
        "server/discover",
        "tools/list",
        "notifications/cancelled",
        "tasks/get",
        "tasks/cancel",
    }
)
_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600


@dataclass(frozen=True, slots=True)
class RelaySession:
    """The result of `initialize`: the MCP session's id and the negotiated revision, as the headers carry them."""

    session_id: str
    revision: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that is not a message, with its answer: one JSON-RPC error, without a newline."""

    answer: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """One message of the host. `body` is the message as it came; only requests have a `request_id`.

    `revision`: the one in its `_meta`, from 2026-07-28 on. `name`: the tool, prompt, resource or task. `cancels`: the request
    that a cancel notification names.
    """

    body: bytes
    method: str
    request_id: MessageId = None
    revision: str | None = None
    name: str | None = None
    cancels: MessageId = None

    @property
    def is_request(self) -> bool:
        """Whether an answer is owed."""
        return self.request_id is not None

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be sent again although its first sending may have taken effect."""
        return self.method in _REPEATABLE

    def headers(self, session: RelaySession | None) -> list[tuple[str, str]]:
        """Return the headers that its revision requires; those of 2026-07-28 carry no session."""
        if self.revision is not None:
            found = [("MCP-Protocol-Version", self.revision), ("Mcp-Method", self.method)]
            if self.name is not None:
                found.append(("Mcp-Name", self.name))
            return [(name, _header_value(text)) for name, text in found]
        if session is None or self.method == "initialize":
            return []
        return [("MCP-Protocol-Version", session.revision), ("Mcp-Session-Id", session.session_id)]


def read_envelope(line: bytes) -> Envelope | Malformed:
    """Return the message in a line from the host. Never raises."""
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Malformed(encode_error(None, _PARSE_ERROR, f"Parse error: {error}"))
    if not isinstance(raw, dict):
        return Malformed(
            encode_error(None, _INVALID_REQUEST, "A line is one JSON-RPC message: a JSON object.")
        )
    named = raw.get("method")
    method = named if isinstance(named, str) else ""
    has_method = bool(method)
    request_id = raw.get("id") if has_method else None
    # bool is a subclass of int in Python, and JSON-RPC ids are neither true nor false (JSON-RPC 2.0, section 4).
    if has_method and "id" in raw and (isinstance(request_id, bool) or not isinstance(request_id, str | int)):
        sentence = "The id of a request is a string or a whole number."
        return Malformed(encode_error(None, _INVALID_REQUEST, sentence))
    if not has_method and not ("result" in raw or "error" in raw):
        return Malformed(encode_error(_id_of(raw.get("id")), _INVALID_REQUEST, "A request names its method."))
    params = raw.get("params")
    params = params if isinstance(params, dict) else {}
    meta = params.get("_meta")
    revision = meta.get(_REVISION_KEY) if isinstance(meta, dict) and method != "initialize" else None
    name = params.get(_NAMED_BY.get(method, ""))
    return Envelope(
        body=line.strip(),
        method=method,
        request_id=request_id,
        revision=revision if isinstance(revision, str) else None,
        name=name if isinstance(name, str) else None,
        cancels=_id_of(params.get("requestId")) if method == "notifications/cancelled" else None,
    )


def encode_error(request_id: MessageId, code: int, message: str) -> bytes:
    """Return a JSON-RPC error response on one line."""
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode()


def encode_empty_result(request_id: MessageId) -> bytes:
    """Return the answer to a ping on one line (MCP 2025-11-25, "Ping")."""
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": {}}).encode()


def is_answer(message: bytes) -> bool:
    """Tell whether a message of the server is a response, not a notification or a request."""
    try:
        raw = json.loads(message)
    except ValueError:
        return False
    return isinstance(raw, dict) and "method" not in raw and ("result" in raw or "error" in raw)


def _id_of(raw: object) -> MessageId:
    return raw if isinstance(raw, str | int) and not isinstance(raw, bool) else None


def _header_value(text: str) -> str:
    """Return a value that survives as a header (MCP revision 2026-07-28, "Transports", value encoding)."""
    if _HEADER_SAFE.fullmatch(text) and text == text.strip() and not _ENCODED.fullmatch(text):
        return text
    encoded = binascii.b2a_base64(text.encode("utf-8", "replace"), newline=False).decode()
    return f"=?base64?{encoded}?="
