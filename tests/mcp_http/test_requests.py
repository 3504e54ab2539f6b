"""What one request has to look like, in both eras: Accept, revisions, batches, ids, parameters.

And what refuses say.
"""

import json
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import anyio
import pytest

from tests.mcp_http.modern_caller import ModernCaller
from tests.mcp_http.raw_caller import Answer, RawCaller, request
from tests.rest.test_loading import has_loaded
from tests.support.processes import Gate, Marker, wait_dead, wait_for
from tests.support.server import OutliveServer

_KIND = {"Content-Type": "application/json"}
_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


def _initialize(url: str, revision: object, path: str = "") -> Answer:
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    return request(url + path, "POST", body=json.dumps(message).encode(), headers=_KIND)


def _session(url: str, revision: str) -> RawCaller:
    return RawCaller(url, _initialize(url, revision).headers["mcp-session-id"])


def _call(
    name: str, arguments: object, meta: object = None, *, request_id: object = "seven"
) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments} | ({} if meta is None else {"_meta": meta})
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


@pytest.mark.promise("S4.1", "S4.10.hello")
def test_a_slash_behind_the_address_changes_nothing(server: OutliveServer) -> None:
    begun = _initialize(server.mcp_url, "2025-11-25", "/")
    caller = RawCaller(f"{server.mcp_url}/", begun.headers["mcp-session-id"])
    assert caller.call("execute_linux_shell_command", cmd="echo on").text == "on"
    assert caller.delete().status == 200
    page = {**_KIND, "Origin": "http://localhost:1"}
    body = json.dumps(_PING).encode()
    for url in (server.mcp_url, f"{server.mcp_url}/"):
        # 400: a page may ping, in a session.
        assert request(url, "POST", body=body, headers=page).status == 400
        foreign = request(url, "POST", body=body, headers={**_KIND, "Origin": "http://evil.com"})
        assert (foreign.status, foreign.json["error"]["data"]["reason"]) == (403, "foreign_origin")


@pytest.mark.promise("S4.11", "S4.3.json", "M.official")
@pytest.mark.parametrize(
    ("accept", "raw", "official"),
    [
        (None, "json", "json"),
        ("", "json", "json"),
        ("*/*", "json", "json"),
        ("application/json", "json", "json"),
        ("application/*;q=0.2, text/html", "json", "json"),
        ("text/event-stream", "events", "events"),
        ("text/event-stream;q=0.5, application/json", "json", "json"),
        ("text/*", "json", "events"),
        ("text/event-stream, application/json;q=0", "events", "events"),
        ("text/event-stream;q=0, */*", "json", "json"),
        ("*/*, application/json;q=0", "json", "events"),
        ("text/html", "json", None),
        ("application/json;q=0", "json", None),
        ("application/json;q=x", "json", None),
    ],
)
def test_an_answer_comes_in_the_form_that_was_asked_for(
    caller: RawCaller, accept: str | None, raw: str, official: str | None
) -> None:
    headers = {} if accept is None else {"Accept": accept}
    kinds = {"application/json": "json", "text/event-stream": "events"}
    answer = caller.post(_PING, headers=headers)
    assert (answer.status, kinds[answer.headers["content-type"]]) == (200, raw)
    named = {**headers, "MCP-Protocol-Version": "2025-11-25"}
    answer = caller.post(_PING, headers=named)
    assert answer.status == (406 if official is None else 200)
    assert official in {None, kinds[answer.headers["content-type"]]}


@pytest.mark.promise("M.stateless")
def test_what_2026_07_28_takes_as_accepted(server: OutliveServer) -> None:
    for accept, status in (
        ("application/json", 200),
        ("*/*", 200),
        ("text/event-stream", 200),
        ("text/html", 406),
    ):
        modern = ModernCaller(server.mcp_url, headers={"Accept": accept})
        assert modern.send("tools/list").status == status, accept
    deaf = ModernCaller(server.mcp_url, headers={"Accept": "application/json"})
    assert deaf.send("subscriptions/listen", notifications={}).status == 406


@pytest.mark.promise("S4.11")
def test_accept_may_be_spread_over_several_lines(server: OutliveServer, caller: RawCaller) -> None:
    body = json.dumps(_PING).encode()
    head = (
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
        f"{len(body)}\r\n"
        f"Mcp-Session-Id: {caller.session_id}\r\nMCP-Protocol-Version: 2025-11-25\r\nConnection: close\r\n"
        "Accept: text/html\r\nAccept: text/event-stream\r\n\r\n"
    )

    async def ask() -> bytes:
        async with await anyio.connect_tcp("127.0.0.1", server.ready["ports"]["mcp"]) as stream:
            await stream.send(head.encode() + body)
            return b"".join([piece async for piece in stream])

    answer = anyio.run(ask)
    assert b"200 OK" in answer
    assert b"content-type: text/event-stream" in answer


