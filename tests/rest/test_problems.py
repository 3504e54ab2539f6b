"""Everything that goes wrong is a problem with a slug, a status and a hint.

The unexpected shows a reference only.
"""

import json
import logging
import socket
from http.client import HTTPConnection
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import anyio
import pytest
from anyio import to_thread

from bench.proc import resident_kb
from outlive.config import Settings
from outlive.core.errors import SLUGS, BackendUnavailable, OutliveError
from outlive.engine import Engine
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.output_redaction import Redaction, Secrets
from outlive.frontends.rest.problems import HTTP_SLUGS, known_problems
from outlive.frontends.rest.service import RestService
from outlive.policy.redaction import Redactor
from outlive.server.error_formats import STATUS
from tests.frontends.serving import admitted, served
from tests.rest.rest_caller import RestCaller
from tests.support.fixtures import ServerFactory
from tests.support.raw import upgrade
from tests.support.server import OutliveServer

_ALL = "/v1/processes"
_ONE = f"{_ALL}/{'0' * 26}"


class _BrokenEngine:
    """An engine whose every question fails in a way that is not expected."""

    def __init__(self) -> None:
        self.queries = self.lookup = self

    async def find(self, _word: str, _asker: object = None) -> None:
        raise RuntimeError("a secret path")


@pytest.mark.promise("R.problem")
def test_every_slug_has_a_status_and_a_hint() -> None:
    told = {slug: (status, hint) for slug, status, hint in known_problems()}
    assert set(told) == set(SLUGS) | set(HTTP_SLUGS)
    assert not set(SLUGS) & set(HTTP_SLUGS)
    assert set(STATUS) == set(SLUGS)
    for status, hint in told.values():
        assert 400 <= status <= 599
        assert hint.endswith(".")


class _SilentEngine:
    """An engine whose every question fails with one error."""

    def __init__(self, error: OutliveError) -> None:
        self._error = error
        self.queries = self.lookup = self
        self.redaction = Redaction(Redactor(), Secrets())
        self.events = EventPublisher()

    async def find(self, _word: str, _asker: object = None) -> None:
        raise self._error


@pytest.mark.promise("R.problem")
@pytest.mark.parametrize(
    ("error", "is_repeatable"),
    [
        (BackendUnavailable("node_unavailable", "It is away."), True),
        (BackendUnavailable("keeper_restarted", "It is not known."), False),
        (BackendUnavailable("server_lost", "It is not known."), False),
        (BackendUnavailable("keeper_unavailable", "It may run.", details={"process_id": "x"}), False),
    ],
)
async def test_nothing_that_may_have_been_done_is_answered_with_retry_after(
    tmp_path: Path, error: OutliveError, *, is_repeatable: bool
) -> None:
    """Many HTTP clients repeat by themselves what has this header."""
    service = RestService(cast("Engine", _SilentEngine(error)), Settings())
    async with served(admitted(service), tmp_path) as where:
        rest = RestCaller(f"http://127.0.0.1:{where.port}")
        with anyio.fail_after(20):
            answer = await to_thread.run_sync(lambda: rest.send("GET", _ONE))
    assert (answer.status, "retry-after" in answer.headers) == (503, is_repeatable)


@pytest.mark.promise("R.problem")
async def test_the_unexpected_shows_a_reference_and_the_log_has_the_rest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = RestService(cast("Engine", _BrokenEngine()), Settings())
    async with served(admitted(service), tmp_path) as where:
        rest = RestCaller(f"http://127.0.0.1:{where.port}")
        with caplog.at_level(logging.ERROR), anyio.fail_after(20):
            problem = await to_thread.run_sync(lambda: rest.refused("GET", _ONE, status=500))
    assert problem["slug"] == "internal_error"
    assert "secret" not in str(problem)
    (record,) = [one for one in caplog.records if one.name == "outlive.server.http.boundary"]
    assert vars(record)["reference"] in problem["detail"]
    assert record.exc_info is not None


@pytest.mark.promise("R.problem")
@pytest.mark.parametrize(
    ("asked", "place", "said"),
    [
        ("?limt=5", "query.limt", "it is not known; did you mean limit?"),
        ("?limit=many", "query.limit", "a whole number from 1 to 1000 is needed, not 'many'."),
        ("?limit=null", "query.limit", "a whole number is needed, not null."),
    ],
)
def test_a_parameter_of_the_address_that_makes_no_sense_is_named(
    rest: RestCaller, asked: str, place: str, said: str
) -> None:
    """Issue 38, 4: unknown parameters were ignored, unlike unknown members."""
    problem = rest.refused("GET", f"{_ALL}{asked}", status=422)
    assert problem["details"]["errors"] == [{"place": place, "message": said}]


