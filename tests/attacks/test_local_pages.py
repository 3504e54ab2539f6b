"""Pages of this machine: what one may do without a token, with an allowed origin, and with a token that acts
as the user.
"""

import json
import sys
from pathlib import Path

import pytest

from outlive.frontends.rest.routes import WEBSOCKET
from outlive.frontends.rest.service import ROUTES
from outlive.server.access.web_pages import preflight_headers
from tests.attacks.attacking import Requests, create_token
from tests.attacks.raw_http import RawReply, raw_request
from tests.support.fixtures import ServerFactory
from tests.support.raw import upgrade
from tests.support.server import OutliveServer, run_outlive

pytestmark = pytest.mark.thorough

_PAGE = "Origin: http://localhost:5173"
_JSON = "Content-Type: application/json"
_MODERN = "2026-07-28"
_CALL: dict[str, object] = {"name": "command_execute", "arguments": {"command": "echo in"}}


def _rpc(
    server: OutliveServer,
    method: str,
    *headers: str,
    number: int | None = 1,
    params: dict[str, object] | None = None,
) -> RawReply:
    """Send one JSON-RPC message to /mcp as a browser does for a page, with these headers and no other."""
    message: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    if number is not None:
        message["id"] = number
    body = json.dumps(message).encode()
    port = server.ready["ports"]["mcp"]
    accept = "Accept: application/json, text/event-stream"
    return raw_request(port, "POST /mcp HTTP/1.1", _JSON, accept, *headers, body=body)


def _initialize(server: OutliveServer, *headers: str) -> RawReply:
    info = {"name": "page", "version": "1"}
    params: dict[str, object] = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    return _rpc(server, "initialize", *headers, params=params)


@pytest.mark.promise("S4.10", "S4.10.hello")
@pytest.mark.parametrize("origin", ["http://localhost:5173", "https://127.0.0.1", "http://[::1]:80"])
def test_a_page_of_this_machine_may_greet_and_nothing_more(besieged: OutliveServer, origin: str) -> None:
    page = f"Origin: {origin}"
    begun = _initialize(besieged, page)
    assert begun.status == 200
    assert begun.headers["access-control-allow-origin"] == origin
    assert "mcp-session-id" in begun.headers["access-control-expose-headers"]
    session = ("MCP-Protocol-Version: 2025-11-25", f"Mcp-Session-Id: {begun.headers['mcp-session-id']}", page)
    assert _rpc(besieged, "notifications/initialized", *session, number=None).status == 202
    assert _rpc(besieged, "ping", *session).status == 200
    assert b"command_execute" in _rpc(besieged, "tools/list", *session).body
    raw = (f"Mcp-Session-Id: {begun.headers['mcp-session-id']}", page)
    for headers in (session, raw):
        for method in (
            "tools/call",
            "resources/list",
            "tasks/list",
            "notifications/cancelled",
            "logging/setLevel",
        ):
            _is_refused(_rpc(besieged, method, *headers, params=_CALL))
    port = besieged.ready["ports"]["mcp"]
    for method in ("GET", "DELETE"):
        _is_refused(raw_request(port, f"{method} /mcp HTTP/1.1", "Accept: text/event-stream", *session))


@pytest.mark.promise("S4.10.hello")
def test_a_page_of_this_machine_may_greet_in_the_newest_revision_too(besieged: OutliveServer) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": _MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "page", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = (_PAGE, f"MCP-Protocol-Version: {_MODERN}")
    for method in ("server/discover", "tools/list"):
        assert _rpc(besieged, method, *headers, f"Mcp-Method: {method}", params={"_meta": meta}).status == 200
    for shown in ("tools/call", "tools/list"):  # the header cannot say something else than the body
        shown_as = ("Mcp-Name: command_execute", f"Mcp-Method: {shown}")
        _is_refused(_rpc(besieged, "tools/call", *headers, *shown_as, params={**_CALL, "_meta": meta}))


def _is_refused(reply: RawReply) -> None:
    assert reply.status == 403, reply
    error = reply.json["error"]
    assert error["data"]["reason"] == "scope_missing"
    assert "--allow-origin" in error["data"]["hint"]
    assert "outlive token create" in error["data"]["hint"]
    assert reply.headers["access-control-allow-origin"]


