"""One POST to /mcp over a connection of its own: `RelayedRequest`, with just the HTTP/1.1 that this needs (RFC 9112).

Every failure of the connection is an OSError, also when the server dies in the middle. ConnectionResetError means that the server
has not read the whole request, and so cannot have acted on it: only then does the kernel reset a Unix stream (`unix_release_sock`
in Linux 6; after everything was read, the other end sees the plain end of the stream). Whether to send again is decided by
`relay`.
"""

import contextlib
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from outlive.discovery.own_kind import own_token, token_headers

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
    """Used by one thread: `post`, `read_answer`, then `read_messages` or `read_body`. Closes the connection when left.

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

    def abandon(self) -> None:
        """Cut the connection: the server notices it, and the thread that reads here gets an OSError."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def post(self, body: bytes, headers: Sequence[tuple[str, str]]) -> bool:
        """Send the request; False when the server stopped reading before its end (it may have answered all the same)."""
        head = [
            "POST /mcp HTTP/1.1",
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
