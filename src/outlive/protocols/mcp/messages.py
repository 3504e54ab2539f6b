"""MCP's messages: JSON-RPC as it sends it (`read_message`, errors), its revisions, and what a relay tells the
server of its host.

Which revisions are served, how one is agreed on, and what 2026-07-28, which has no sessions, asks of requests
and results: the `_meta` of each request ("Per-request protocol fields"), the headers that repeat its body
("Transports"), the errors and their HTTP statuses, `resultType`, the server's name and the cache hints of
results.

Standard library only, and decoded JSON goes in: the relay, which starts in a few milliseconds, reads its
host's lines by it, too. Pure.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
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


SESSION_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
NEWEST_WITH_SESSIONS = SESSION_REVISIONS[-1]
BATCH_REVISION = "2025-03-26"  # the only one that has JSON-RPC batches
STATELESS_REVISION = "2026-07-28"

_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
_CLIENT = "io.modelcontextprotocol/clientInfo"
_SERVER = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
# The parameter that the header Mcp-Name repeats. The last three are the tasks extension's ("Streamable HTTP:
# Routing Headers").
NAMED_BY: Mapping[str, str] = MappingProxyType(
    {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
    | dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId")
)
_REPEATED = frozenset({b"mcp-protocol-version", b"mcp-method", b"mcp-name"})
_HEADER_SAFE = re.compile(r"[\x20-\x7E]*", re.ASCII)
_ENCODED = re.compile(r"=\?base64\?(.*)\?=", re.ASCII)


def encode_header(text: str) -> str:
    """Return a value that survives as a header ("Transports", value encoding)."""
    if _HEADER_SAFE.fullmatch(text) and text == text.strip() and not _ENCODED.fullmatch(text):
        return text
    encoded = binascii.b2a_base64(text.encode("utf-8", "replace"), newline=False).decode()
    return f"=?base64?{encoded}?="


def decode_header(value: str) -> str | None:
    """Return what a header says; None where it is encoded and wrongly so. Never raises."""
    encoded = _ENCODED.fullmatch(value)
    if encoded is None:
        return value
    try:
        raw = base64.b64decode(encoded[1], validate=True)
        # Other spellings of the same bytes are decoded as well, and two readers might disagree about them.
        return raw.decode() if base64.b64encode(raw).decode() == encoded[1] else None
    except ValueError:
        return None


def wrong_param(sentence: str) -> McpError:
    """Return the error for a parameter; the sentence says what it has to be."""
    return McpError(Code.INVALID_PARAMS, f"Invalid request parameters: {sentence}")


def text_param(params: Mapping[str, Any], name: str) -> str:
    """Return a parameter that has to be a text.

    Raises:
        McpError: It is missing, or no text.
    """
    value = params.get(name)
    if not isinstance(value, str):
        raise wrong_param(f"{name} is a string.")
    return value


def object_param(params: Mapping[str, Any], name: str, *, is_needed: bool = False) -> dict[str, Any]:
    """Return a parameter that has to be an object; empty where it is missing and may be.

    Raises:
        McpError: It is something else, or missing although it is needed.
    """
    value = params.get(name)
    if value is None and not is_needed:
        return {}
    if not isinstance(value, dict):
        raise wrong_param(f"{name} is an object.")
    return value


def progress_token(message: Message) -> str | int | None:
    """Return the progressToken of a request; None for one that wants no progress.

    Raises:
        McpError: `_meta` is no object, or the token neither a text nor a number.
    """
    meta = object_param(message.params, "_meta")
    if "progressToken" not in meta:
        return None
    token = meta["progressToken"]
    if not isinstance(token, str | int):
        raise wrong_param("progressToken is a string or a whole number.")
    return None if isinstance(token, bool) else token


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a client says of itself: for the session by initialize, or with each request of 2026-07-28.

    `client` is the name of its program, empty for none.
    """

    revision: str
    client: str = ""
    capabilities: Mapping[str, Any] = field(default_factory=dict)

    def has_extension(self, name: str) -> bool:
        """Tell whether it declares an extension."""
        extensions = self.capabilities.get("extensions")
        return isinstance(extensions, dict) and name in extensions


def read_initialize(params: Mapping[str, Any]) -> Declared:
    """Return what an initialize declares, with the revision that is agreed on: the client's if it has
    sessions here, else the newest.

    Raises:
        McpError: A member is missing or of another type.
    """
    wanted = text_param(params, "protocolVersion")
    capabilities = object_param(params, "capabilities", is_needed=True)
    client = object_param(params, "clientInfo", is_needed=True)
    text_param(client, "version")
    revision = wanted if wanted in SESSION_REVISIONS else NEWEST_WITH_SESSIONS
    return Declared(revision=revision, client=text_param(client, "name"), capabilities=capabilities)


def unsupported(revision: str, *, is_enveloped: bool) -> McpError:
    """Return the error for a revision that is not served; `supported` has those that such a message may
    name.
    """
    message = (
        f"Unsupported protocol version {revision[:40]!r}: this server speaks "
        f"{', '.join(SESSION_REVISIONS)} (in sessions, "
        f"begun by initialize) and {STATELESS_REVISION} (without)."
    )
    supported = [STATELESS_REVISION] if is_enveloped else [*SESSION_REVISIONS, STATELESS_REVISION]
    return McpError(Code.UNSUPPORTED_REVISION, message, {"supported": supported, "requested": revision})


