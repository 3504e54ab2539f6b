"""Whatever comes over HTTP, the MCP door answers with a status below 500 and goes on."""

import json
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.mcp_http.raw_caller import BACKGROUND, RawCaller, request
from tests.support.server import OutliveServer

_KIND = {"Content-Type": "application/json"}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_METHODS = st.sampled_from(
    [
        "initialize",
        "ping",
        "tools/list",
        "tools/call",
        "notifications/cancelled",
        "notifications/initialized",
        "server/discover",
        "subscriptions/listen",
        "resources/list",
        "logging/setLevel",
        "completion/complete",
        "",
        "x",
    ]
)
_TOOLS = st.sampled_from(
    ["list_processes", "terminate_process", "command_get_status", "command_list_history", ""]
)
_PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "name": _TOOLS | _JSON,
        "arguments": st.dictionaries(st.sampled_from(["pid", "command_id", "limit"]), _JSON) | _JSON,
        "requestId": _JSON,
        "reason": _JSON,
        "cursor": _JSON,
        "protocolVersion": st.sampled_from(["2025-11-25", "2026-07-28", "1"]) | _JSON,
        "_meta": st.dictionaries(
            st.sampled_from(["progressToken", "io.modelcontextprotocol/protocolVersion"]), _JSON, max_size=2
        ),
    },
)
_MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | _JSON,
        "id": st.integers() | st.text() | _JSON,
        "method": _METHODS | _JSON,
        "params": _PARAMS | _JSON,
        "result": _JSON,
        "error": _JSON,
    },
)
# What gets past the envelope and the session, so that wild values reach whatever reads them.
_WELL_FORMED = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": _METHODS, "params": _PARAMS},
    optional={"id": st.integers(-(2**53), 2**53) | st.text(max_size=5)},
)
# The same for each reader of its own: a share of the examples, or chance would hardly ever reach it.
_CANCELS = st.fixed_dictionaries(
    {
        "jsonrpc": st.just("2.0"),
        "method": st.just("notifications/cancelled"),
        "params": st.fixed_dictionaries({"requestId": _JSON, "reason": _JSON}),
    }
)
_CALLS = st.fixed_dictionaries(
    {
        "jsonrpc": st.just("2.0"),
        "id": st.just(1),
        "method": st.just("tools/call"),
        "params": st.fixed_dictionaries(
            {"name": _TOOLS},
            optional={
                "arguments": st.dictionaries(st.sampled_from(["pid", "command_id", "limit"]), _JSON),
                "_meta": st.fixed_dictionaries({"progressToken": _JSON}),
            },
        ),
    }
)
_ANSWERS = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "id": st.integers() | st.text(max_size=5)},
    optional={"result": _JSON, "error": _JSON},
)
_BODIES = st.one_of(
    _MESSAGES.map(lambda message: json.dumps(message).encode()),
    st.lists(_MESSAGES, max_size=2).map(lambda batch: json.dumps(batch).encode()),
    st.binary(max_size=60),
    st.just(b"[" * 100_000),
    st.just(b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}'),
    st.just(b'{"jsonrpc":"2.0","id":' + b"9" * 400 + b',"method":"ping"}'),
)
_VISIBLE = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=30
)
_HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "Accept": st.sampled_from(["*/*", "text/event-stream", "application/json", "text/html", ",;,"])
        | _VISIBLE,
        "Content-Type": st.sampled_from(["application/json; charset=utf-8", "text/plain"]) | _VISIBLE,
        "MCP-Protocol-Version": st.sampled_from(["2025-11-25", "2026-07-28", "2024-11-05", "9"]) | _VISIBLE,
        "Mcp-Method": _METHODS.filter(bool) | _VISIBLE,
        "Mcp-Session-Id": _VISIBLE,
        "Last-Event-Id": _VISIBLE,
    },
)


@pytest.fixture(scope="module")
def alive(server: OutliveServer) -> Iterator[RawCaller]:
    """A raw caller whose session still works when all is over, as does its server."""
    caller = RawCaller.begin(server.mcp_url)
    yield caller
    assert caller.call("list_processes").status == 200
    assert "Traceback" not in server.stderr


@pytest.mark.promise("S4.1", "S4.1.verbs")
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    verb=st.sampled_from(["POST", "POST", "POST", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"]),
    body=_BODIES,
    headers=_HEADERS,
    has_session=st.booleans(),
)
def test_no_request_upsets_the_door(
    alive: RawCaller, verb: str, body: bytes, headers: dict[str, str], has_session: bool
) -> None:
    if b"subscriptions/listen" in body and headers.get("MCP-Protocol-Version") == "2026-07-28":
        return  # a stream that rightly does not end
    session = {"Mcp-Session-Id": alive.session_id} if has_session and verb != "DELETE" else {}
    answer = request(alive.url, verb, body=body, headers={**_KIND, **headers, **session})
    assert 200 <= answer.status < 500, answer


@pytest.mark.thorough
@pytest.mark.promise("S4.1", "S4.6")
@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    message=_WELL_FORMED | _ANSWERS | _CANCELS | _CALLS,
    revision=st.sampled_from([None, None, "2025-11-25", "2024-11-05"]),
    accept=st.sampled_from([None, "text/event-stream", "application/json, text/event-stream"]),
)
def test_no_well_formed_message_upsets_what_reads_its_values(
    alive: RawCaller, message: dict[str, object], revision: str | None, accept: str | None
) -> None:
    headers = {"MCP-Protocol-Version": revision, "Accept": accept}
    sent = {name: text for name, text in headers.items() if text is not None}
    answer = alive.post(message, headers=sent)
    assert 200 <= answer.status < 500, answer
    assert b"Something went wrong" not in answer.body


@pytest.mark.promise("S4.3")
@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    arguments=_JSON
    | st.fixed_dictionaries({"cmd": st.sampled_from(["true", "", "\0", "x" * 300_000]) | _JSON})
)
def test_no_arguments_upset_a_raw_stream(alive: RawCaller, arguments: object) -> None:
    params = {"name": BACKGROUND, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = alive.post(message, headers={"Accept": "text/event-stream"})
    assert answer.status == 200
    last = answer.body.decode().rstrip("\n").rpartition("data: ")[2]
    assert json.loads(last)["id"] == 1


@pytest.mark.promise("S4.1")
def test_a_body_that_never_comes_holds_nobody_up(server: OutliveServer) -> None:
    with socket.create_connection(("127.0.0.1", server.ready["ports"]["mcp"]), timeout=10) as peer:
        head = (
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {10**7}"
        )
        peer.sendall(f"{head}\r\n\r\n{{".encode())
        assert RawCaller.begin(server.mcp_url).call("list_processes").status == 200


@pytest.mark.promise("S4.1")
def test_a_body_over_the_limit_is_refused(server: OutliveServer) -> None:
    answer = request(server.mcp_url, "POST", body=b" " * (16 * 1024 * 1024 + 1), headers=_KIND)
    assert answer.status == 413
    modern = {**_KIND, "MCP-Protocol-Version": "2026-07-28", "Accept": "application/json, text/event-stream"}
    assert request(server.mcp_url, "POST", body=b" " * (16 * 1024 * 1024 + 1), headers=modern).status == 413