@pytest.mark.promise("M.revisions", "M.handshake", "S4.1")
@pytest.mark.parametrize("asked", [*_REVISIONS, "2026-07-28", "1999-01-01"])
def test_a_session_has_the_revision_that_was_asked_for_or_the_newest(
    server: OutliveServer, asked: str
) -> None:
    result = _initialize(server.mcp_url, asked).json["result"]
    assert result["protocolVersion"] == (asked if asked in _REVISIONS else "2025-11-25")
    assert result["serverInfo"]["name"] == "outlive"


@pytest.mark.promise("M.revisions", "M.handshake", "M.stateless")
def test_a_revision_that_is_not_served_is_refused_with_those_that_are(
    server: OutliveServer, caller: RawCaller
) -> None:
    for verb in ("POST", "GET", "DELETE"):
        headers = {**_KIND, "MCP-Protocol-Version": "2000-01-01", "Mcp-Session-Id": caller.session_id}
        answer = request(server.mcp_url, verb, body=json.dumps(_PING).encode(), headers=headers)
        error = answer.json["error"]
        assert (answer.status, error["code"]) == (400, -32022)
        assert error["data"] == {"requested": "2000-01-01", "supported": [*_REVISIONS, "2026-07-28"]}
        assert all(revision in error["message"] for revision in (*_REVISIONS, "2026-07-28", "2000-01-01"))
    # What a client without sessions may fall back to is named to it alone.
    other = {"io.modelcontextprotocol/protocolVersion": "2027-01-01"}
    modern = ModernCaller(server.mcp_url, headers={"MCP-Protocol-Version": "2027-01-01"}, meta=other)
    status, error = modern.error("tools/list")
    assert (status, error["code"], error["data"]["supported"]) == (400, -32022, ["2026-07-28"])
    assert caller.post(_PING).status == 200, "the session goes on"


@pytest.mark.promise("M.batches", "M.ids", "M.handshake")
def test_a_batch_is_answered_by_one_array(server: OutliveServer) -> None:
    caller = _session(server.mcp_url, "2025-03-26")
    batch = [
        _PING,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        _call("execute_linux_shell_command", {"cmd": "echo on"}, request_id="a"),
        {"jsonrpc": "2.0", "id": 2, "method": "nothing"},
        {"jsonrpc": "2.0", "id": 3, "method": "initialize"},
        {"id": 4, "method": "ping"},
        _PING,
        7,
    ]
    for headers in ({}, {"Accept": "text/event-stream", "MCP-Protocol-Version": "2025-03-26"}):
        answer = caller.post(batch, headers=headers)
        assert answer.status == 200
        found: list[dict[str, Any]] = json.loads(answer.body.rpartition(b"data: ")[2])
        said = [(one["id"], one.get("result") or one.get("error", {}).get("code")) for one in found]
        text = {"content": [{"type": "text", "text": "on"}], "isError": False}
        wanted = [(1, {}), (1, -32600), ("a", text), (2, -32601), (3, -32600), (4, -32600), (None, -32600)]
        assert sorted(said, key=str) == sorted([(key, value or None) for key, value in wanted], key=str)
    only_notified = caller.post([{"jsonrpc": "2.0", "method": "notifications/initialized"}])
    assert (only_notified.status, only_notified.body) == (202, b"")
    assert caller.post([]).status == 400
    assert caller.post([_PING] * 1001).status == 400


@pytest.mark.promise("M.batches", "S4.6", "M.handshake")
def test_a_request_of_a_batch_can_be_cancelled(server: OutliveServer, marker: Marker) -> None:
    caller = replace(_session(server.mcp_url, "2025-03-26"), headers={"MCP-Protocol-Version": "2025-03-26"})
    answers: list[Answer] = []
    sleep = _call("execute_linux_shell_command", {"cmd": marker.sleep}, request_id=5)
    waiting = threading.Thread(target=lambda: answers.append(caller.post([sleep, _PING])))
    waiting.start()
    (pid,) = anyio.run(wait_for, marker, 1)
    assert caller.cancel(5).status == 202
    waiting.join(20)
    anyio.run(wait_dead, pid)
    assert json.loads(answers[0].body) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


@pytest.mark.promise("M.batches", "S4.6")
def test_a_batch_that_is_cancelled_whole_has_no_answer(server: OutliveServer) -> None:
    """JSON-RPC 2.0, section 6: an empty array is none."""
    caller = replace(_session(server.mcp_url, "2025-03-26"), headers={"MCP-Protocol-Version": "2025-03-26"})
    sleep = _call("execute_linux_shell_command", {"cmd": "sleep 60"}, request_id=5)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
    answer = caller.post([sleep, cancel])
    assert (answer.status, answer.body) == (202, b"")


