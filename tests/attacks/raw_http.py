"""Requests byte by byte over a plain socket: no helper adds a header, corrects a target or shows a token."""

import json
import socket
from dataclasses import dataclass
from typing import Any

_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class RawReply:
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 -- any document
        """The body as JSON."""
        return json.loads(self.body)


def raw_request(
    port: int, first_line: str, *headers: str, body: bytes = b"", host: str | None = "localhost"
) -> RawReply:
    """Send one request with exactly these lines (and `Host: host`, unless None), and return the answer."""
    lines = [first_line, *([f"Host: {host}"] if host is not None else []), *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    if not any(one.startswith("Connection:") for one in lines):
        lines.append("Connection: close")
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S) as peer:
        peer.sendall(head + body)
        while piece := peer.recv(65536):
            received += piece
            if received.startswith(b"HTTP/1.1 101"):
                break
    top, _, rest = received.partition(b"\r\n\r\n")
    first, *fields = top.decode("latin-1").split("\r\n")
    found = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in fields)}
    return RawReply(int(first.split(" ", 2)[1]), found, rest)