@pytest.mark.promise("R.problem")
def test_a_member_that_is_missing_or_unknown_is_named(rest: RestCaller) -> None:
    unknown = rest.refused("POST", _ALL, {"command": "true", "comand": "true"}, status=422)
    assert unknown["details"]["errors"] == [
        {"place": "body.comand", "message": "it is not known; did you mean command?"}
    ]
    missing = rest.refused("POST", "/api/sync/execute/", {"comand": "true"}, status=422)
    assert missing["details"]["errors"][0]["place"] == "body.command"


@pytest.mark.promise("R.problem")
def test_an_unknown_path_and_method_say_what_there_is(rest: RestCaller) -> None:
    for path in ("/v1/nothing", "/api/", f"{_ONE}/nothing", f"{_ALL}/", "/v1/processes/short"):
        problem = rest.refused("GET", path, status=404)
        assert problem["slug"] == ("process_not_found" if "short" in path else "unknown_path")
    for path, methods in (
        (_ALL, "GET, POST"),
        (_ONE, "DELETE, GET, PATCH"),
        (f"{_ONE}/wait", "GET"),
        ("/api/async/process/terminate_by_pid/", "POST"),
        ("/docs", "GET"),
    ):
        answer = rest.send("PUT", path)
        assert (answer.status, answer.headers["allow"]) == (405, methods)
        assert answer.json["slug"] == "http_method_not_allowed"


def test_a_probe_answers_get_only(rest: RestCaller) -> None:
    for path in ("/healthz", "/readyz"):
        assert rest.send("POST", path).status == 405
        assert rest.send("HEAD", path).status == 200


