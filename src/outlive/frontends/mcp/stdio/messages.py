"""What the relay sends and gets: a host's message as far as the relay needs it (`Envelope`), and one POST (`RelayedRequest`).

Everything else in a message is passed on as it came: what methods mean is known to the server alone.

A POST to /mcp has a connection of its own, with just the HTTP/1.1 that this needs (RFC 9112). Every failure of the connection is an
OSError, also when the server dies in the middle. ConnectionResetError means that the server has not read the whole request, and so
cannot have acted on it: only then does the kernel reset a Unix stream (`unix_release_sock` in Linux 6; after everything was read,
the other end sees the plain end of the stream). Whether to send again is decided by `relay`.
"""

import binascii
import contextlib
import json
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from outlive.discovery.own_kind import own_token, token_headers
from outlive.keeper.common.sockets import peer_of

MessageId = str | int | None

_REVISION_KEY = "io.modelcontextprotocol/protocolVersion"  # in `_meta` of every request from 2026-07-28 on
# MCP revision 2026-07-28, "Transports": the parameter that the header Mcp-Name repeats.
# The last three are the tasks extension's ("Streamable HTTP: Routing Headers").
_NAMED_BY: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    # Of the handshake revisions, which have no such header; `updates` remembers what is subscribed.
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
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
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
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

    def headers(self) -> list[tuple[str, str]]:
        """Return the headers that name it."""
        return [("MCP-Protocol-Version", self.revision), ("Mcp-Session-Id", self.session_id)]


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
        return session.headers()


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


_PIECE_BYTES = 64 * 1024
_HEAD_LINES = 100  # the server sends about ten


@dataclass(frozen=True, slots=True)
class RelayedAnswer:
    """The head of a response; header names are lower-case."""

    status: int
    headers: dict[str, str]

    @property
    def is_stream(self) -> bool:
        """Whether messages come as server-sent events."""
        return self.headers.get("content-type", "").startswith("text/event-stream")


class RelayedRequest:
    """Used by one thread: `send`, `read_answer`, then `read_messages` or `read_body`. Closes the connection when left.

    `abandon` may be called by another thread.
    """

    def __init__(self, connection: socket.socket) -> None:
        """Take over a connected, blocking socket."""
        self._connection = connection
        self._file = connection.makefile("rb")
        self._answer = RelayedAnswer(0, {})

    def __enter__(self) -> Self:
        """Hold the connection."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._file.close()
        self._connection.close()

    @property
    def server_pid(self) -> int:
        """The process that listens where this is connected to: another one after a restart of the server."""
        return peer_of(self._connection)[0]

    def abandon(self) -> None:
        """Cut the connection: the server notices it, and the thread that reads here gets an OSError."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def send(self, body: bytes, headers: Sequence[tuple[str, str]], *, method: str = "POST") -> bool:
        """Send the request; False when the server stopped reading before its end (it may have answered all the same)."""
        head = [
            f"{method} /mcp HTTP/1.1",
            "Host: localhost",
            "Connection: close",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            f"Content-Length: {len(body)}",
            *(f"{name}: {value}" for name, value in (*headers, *token_headers(own_token()).items())),
        ]
        try:
            self._connection.sendall("\r\n".join([*head, "", ""]).encode("ascii") + body)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def read_answer(self) -> RelayedAnswer:
        """Return status and headers as soon as they have come."""
        parts = self._line().split(b" ", 2)
        if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or not parts[1].isdigit():
            raise ConnectionError("what answers there does not speak HTTP")
        headers: dict[str, str] = {}
        for _ in range(_HEAD_LINES):
            line = self._line()
            if not line:
                break
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        self._answer = RelayedAnswer(int(parts[1]), headers)
        return self._answer

    def read_body(self) -> bytes:
        """Return the whole body."""
        return b"".join(self._pieces())

    def read_messages(self) -> Iterator[bytes]:
        """Yield the data of each event of a stream as it comes (WHATWG HTML, "Server-sent events")."""
        data: list[bytes] = []
        for line in self._stream_lines():
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                yield b"\n".join(data)
                data = []

    def _stream_lines(self) -> Iterator[bytes]:
        """Yield the lines of the body; a line may be spread over any number of pieces."""
        begun: list[bytes] = []
        for piece in self._pieces():
            first, *others = piece.split(b"\n")
            begun.append(first)
            for other in others:
                yield b"".join(begun).removesuffix(b"\r")
                begun = [other]

    def _pieces(self) -> Iterator[bytes]:
        """Yield the body as it comes, chunked (RFC 9112, section 7.1) or of a known length."""
        if "chunked" in self._answer.headers.get("transfer-encoding", "").lower():
            while size := int(self._line().partition(b";")[0], 16):
                yield from self._exactly(size)
                self._line()
            self._line()  # the empty line behind the last chunk: our server sends no trailers
        else:
            yield from self._exactly(int(self._answer.headers.get("content-length", "0")))

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self._file.read1(min(size, _PIECE_BYTES))
            if not piece:
                raise _lost()
            size -= len(piece)
            yield piece

    def _line(self) -> bytes:
        """Return one line of the head, or of the chunks' frame; a cut one means that the server is gone."""
        line = self._file.readline(_PIECE_BYTES)
        if not line.endswith(b"\n"):
            raise _lost()
        return line.rstrip(b"\r\n")


def _lost() -> ConnectionError:
    return ConnectionAbortedError("the server went away before its answer was complete")