@pytest.mark.promise("M.batches", "M.handshake", "M.stateless")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_a_batch_elsewhere_is_refused_with_a_sentence(server: OutliveServer, revision: str) -> None:
    caller = _session(server.mcp_url, revision)
    named = {"MCP-Protocol-Version": "2026-07-28"}
    for headers in ({}, {"MCP-Protocol-Version": revision}, named):
        answer = caller.post([_PING], headers=headers)
        assert (answer.status, answer.json["error"]["code"]) == (400, -32600)
        assert "2025-03-26 alone" in answer.json["error"]["message"]
    without = request(server.mcp_url, "POST", body=b"[]", headers=_KIND)
    assert "2025-03-26 alone" in without.json["error"]["message"]


@pytest.mark.promise("M.ids")
@pytest.mark.parametrize("revision", [None, "2025-11-25", "2026-07-28"])
def test_what_does_not_decode_is_answered_with_the_id_that_it_has(
    caller: RawCaller, revision: str | None
) -> None:
    headers = {} if revision is None else {"MCP-Protocol-Version": revision}
    for body, found in (
        (b'{"jsonrpc":"2.0","id":7,"method":"ping",}', 7),
        (b'{"method":"ping","params":{"id":1},"id":"a-7"', "a-7"),
        (b'{"id":7,"method":"\\ud800"}', 7),
        (b'{"method": "id", "params": [', None),
    ):
        sent = {**_KIND, "Mcp-Session-Id": caller.session_id, **headers}
        answer = request(caller.url, "POST", body=body, headers=sent)
        assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (400, -32700, found)


@pytest.mark.promise("M.ids", "S4.6")
def test_an_id_that_is_in_use_is_refused_and_the_earlier_request_goes_on(
    caller: RawCaller, gate: Gate
) -> None:
    answers: list[Answer] = []
    held = _call("execute_linux_shell_command", {"cmd": f"echo first; {gate.wait}"}, request_id=5)
    waiting = threading.Thread(target=lambda: answers.append(caller.post(held, official=True)))
    with caller.stream("execute_linux_shell_command", 6, cmd=gate.wait):
        waiting.start()
        anyio.run(_runs, caller, "echo first")
        for same in (5, "5"):  # matched as strings (M.ids)
            again = caller.call("execute_linux_shell_command", same, official=True, cmd="echo second")
            assert (again.status, again.json["error"]["code"], again.json["id"]) == (400, -32600, same)
            assert "already in use" in again.json["error"]["message"]
        other = RawCaller.begin(caller.url)
        assert other.call("execute_linux_shell_command", 5, cmd="echo other").text == "other"
    # The connection of 6 is gone: its id is free although the command goes on.
    assert caller.call("execute_linux_shell_command", 6, cmd="echo on").text == "on"
    gate.open()
    waiting.join(20)
    assert answers[0].text == "first"
    assert caller.call("execute_linux_shell_command", 5, cmd="echo on").text == "on"


async def _runs(caller: RawCaller, command: str) -> None:
    with anyio.fail_after(20):
        while command not in caller.call("list", "look").text:  # noqa: ASYNC110 -- a blocking caller
            await anyio.sleep(0.02)


@pytest.mark.promise("M.stateless", "M.ids")
def test_ids_of_requests_without_sessions_are_each_clients_own(server: OutliveServer, gate: Gate) -> None:
    modern = ModernCaller(server.mcp_url)
    answers: list[dict[str, Any]] = []
    waiting = threading.Thread(
        target=lambda: answers.append(modern.call("run", command=f"{gate.wait}; echo first"))
    )
    waiting.start()
    assert modern.call("run", command="echo second")["content"][0]["text"].endswith("second")
    gate.open()
    waiting.join(20)
    assert answers[0]["content"][0]["text"].endswith("first")


@pytest.mark.promise("M.resources", "M.handshake", "M.stateless")
def test_the_error_for_a_missing_resource_names_it(server: OutliveServer, caller: RawCaller) -> None:
    uri = "outlive://process/zzz/output"
    for method in ("resources/read", "resources/subscribe"):
        answer = caller.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"uri": uri}}).json
        assert (answer["error"]["code"], answer["error"]["data"]) == (-32002, {"uri": uri})
    modern = ModernCaller(server.mcp_url, headers={"Mcp-Name": uri})
    status, error = modern.error("resources/read", uri=uri)
    assert (status, error["code"], error["data"]) == (400, -32602, {"uri": uri})


