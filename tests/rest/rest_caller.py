"""A caller of the REST door: one connection for each request, with exactly the headers a test wants
(blocks).
"""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlencode, urlsplit

_TIMEOUT_S = 30.0
Json = dict[str, Any]
Query = Any  # a value of an address: whatever `str` shows


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        """The body as a JSON object."""
        document: Json = json.loads(self.body)
        return document


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event."""

    name: str
    place: str
    data: Json


@dataclass(frozen=True, slots=True)
class RestCaller:
    """Speaks to one server; a call whose status is not the expected one fails the test."""

    url: str

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        expect: int = 200,
        headers: Mapping[str, str] | None = None,
        **query: Query,
    ) -> Answer:
        """Send one request; `body` bytes as they are, anything else as JSON."""
        answer = self.send(method, path, body, headers=headers, **query)
        assert answer.status == expect, (answer.status, answer.body)
        return answer

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        **query: Query,
    ) -> Answer:
        """Send one request and return whatever comes."""
        with self._sent(method, path, body, headers, query) as connection:
            response = connection.getresponse()
            named = {name.lower(): text for name, text in response.getheaders()}
            return Answer(response.status, named, response.read())

    def start(self, command: str | None = None, **options: object) -> Json:
        """Start a command."""
        body = options if command is None else {"command": command, **options}
        return self.call("POST", "/v1/processes", body, expect=201).json

    def run(self, command: str | None = None, **options: object) -> Json:
        """Start a command and wait until it is complete."""
        return self.wait(self.start(command, **options)["process_id"])

    def wait(self, process_id: str, until: str = "complete") -> Json:
        """Wait until a process is complete or closed."""
        process = self.call("GET", f"/v1/processes/{process_id}/wait", timeout=20, until=until).json
        assert not process.pop("timed_out")
        return process

    def output(self, process_id: str, **query: Query) -> Json:
        """Read a page."""
        return self.call("GET", f"/v1/processes/{process_id}/output", **query).json

    def raw(self, process_id: str, **query: Query) -> bytes:
        """Read bytes."""
        return self.call("GET", f"/v1/processes/{process_id}/output", format="raw", **query).body

    def refused(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        status: int,
        headers: Mapping[str, str] | None = None,
        **query: Query,
    ) -> Json:
        """Send a request that fails; return its problem."""
        answer = self.call(method, path, body, expect=status, headers=headers, **query)
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json
        assert problem["status"] == status
        assert {"type", "title", "detail", "slug", "hint"} <= set(problem)
        return problem

    @contextmanager
    def stream(
        self, path: str, *, headers: Mapping[str, str] | None = None, **query: Query
    ) -> Iterator[HTTPResponse]:
        """Open a stream; leaving the block closes the connection."""
        with self._sent("GET", path, None, headers, query) as connection:
            response = connection.getresponse()
            try:
                yield response
            finally:
                response.close()

    @contextmanager
    def _sent(
        self,
        method: str,
        path: str,
        body: object,
        headers: Mapping[str, str] | None,
        query: Mapping[str, object],
    ) -> Iterator[HTTPConnection]:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        connection = HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT_S)
        named = dict(headers or {})
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        if body is not None and raw is not body:
            named.setdefault("Content-Type", "application/json")
        try:
            connection.request(
                method, path + (f"?{urlencode(query, doseq=True)}" if query else ""), raw, named
            )
            yield connection
        finally:
            connection.close()


def events_of(response: HTTPResponse) -> Iterator[Event]:
    """Yield events until the stream ends."""
    fields: dict[str, str] = {}
    for raw in response:
        line = raw.decode().rstrip("\r\n")
        if line and not line.startswith(":"):
            name, _, text = line.partition(": ")
            fields[name] = text
        elif not line and "data" in fields:
            yield Event(fields["event"], fields["id"], json.loads(fields["data"]))
            fields = {}


def curl(line: str, url: str) -> str:
    """Run a curl line as a page prints it, at the real address; return what it wrote."""
    typed = line.replace("http://localhost:8181", url)
    ran = subprocess.run(
        ["sh", "-c", f"{typed} --silent --show-error"],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
