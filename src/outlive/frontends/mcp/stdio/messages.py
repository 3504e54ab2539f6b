"""What the relay sends and gets: a host's message as far as the relay needs it (`Envelope`), and one POST
(`RelayedRequest`).

Everything else in a message is passed on as it came: what methods mean is known to the server alone.

A POST to /mcp has a connection of its own, with just the HTTP/1.1 that this needs (RFC 9112). Every failure
of the connection is an OSError, also when the server dies in the middle. ConnectionResetError means that the
server has not read the whole request, and so cannot have acted on it: only then does the kernel reset a Unix
stream (`unix_release_sock` in Linux 6; after everything was read, the other end sees the plain end of the
stream). Whether to send again is decided by `relay`.
"""

import contextlib
import json
import socket
from collections.abc import Iterator, Sequence
from typing import Self

from outlive.core.documents import decode_json
from outlive.core.values import dataclass
from outlive.discovery.own_kind import own_token, token_headers
from outlive.protocols.mcp.messages import (
    ENVELOPE_REVISION,
    NAMED_BY,
    Code,
    McpError,
    Message,
    MessageId,
    encode_header,
    read_message,
)
from outlive.protocols.request_ids import find_request_id

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


@dataclass(frozen=True, slots=True)
class RelaySession:
    """The result of `initialize`: the MCP session's id and the negotiated revision, as the headers carry
    them.
    """

    session_id: str
    revision: str

    def headers(self) -> list[tuple[str, str]]:
        """Return the headers that name it."""
        return [("MCP-Protocol-Version", self.revision), ("Mcp-Session-Id", self.session_id)]


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that is not a message, with its answer: one JSON-RPC error, without a newline."""

    answer: bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    """One message of the host, and its bytes as they came."""

    body: bytes
    message: Message

    @property
    def revision(self) -> str | None:
        """The revision in its `_meta`, from 2026-07-28 on."""
        revision = self.message.meta.get(ENVELOPE_REVISION) if self.message.is_enveloped else None
        return revision if isinstance(revision, str) else None

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be sent again although its first sending may have taken effect."""
        return self.message.method in _REPEATABLE

    def headers(self, session: RelaySession | None) -> list[tuple[str, str]]:
        """Return the headers that its revision requires; those of 2026-07-28 carry no session."""
        revision, message = self.revision, self.message
        if revision is not None:
            found = [("MCP-Protocol-Version", revision), ("Mcp-Method", message.method)]
            name = message.params.get(NAMED_BY.get(message.method, ""))
            if isinstance(name, str):
                found.append(("Mcp-Name", name))
            return [(header, encode_header(text)) for header, text in found]
        if session is None or message.method == "initialize":
            return []
        return session.headers()


def read_envelope(line: bytes) -> Envelope | Malformed:
    """Return the message in a line from the host. Never raises."""
    try:
        return Envelope(line.strip(), read_message(decode_json(line, max_bytes=len(line))))
    except McpError as error:
        return Malformed(encode_error(error))
    except ValueError as error:
        text = f"Parse error: {error}"
        return Malformed(encode_error(McpError(Code.PARSE_ERROR, text, request_id=find_request_id(line))))


def encode_error(error: McpError) -> bytes:
    """Return a JSON-RPC error response on one line."""
    return json.dumps(error.response()).encode()


def encode_empty_result(request_id: MessageId | None) -> bytes:
    """Return the answer to a ping on one line (MCP 2025-11-25, "Ping")."""
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": {}}).encode()


def is_answer(message: bytes) -> bool:
    """Tell whether a message of the server is a response, not a notification or a request."""
    try:
        raw = decode_json(message, max_bytes=len(message))
    except ValueError:
        return False
    return isinstance(raw, dict) and "method" not in raw and ("result" in raw or "error" in raw)


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
    """Used by one thread: `send`, `read_answer`, then `read_messages` or `read_body`.

    Closes the connection when left.

    `abandon` may be called by another thread.
    """

    def __init__(self, connection: socket.socket) -> None:
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

    def abandon(self) -> None:
        """Cut the connection: the server notices it, and the thread that reads here gets an OSError."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def send(self, body: bytes, headers: Sequence[tuple[str, str]], *, method: str = "POST") -> bool:
        """Send the request; False when the server stopped reading before its end (it may have answered all
        the same).
        """
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


def ask(
    connection: socket.socket, body: bytes, headers: Sequence[tuple[str, str]], *, method: str = "POST"
) -> tuple[RelayedAnswer, bytes]:
    """Make one request over a connection, close that, and return the head and the body of the answer."""
    with RelayedRequest(connection) as exchange:
        exchange.send(body, headers, method=method)
        return exchange.read_answer(), exchange.read_body()


def _lost() -> ConnectionError:
    return ConnectionAbortedError("the server went away before its answer was complete")