@pytest.mark.promise("M.progress", "M.official")
@pytest.mark.parametrize("token", ["t", 0])
def test_progress_carries_its_token_and_comes_before_the_answer(caller: RawCaller, token: str | int) -> None:
    asked = _call("execute_linux_shell_command", {"cmd": "echo one"}, {"progressToken": token})
    told = caller.post(asked, official=True, headers={"Accept": "text/event-stream"}).body
    progress, answer = (json.loads(text) for text in re.findall(rb"^data: ?(.*)$", told, re.MULTILINE))
    assert progress["params"] == {"progressToken": token, "progress": 1, "message": "one\n"}
    assert answer["result"]["content"] == [{"type": "text", "text": "one"}]


_WRONG: list[tuple[dict[str, Any], int | None]] = [
    (_call("nothing_of_that_name", {}), -32602),
    (_call("list_processes", []), -32602),
    (_call("list_processes", {}, []), -32602),
    (_call("list_processes", {}, {"progressToken": [1]}), -32602),
    (_call("list_processes", None), None),
    (_call("list_processes", {}, {"progressToken": None}), -32602),
    (_call("list_processes", {}, {"progressToken": True}), None),
    (_call("list_processes", {}, {"nobody.knows/this": 1}), None),
]


@pytest.mark.promise("M.handshake")
@pytest.mark.parametrize(("message", "code"), _WRONG)
def test_wrong_parameters_of_a_call_are_errors_of_the_protocol(
    caller: RawCaller, message: dict[str, Any], code: int | None
) -> None:
    answer = caller.post(message, official=True).json
    assert answer["id"] == "seven"
    assert answer.get("error", {}).get("code") == code
    assert ("result" in answer) is (code is None)


_VALUES: tuple[object, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    10**18,
    "",
    "x",
    "\ud83d\ude00",
    [],
    [1],
    {},
    {"x": []},
)
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "progressToken": 1,
    "traceparent": "x",
}
_METHODS: dict[str, dict[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
    "ping": {},
    "server/discover": {},
    "tools/list": {"cursor": "x"},
    "tools/call": {"name": "list_processes", "arguments": {}},
    "resources/list": {"cursor": "x"},
    "resources/templates/list": {},
    "resources/read": {"uri": "outlive://process/zzz/output"},
    "resources/subscribe": {"uri": "x"},
    "resources/unsubscribe": {"uri": "x"},
    "tasks/get": {"taskId": "x"},
    "tasks/update": {"taskId": "x", "inputResponses": {}},
    "tasks/cancel": {"taskId": "x"},
    "notifications/cancelled": {"requestId": 1, "reason": "x"},
    "nothing": {},
}


def _changed(value: object) -> Iterator[object]:
    """Yield a JSON value with each of its members replaced by every JSON type, one at a time, and left
    out.
    """
    if not isinstance(value, dict):
        return
    for name, member in value.items():
        yield {key: other for key, other in value.items() if key != name}
        for odd in _VALUES:
            yield {**value, name: odd}
        for inner in _changed(member):
            yield {**value, name: inner}


@pytest.mark.thorough
@pytest.mark.promise("S4.1", "M.stateless")
@pytest.mark.parametrize("revision", [None, "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("method", _METHODS)
def test_no_member_of_an_odd_type_upsets_the_door(
    server: OutliveServer, caller: RawCaller, method: str, revision: str | None
) -> None:
    params = {**_METHODS[method], "_meta": _META if revision == "2026-07-28" else {"progressToken": 1}}
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    if not method.startswith("notifications/"):
        message["id"] = 1
    headers = {"Accept": "application/json, text/event-stream", "Mcp-Method": method}
    if revision is not None:
        headers["MCP-Protocol-Version"] = revision
    name = params.get("name") or params.get("uri") or params.get("taskId")
    if name is not None:
        headers["Mcp-Name"] = name
    # A quarter of the thousands, another one in each process: the message of a failure names the case.
    for odd in islice(_changed(message), os.getpid() % 4, None, 4):
        answer = caller.post(odd, headers=headers)
        assert 200 <= answer.status < 500, (odd, answer)
        assert b"Something went wrong" not in answer.body, (odd, answer)
    assert "Traceback" not in server.stderr


@pytest.mark.root("a server's memory and descriptors are closed to its user")
@pytest.mark.thorough
def test_mcp_loads_no_second_validator(own_server: OutliveServer) -> None:
    """Pydantic's compiled part would show in the process's memory map: the official SDK is a client, in
    tests.
    """
    assert RawCaller.begin(own_server.mcp_url).call("execute_linux_shell_command", cmd="echo on").text == "on"
    assert ModernCaller(own_server.mcp_url).call("run", command="echo on")["content"]
    assert not has_loaded(own_server, "pydantic_core")