@pytest.mark.parametrize(
    ("body", "kind", "status", "slug"),
    [
        (b"{", "application/json", 400, "parse_error"),
        (b"\xff", "application/json", 400, "invalid_request"),
        (b'{"command": "true"}', "text/plain", 415, "not_json"),
        (b"command=true", "application/x-www-form-urlencoded", 415, "not_json"),
        (b"3", "application/json", 422, "invalid_params"),
        (b"[" * 100_000, "application/json", 400, None),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(
    rest: RestCaller, body: bytes, kind: str, status: int, slug: str | None
) -> None:
    problem = rest.refused("POST", _ALL, body, status=status, headers={"Content-Type": kind})
    assert slug in {None, problem["slug"]}


def test_a_body_over_the_limit_is_refused_whether_it_is_announced_or_not(serve: ServerFactory) -> None:
    rest = RestCaller(serve("--max-message-bytes", "10000").rest_url)
    path, kind = _ALL, {"Content-Type": "application/json"}
    body = json.dumps({"command": "true"}).encode()
    assert rest.call("POST", path, body.ljust(10_000), expect=201, headers=kind).json["pid"]
    assert (
        rest.refused("POST", path, body.ljust(10_001), status=413, headers=kind)["slug"] == "body_too_large"
    )
    parts = urlsplit(rest.url)
    connection = HTTPConnection(str(parts.hostname), parts.port, timeout=20)
    try:
        connection.request("POST", path, iter([body.ljust(6000), b" " * 6000]), kind, encode_chunked=True)
        assert connection.getresponse().status == 413
    finally:
        connection.close()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "body", [b"[" * 500_000 + b"]" * 500_000, b"[" + b"0, " * 300_000 + b"x]"], ids=["deep", "wrong"]
)
def test_nothing_is_left_of_a_body_that_was_refused(serve: ServerFactory, body: bytes) -> None:
    """Not even until somebody looks for garbage: a hundred of them were two hundred megabytes."""
    server = serve()
    rest = RestCaller(server.rest_url)
    kind = {"Content-Type": "application/json"}
    rest.call("POST", _ALL, body, expect=400, headers=kind)
    before = resident_kb(server.pid)
    for _ in range(60):
        rest.call("POST", _ALL, body, expect=400, headers=kind)
    assert resident_kb(server.pid) - before < 20_000


def test_nothing_is_left_of_a_body_whose_process_is_not_there(serve: ServerFactory) -> None:
    """An error that its own traceback leads to would keep the body until somebody looks for garbage."""
    server = serve()
    rest = RestCaller(server.rest_url)
    kind = {"Content-Type": "application/json"}
    body = b'{"tags": {}}' + b" " * 1_000_000
    path = "/v1/processes/01k9zq3v8d4t6r2m5x7b1n0c9f"
    rest.call("PATCH", path, body, expect=404, headers=kind)
    before = resident_kb(server.pid)
    for _ in range(60):
        rest.call("PATCH", path, body, expect=404, headers=kind)
    assert resident_kb(server.pid) - before < 20_000


def test_a_body_that_is_too_large_is_refused_where_none_is_read(server: OutliveServer) -> None:
    """The announced length is enough: the rest of the connection cannot be another request."""
    with socket.create_connection(("127.0.0.1", server.ready["ports"]["rest"]), timeout=20) as connection:
        head = f"GET {_ALL} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10000000000\r\n\r\n"
        connection.sendall(head.encode())
        with connection.makefile("rb") as answer:
            text = answer.read().decode()
    assert text.startswith("HTTP/1.1 413 ")
    assert "connection: close" in text.lower()


@pytest.mark.promise("S4.10")
def test_foreign_pages_and_hosts_are_refused_on_every_path(server: OutliveServer, rest: RestCaller) -> None:
    for path in (_ALL, "/api/async/processes/list/", "/docs", "/openapi.json", "/healthz", "/readyz", "/v1"):
        origin = rest.refused("GET", path, status=403, headers={"Origin": "http://localhost.evil.com"})
        host = rest.refused("GET", path, status=421, headers={"Host": "evil.com"})
        assert (origin["slug"], host["slug"]) == ("foreign_origin", "foreign_host")
        assert ("success" in origin) is path.startswith("/api/")
    started = {"Content-Type": "application/json", "Origin": "http://evil.com"}
    assert rest.send("POST", _ALL, {"command": "true"}, headers=started).status == 403
    port = server.ready["ports"]["rest"]
    refused = upgrade(port, path=f"{_ONE}/follow", headers={"Origin": "http://evil.com"})
    assert (refused.status, "application/problem+json" in refused.text) == (403, True)


def test_a_command_off_the_list_is_refused(serve: ServerFactory) -> None:
    rest = RestCaller(serve(ALLOWED_COMMANDS="echo").rest_url)
    assert rest.run("echo hi")["exit_code"] == 0
    for body, slug in (
        ({"command": "date"}, "command_not_allowed"),
        ({"command": "echo $(date)"}, "command_opaque"),
    ):
        assert rest.refused("POST", _ALL, body, status=403)["slug"] == slug
    assert rest.refused("POST", "/api/sync/execute/", {"command": "date"}, status=403)["success"] is False


@pytest.mark.promise("S4.9.key")
def test_every_path_asks_for_the_key(serve: ServerFactory) -> None:
    server = serve(MCP_API_KEY="a long word")
    rest = RestCaller(server.rest_url)
    for path in (_ALL, "/api/async/processes/list/", "/docs", "/openapi.json", "/healthz", "/readyz"):
        problem = rest.refused("GET", path, status=401)
        assert problem["slug"] == "key_missing"
        assert "Bearer" in rest.send("GET", path).headers["www-authenticate"]
        assert rest.send("GET", path, headers={"X-API-Key": "a long wor"}).status == 401
        for key in ({"X-API-Key": "a long word"}, {"Authorization": "Bearer a long word"}):
            assert rest.send("GET", path, headers=key).status == 200
    for path in ("/", "/metrics"):
        assert rest.send("GET", path).status == 401
        assert rest.send("GET", path, headers={"X-API-Key": "a long word"}).status == 200
    assert rest.send("POST", "/api/sync/execute/", {"command": "true"}).status == 401
    assert upgrade(server.ready["ports"]["rest"], path=f"{_ONE}/follow").status == 401


def test_a_client_that_hangs_up_within_its_body_is_no_fault_of_the_server(own_server: OutliveServer) -> None:
    """Nothing is logged as an error, and nothing is started."""
    address = urlsplit(own_server.rest_url)
    for path in (_ALL, "/api/sync/execute/", f"{_ONE}/signal"):
        head = f"POST {path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
        with socket.create_connection((address.hostname, address.port or 0), timeout=30) as connection:
            connection.sendall(f"{head}Content-Length: 100\r\nExpect: 100-continue\r\n\r\n".encode())
            # From here on the route waits for the body.
            assert connection.recv(100).startswith(b"HTTP/1.1 100")
            connection.sendall(b'{"command": "tr')
    rest = RestCaller(own_server.rest_url)
    assert rest.call("GET", _ALL).json["processes"] == []
    own_server.stop()
    assert "a request failed" not in own_server.stderr
