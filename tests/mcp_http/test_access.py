"""Who may speak to the MCP door: keys, origins, hosts."""

import pytest

from tests.mcp_http.raw_caller import RawCaller, request
from tests.mcp_stdio.hosting import hosting
from tests.support.fixtures import ServerFactory
from tests.support.raw import http_get, upgrade
from tests.support.server import OutliveServer

pytestmark = pytest.mark.thorough

_KIND = {"Content-Type": "application/json"}
_INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize"}'
_KEY = "a long & random w\u00f6rd"


def _status(url: str, headers: dict[str, str]) -> int:
    return request(url, "POST", body=_INITIALIZE, headers={**_KIND, **headers}).status


@pytest.mark.promise("S4.9.key")
def test_every_tcp_caller_needs_the_key_in_one_of_three_forms(serve: ServerFactory) -> None:
    url = serve(MCP_API_KEY=_KEY).mcp_url
    key = _KEY.encode().decode("latin-1")
    for good in ({"Authorization": f"Bearer {key}"}, {"Authorization": key}, {"X-API-Key": key}):
        assert _status(url, good) == 200
    for bad in ({}, {"Authorization": "Bearer x"}, {"X-API-Key": key[:-1]}, {"Authorization": "Bearer"}):
        assert _status(url, bad) == 401
    assert request(url, "GET").status == 401
    assert request(url, "DELETE").status == 401
    modern = {"MCP-Protocol-Version": "2026-07-28"}
    assert _status(url, modern) == 401


@pytest.mark.promise("S4.9.key", "S4.10")
def test_who_is_refused_at_the_door_gets_a_json_rpc_error(serve: ServerFactory) -> None:
    url = serve(MCP_API_KEY="k").mcp_url
    for headers, reason in (
        ({}, "key_missing"),
        ({"X-API-Key": "k", "Origin": "http://evil.com"}, "foreign_origin"),
        ({"X-API-Key": "k", "Host": "evil.com"}, "foreign_host"),
    ):
        answer = request(url, "POST", body=_INITIALIZE, headers={**_KIND, **headers}).json
        assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", None, -32600)
        assert answer["error"]["data"]["reason"] == reason
        assert answer["error"]["data"]["hint"]


@pytest.mark.promise("S4.9.key", "S4.10")
def test_a_page_of_this_machine_may_call_with_the_key_and_foreign_ones_never(serve: ServerFactory) -> None:
    url = serve(MCP_API_KEY="k").mcp_url
    local = {"Origin": "http://localhost:5173"}
    preflight = request(url, "OPTIONS", headers={**local, "Access-Control-Request-Method": "POST"})
    assert preflight.status == 204
    assert preflight.headers["access-control-allow-origin"] == "http://localhost:5173"
    assert _status(url, local) == 401
    assert _status(url, {**local, "X-API-Key": "k"}) == 200
    for foreign in ("http://localhost.evil.com", "http://evil.com", "null", "http://localhost:1@evil.com"):
        assert _status(url, {"Origin": foreign, "X-API-Key": "k"}) == 403


@pytest.mark.promise("S4.10")
def test_a_page_of_this_machine_may_begin_and_foreign_ones_never_pass(
    server: OutliveServer,
) -> None:
    port = server.ready["ports"]["mcp"]
    for local in (f"http://localhost:{port}", "http://localhost:1", "https://127.0.0.1"):
        assert _status(server.mcp_url, {"Origin": local}) == 200
    for foreign in ("http://localhost.evil.com", f"http://localhost.evil.com:{port}", "null"):
        assert _status(server.mcp_url, {"Origin": foreign}) == 403
    assert _status(server.mcp_url, {"Host": "evil.com"}) == 421


@pytest.mark.promise("S4.9")
def test_the_termination_timeout_is_read_from_the_environment(serve: ServerFactory) -> None:
    """A tree that ignores TERM is gone after the timeout, by KILL."""
    caller = RawCaller.begin(serve(TERMINATION_TIMEOUT="0.3").mcp_url)
    command = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    with caller.stream("execute_background_linux_shell_command", 1, cmd=command) as response:
        while b"ready" not in (line := response.readline()):
            assert line
        listed = caller.call("list_processes", 2).json["result"]["structuredContent"]["processes"]
        ended = caller.call("terminate_process", 3, pid=listed[0]["pid"])
    assert "Signal: SIGKILL" in ended.text


@pytest.mark.promise("S4.9.key")
def test_the_key_is_asked_for_on_every_port_and_path_but_not_on_the_unix_socket(serve: ServerFactory) -> None:
    """The JSON-RPC upgrade, the metrics and what does not exist; the owner's own socket stays free."""
    server = serve(MCP_API_KEY="k")
    for good in ({"Authorization": "Bearer k"}, {"Authorization": "k"}, {"X-API-Key": "k"}):
        assert upgrade(server.port, headers=good).status == 101
        assert http_get(server.port, "/metrics", headers=good).status == 200
    for bad in ({}, {"Authorization": "Bearer x"}, {"X-API-Key": "kk"}, {"X-API-Key": ""}):
        refused = upgrade(server.port, headers=bad)
        assert (refused.status, "www-authenticate: bearer" in refused.text.lower()) == (401, True)
        for path in ("/", "/metrics", "/no/such/path"):
            assert http_get(server.port, path, headers=bad).status == 401
    with hosting(server.state_dir) as host:  # the relay has no key to send
        host.begin()
        host.call(1, "run", command="echo in")
        assert host.text(1).endswith("\nin")