def check_stateless(message: Message, headers: Iterable[tuple[bytes, bytes]]) -> Declared:
    """Return what a request of 2026-07-28 declares, once its `_meta` is whole and its headers say what its
    body says.

    Args:
        message: One message.
        headers: Lower-case names and values of its HTTP request.

    Raises:
        McpError: They do not; or the revision is another one.
    """
    shown: dict[bytes, str] = {}
    for name, value in headers:
        if name in _REPEATED:
            if name in shown:  # two readers might take one each
                raise McpError(Code.HEADER_MISMATCH, f"The header {name.decode()} is there more than once.")
            shown[name] = value.decode("latin-1")
    revision = shown.get(b"mcp-protocol-version", "")
    if message.kind == "response":
        raise McpError(Code.INVALID_REQUEST, f"Nothing is asked of clients in {STATELESS_REVISION}.")
    if message.kind == "notification":
        # Nothing is declared with a notification, and none means anything in this revision: a client cancels
        # by closing the stream.
        if revision != STATELESS_REVISION:
            raise unsupported(revision, is_enveloped=message.is_enveloped)
        return Declared(revision=revision)
    if revision != STATELESS_REVISION and not message.is_enveloped:
        raise unsupported(revision, is_enveloped=False)
    declared = _read_envelope(message)
    if declared.revision != revision:
        _mismatch("MCP-Protocol-Version", "the revision in _meta")
    if shown.get(b"mcp-method") != message.method:
        _mismatch("Mcp-Method", "the method")
    member, header = NAMED_BY.get(message.method, ""), shown.get(b"mcp-name")
    named = message.params.get(member)
    if isinstance(named, str) and (header is None or decode_header(header) != named):
        _mismatch("Mcp-Name", f"the parameter {member}")
    if revision != STATELESS_REVISION:
        raise unsupported(revision, is_enveloped=True)
    return declared


def _mismatch(header: str, member: str) -> None:
    raise McpError(Code.HEADER_MISMATCH, f"The header {header} does not say what the body says: {member}.")


def _read_envelope(message: Message) -> Declared:
    meta = object_param(message.params, "_meta", is_needed=True)
    if missing := [name for name in (ENVELOPE_REVISION, _CAPABILITIES) if name not in meta]:
        raise wrong_param(f"_meta has to say {' and '.join(missing)}.")
    capabilities = object_param(meta, _CAPABILITIES, is_needed=True)
    object_param(capabilities, "extensions")
    client = object_param(meta, _CLIENT)
    if client or meta.get(_CLIENT) is not None:
        text_param(client, "version")
        text_param(client, "name")
    return Declared(
        revision=text_param(meta, ENVELOPE_REVISION),
        client=client.get("name", "").lower(),
        capabilities=capabilities,
    )


def stateless_status(code: int) -> int:
    """Return the HTTP status of an error of 2026-07-28."""
    if code == Code.INTERNAL_ERROR:
        return 200
    return 404 if code == Code.METHOD_NOT_FOUND else 400


def stateless_result(method: str, result: Mapping[str, Any], server: Mapping[str, str]) -> dict[str, Any]:
    """Return a result as 2026-07-28 has it: with its type, the server's name, and for how long it may be kept
    (not at all).
    """
    shaped = {"resultType": "complete", **result, "_meta": {_SERVER: dict(server), **result.get("_meta", {})}}
    is_cacheable = method.endswith("/list") or method in {"resources/read", "server/discover"}
    if is_cacheable and shaped["resultType"] == "complete":
        shaped = {"ttlMs": 0, "cacheScope": "private", **shaped}
    return shaped


PROJECT_HEADER = "outlive-project"  # lower case, as HTTP header names are compared
MAX_ENVIRONMENT_BYTES = 64 * 1024  # as many as travel to the keeper beside a spec (208 KiB)


def passed_environment(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that are passed on, and the names of those that are left out.

    JSON carries no bytes that are no UTF-8 (PEP 383). Where all are too large together, the largest are left
    out first: it is nearly always one alone that makes an environment too large.
    """
    passed = {
        name: value for name, value in environ.items() if name and "=" not in name and _is_text(name + value)
    }
    size = sum(map(_size, passed.items()))
    left_out = [name for name in environ if name not in passed]
    # The relay names what it left out on stderr: a command that misses a variable can then be explained.
    for name in sorted(passed, key=lambda name: len(passed[name]), reverse=True):
        if size <= MAX_ENVIRONMENT_BYTES:
            break
        size -= _size((name, passed.pop(name)))
        left_out.append(name)
    return passed, left_out


def _is_text(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= mark <= "\udfff" for mark in text)


def _size(variable: tuple[str, str]) -> int:
    name, value = variable
    return len(name) + len(value) + 2  # "=" and the NUL behind it (environ(7))
