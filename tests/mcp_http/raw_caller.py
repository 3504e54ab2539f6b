"""A raw caller: plain HTTP requests as document 004 prints them, with exactly the headers a test wants
(blocks).
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

BACKGROUND = "execute_background_linux_shell_command"
_TIMEOUT_S = 30.0
_JSON = {"Content-Type": "application/json"}
_OFFICIAL = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The body as a JSON object."""
        document: dict[str, Any] = json.loads(self.body)
        return document

    @property
    def text(self) -> str:
        """The text of a tool's result."""
        return str(self.json["result"]["content"][0]["text"])


def request(
    url: str, method: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """Send one request on a connection of its own."""
    with _sent(url, method, body, headers or {}) as connection:
        response = connection.getresponse()
        return Answer(
            response.status, {key.lower(): text for key, text in response.getheaders()}, response.read()
        )


@contextmanager
def _sent(url: str, method: str, body: bytes | None, headers: Mapping[str, str]) -> Iterator[HTTPConnection]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT_S)
    try:
        connection.request(
            method, parts._replace(scheme="", netloc="").geturl(), body=body, headers=dict(headers)
        )
        yield connection
    finally:
        connection.close()


def events_of(response: HTTPResponse) -> Iterator[tuple[str, Any]]:
    """Yield (event, data) until the stream ends; data is decoded JSON."""
    name, data = "message", ""
    for raw in response:
        line = raw.decode().rstrip("\r\n")
        if line.startswith("event:"):
            name = line.removeprefix("event:").strip()
        elif line.startswith("data:"):
            data += line.removeprefix("data:").strip()
        elif not line and data:
            yield name, json.loads(data)
            name, data = "message", ""


@dataclass(frozen=True, slots=True)
class RawCaller:
    """One MCP session of a caller that writes its HTTP by hand."""

    url: str
    session_id: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def begin(cls, url: str, headers: Mapping[str, str] | None = None) -> "RawCaller":
        """Call initialize; nothing else is needed (promise S4.1.initialized)."""
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        answer = request(url, "POST", body=json.dumps(message).encode(), headers={**_JSON, **(headers or {})})
        assert answer.status == 200, answer
        return cls(url, answer.headers["mcp-session-id"], headers or {})

    def _headers(self, extra: Mapping[str, str] | None, *, official: bool = False) -> dict[str, str]:
        dialect = _OFFICIAL if official else {}
        return {**_JSON, "Mcp-Session-Id": self.session_id, **self.headers, **dialect, **(extra or {})}

    def post(
        self, message: object, *, headers: Mapping[str, str] | None = None, official: bool = False
    ) -> Answer:
        """Send one message."""
        body = json.dumps(message).encode()
        return request(self.url, "POST", body=body, headers=self._headers(headers, official=official))

    def call(
        self, name: str, request_id: int | str = 1, *, official: bool = False, **arguments: object
    ) -> Answer:
        """Call a tool and return the JSON answer."""
        return self.post(_tool_call(name, request_id, arguments), official=official)

    @contextmanager
    def stream(self, name: str, request_id: int | str = 1, **arguments: object) -> Iterator[HTTPResponse]:
        """Call a tool with `Accept: text/event-stream`; leaving the block closes the connection."""
        body = json.dumps(_tool_call(name, request_id, arguments)).encode()
        with _sent(self.url, "POST", body, self._headers({"Accept": "text/event-stream"})) as connection:
            response = connection.getresponse()
            try:
                yield response
            finally:
                response.close()

    @contextmanager
    def unread(self, name: str, request_id: int | str = 1, **arguments: object) -> Iterator[None]:
        """Call a tool and never read the answer; leaving the block closes the connection."""
        body = json.dumps(_tool_call(name, request_id, arguments)).encode()
        with _sent(self.url, "POST", body, self._headers(None)):
            yield

    @contextmanager
    def listen(self) -> Iterator[HTTPResponse]:
        """Open the session's stream; leaving the block closes the connection."""
        with _sent(self.url, "GET", None, self._headers({"Accept": "text/event-stream"})) as connection:
            response = connection.getresponse()
            try:
                yield response
            finally:
                response.close()

    def delete(self) -> Answer:
        """End the session."""
        return request(self.url, "DELETE", headers=self._headers(None))

    def cancel(self, request_id: int | str, *, official: bool = False) -> Answer:
        """Send notifications/cancelled."""
        params = {"requestId": request_id, "reason": "User requested"}
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        return self.post(message, official=official)


def _tool_call(name: str, request_id: int | str, arguments: Mapping[str, object]) -> dict[str, object]:
    params = {"name": name, "arguments": dict(arguments)}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