def test_a_page_may_send_and_read_what_the_routes_have() -> None:
    allowed = {name: value.decode().lower().split(", ") for name, value in preflight_headers()}
    methods = {route.method.lower() for route in ROUTES} - {WEBSOCKET.lower()}
    assert methods <= set(allowed[b"access-control-allow-methods"])
    sent = {one["name"].lower() for route in ROUTES for one in route.parameters if one["in"] == "header"}
    assert {"if-range", "range"} <= sent
    assert sent <= set(allowed[b"access-control-allow-headers"])


def test_a_page_may_read_every_header_of_an_answer(besieged: OutliveServer) -> None:
    page = raw_request(besieged.ready["ports"]["rest"], "GET / HTTP/1.1", _PAGE)
    shown = set(page.headers["access-control-expose-headers"].lower().split(", "))
    answers = [answer for route in ROUTES for answer in route.beside.values()]
    names = {name.lower() for answer in answers for name in answer.get("headers", {})}
    assert "etag" in names
    assert names <= shown


@pytest.mark.promise("S4.10.hello")
def test_at_every_other_door_such_a_page_shows_a_token(besieged: OutliveServer) -> None:
    port = besieged.ready["ports"]["rest"]
    for path in ("/", "/v1/processes", "/metrics", "/docs", "/openapi.json", "/api/async/processes/list/"):
        refused = raw_request(port, f"GET {path} HTTP/1.1", _PAGE)
        assert refused.status == 401, path
        assert "--allow-origin" in refused.json["hint"]
        assert refused.headers["access-control-allow-origin"] == "http://localhost:5173"
    start = b'{"command": "echo in"}'
    for path in ("/v1/processes", "/api/sync/execute/"):
        assert raw_request(port, f"POST {path} HTTP/1.1", _PAGE, _JSON, body=start).status == 401
    for path in ("/ws/mcp", "/ws/terminal/1", "/", "/v1/processes/1/follow", "/mcp"):
        assert upgrade(besieged.port, path=path, headers={"Origin": "http://localhost:5173"}).status == 401
    assert _initialize(besieged, _PAGE, "Via: 1.1 proxy").status == 401
    assert _initialize(besieged, "Sec-Fetch-Site: same-origin").status == 401
    token = f"Authorization: Bearer {create_token(besieged, 'read')}"
    assert raw_request(port, "GET /v1/processes HTTP/1.1", _PAGE, token).status == 200


@pytest.mark.promise("S4.10.hello")
def test_a_command_of_ours_does_not_get_in_by_playing_a_page(besieged: OutliveServer, tmp_path: Path) -> None:
    script = (
        "import http.client, sys\n"
        "one = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]), timeout=20)\n"
        'body = \'{"jsonrpc":"2.0","id":0,"method":"initialize"}\'\n'
        "kind = {'Content-Type': 'application/json', 'Origin': 'http://localhost:5173'}\n"
        "one.request('POST', '/mcp', body, kind)\n"
        "print(one.getresponse().status)\n"
    )
    mine = Requests(besieged)
    port = besieged.ready["ports"]["mcp"]
    body = {"argv": [sys.executable, "-I", "-c", script, str(port)], "cwd": str(tmp_path)}
    started = mine("POST", "/v1/processes", body=body)
    assert mine.output(started.body["process_id"]) == "401\n"


@pytest.mark.promise("S4.10.hello")
def test_the_operator_can_close_that(serve: ServerFactory) -> None:
    server = serve("--no-hello")
    refused = _initialize(server, _PAGE)
    assert refused.status == 401
    assert "--allow-origin" in refused.json["error"]["data"]["hint"]
    port = server.ready["ports"]["rest"]
    assert raw_request(port, "GET /health HTTP/1.1", _PAGE).json == {"status": "ok"}


@pytest.mark.promise("S4.9.health")
def test_health_says_that_the_server_lives_to_whatever_reaches_it(serve: ServerFactory) -> None:
    server = serve(MCP_API_KEY="k")
    for port in server.ready["ports"].values():
        for shown in ((), ("X-API-Key: wrong",), (_PAGE,), ("Via: 1.1 proxy",)):
            answer = raw_request(port, "GET /health HTTP/1.1", *shown)
            assert (answer.status, answer.json) == (200, {"status": "ok"})
        assert raw_request(port, "HEAD /health HTTP/1.1").status == 200
        assert raw_request(port, "POST /health HTTP/1.1").status == 401
        assert raw_request(port, "GET /health HTTP/1.1", host="evil.example").status == 421
        assert raw_request(port, "GET /health HTTP/1.1", "Origin: http://evil.example").status == 403
        assert "processes" in raw_request(port, "GET /health HTTP/1.1", "X-API-Key: k").json


