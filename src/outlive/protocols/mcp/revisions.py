"""The revisions of MCP: which are served, how one is agreed on, and what 2026-07-28, which has no sessions,
asks of requests and results.

Of that revision: the `_meta` of each request ("Per-request protocol fields"), the headers that repeat its
body ("Transports"), the errors and their HTTP statuses, `resultType`, the server's name and the cache hints
of results. Standard library only, as `messages`. Pure.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from outlive.core.values import dataclass, field
from outlive.protocols.mcp.messages import ENVELOPE_REVISION, Code, McpError, Message

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


def _invalid(sentence: str) -> McpError:
    return McpError(Code.INVALID_PARAMS, f"Invalid request parameters: {sentence}")


def text_param(params: Mapping[str, Any], name: str) -> str:
    """Return a parameter that has to be a text.

    Raises:
        McpError: It is missing, or no text.
    """
    value = params.get(name)
    if not isinstance(value, str):
        raise _invalid(f"{name} is a string.")
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
        raise _invalid(f"{name} is an object.")
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
        raise _invalid("progressToken is a string or a whole number.")
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
        raise _invalid(f"_meta has to say {' and '.join(missing)}.")
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