@pytest.mark.promise("S4.10.allowed")
def test_pages_of_an_allowed_origin_act_as_the_user(serve: ServerFactory) -> None:
    server = serve("--allow-origin", "https://app.example,http://localhost:5173")
    port = server.ready["ports"]["rest"]
    mine = Requests(server).start("sleep 60")["process_id"]
    for origin in ("https://app.example", "http://localhost:5173"):
        page = f"Origin: {origin}"
        asked = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type")
        preflight = raw_request(port, "OPTIONS /v1/processes HTTP/1.1", page, *asked)
        assert preflight.status == 204
        assert preflight.headers["access-control-allow-origin"] == origin
        assert "content-type" in preflight.headers["access-control-allow-headers"]
        started = raw_request(port, "POST /v1/processes HTTP/1.1", page, _JSON, body=b'{"command": "true"}')
        assert started.status == 201
        assert started.headers["access-control-allow-origin"] == origin
        assert raw_request(port, f"GET /v1/processes/{mine} HTTP/1.1", page).status == 200
        assert raw_request(port, "GET /v1/approvals HTTP/1.1", page).status == 403, "no more than run"
        assert upgrade(server.port, headers={"Origin": origin}).status == 101
        assert upgrade(server.port, headers={"Origin": origin, "Via": "1.1 proxy"}).status == 401
    assert raw_request(port, "GET /v1/processes HTTP/1.1", "Origin: http://localhost:5174").status == 401
    for foreign in ("https://app.example:444", "http://app.example", "https://app.example.evil.com", "null"):
        refused = raw_request(port, "GET /v1/processes HTTP/1.1", f"Origin: {foreign}")
        assert refused.status == 403
        assert "access-control-allow-origin" not in refused.headers
    image = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image")
    assert raw_request(port, "GET /v1/processes HTTP/1.1", *image).status == 403
    Requests(server)("POST", f"/v1/processes/{mine}/control", body={"action": "cancel"})


@pytest.mark.promise("S4.10.allowed")
@pytest.mark.parametrize(
    "wrong", ["*", "null", "app.example", "https://app.example/path", "https://*.example", "file://"]
)
def test_what_is_no_origin_is_not_allowed(tmp_path: Path, wrong: str) -> None:
    done = run_outlive("serve", "--allow-origin", wrong, state_dir=tmp_path / "state")
    assert (done.returncode, "is no origin" in done.stderr) == (1, True), done.stderr


@pytest.mark.promise("A.token.user")
def test_a_token_can_act_as_its_own_user(besieged: OutliveServer) -> None:
    made = run_outlive(
        "token", "create", "--as-user", "--name", "mine", "--json", state_dir=besieged.state_dir
    )
    document = json.loads(made.stdout)
    assert document["as_user"] is True
    acting, other = Requests(besieged, document["token"]), Requests(besieged, create_token(besieged))
    process_id = Requests(besieged).start("sleep 60")["process_id"]
    assert acting("GET", f"/v1/processes/{process_id}").status == 200
    assert other("GET", f"/v1/processes/{process_id}").status == 404
    ended = acting("POST", f"/v1/processes/{process_id}/control", body={"action": "cancel"})
    assert ended.status == 200
    begun = acting.start("true")["process_id"]
    assert Requests(besieged)("GET", f"/v1/processes/{begun}").status == 200
    assert acting("GET", "/v1/approvals").status == 403, "the scope is still the token's"
    listed = run_outlive("token", "list", state_dir=besieged.state_dir)
    assert "run as you" in listed.stdout
    refused = run_outlive("token", "create", "--as-user", "--scope", "bridge", state_dir=besieged.state_dir)
    assert refused.returncode == 2
    assert run_outlive("token", "create", "--scope", "hello", state_dir=besieged.state_dir).returncode == 2
