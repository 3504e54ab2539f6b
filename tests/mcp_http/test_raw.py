"""Raw callers: the documented events, texts and status codes, over real HTTP."""

import json
import re
import threading
from typing import Any

import anyio
import pytest

from tests.mcp_http.raw_caller import BACKGROUND, RawCaller, events_of, request
from tests.support.processes import Gate, Marker, is_alive, wait_dead, wait_for
from tests.support.server import OutliveServer


@pytest.mark.promise("S4.3", "S4.3.result", "M.raw")
def test_events_are_live_and_the_result_joins_both_streams(caller: RawCaller, gate: Gate) -> None:
    command = f"echo one; echo ' \"two\" ' >&2; printf 'h\\xc3\\xbc\\n'; {gate.wait}; echo; printf last"
    with caller.stream(BACKGROUND, 3, cmd=command) as response:
        assert response.getheader("content-type") == "text/event-stream"
        events = events_of(response)
        assert next(events)[1]["request_id"] == "3"
        seen = [next(events) for _ in range(3)]
        assert sorted(seen, key=str) == [
            ("stderr", {"content": ' "two" '}),
            ("stdout", {"content": "h\u00fc"}),
            ("stdout", {"content": "one"}),
        ]
        gate.open()
        rest = list(events)
    assert rest[:-1] == [("stdout", {"content": ""}), ("stdout", {"content": "last"})]
    text = 'one\nh\u00fc\n\nlast\n\nSTDERR:\n "two" '
    result = {"content": [{"type": "text", "text": text}], "isError": False}
    assert rest[-1] == ("message", {"jsonrpc": "2.0", "id": 3, "result": result})


@pytest.mark.promise("S4.3.result", "S4.2.exit", "M.ids")
def test_a_failure_is_an_error_and_a_string_id_comes_back_as_a_string(caller: RawCaller) -> None:
    with caller.stream(BACKGROUND, "a-7", cmd="exit 3") as response:
        events = list(events_of(response))
    assert [name for name, _ in events] == ["process_started", "message"]
    assert events[0][1]["request_id"] == "a-7"
    result = {"content": [{"type": "text", "text": "[exit code 3]"}], "isError": True}
    assert (events[1][1]["id"], events[1][1]["result"]) == ("a-7", result)


@pytest.mark.thorough
@pytest.mark.promise("S4.3")
def test_many_lines_arrive_all_and_in_order(caller: RawCaller) -> None:
    with caller.stream(BACKGROUND, 1, cmd="seq 200000") as response:
        lines = [data["content"] for name, data in events_of(response) if name == "stdout"]
    assert lines == [str(number) for number in range(1, 200001)]


@pytest.mark.promise("S4.3")
def test_a_line_of_megabytes_comes_in_parts(caller: RawCaller) -> None:
    with caller.stream(
        BACKGROUND, 1, cmd="head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end"
    ) as response:
        parts = [data for name, data in events_of(response) if name == "stdout"]
    assert "".join(part["content"] for part in parts[:-1]) == "x" * 3_000_000
    assert [part.get("partial") for part in parts[-2:]] == [None, None]
    assert all(part["partial"] for part in parts[:-2])
    assert parts[-1] == {"content": "end"}


@pytest.mark.promise("S4.3.json", "S4.11")
@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "text/html, */*"])
def test_any_other_accept_gets_plain_json_at_once(
    caller: RawCaller, marker: Marker, accept: str | None
) -> None:
    params = {"name": BACKGROUND, "arguments": {"cmd": marker.sleep}}
    message = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}
    answer = caller.post(message, headers={"Accept": accept} if accept else {})
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert "started" in answer.text
    found = re.search(r"\b\d+\b", answer.text)
    assert found is not None
    assert caller.cancel("5").status == 204
    anyio.run(wait_dead, int(found[0]))


@pytest.mark.promise("S4.3.both")
@pytest.mark.parametrize(
    "accept",
    ["application/json, text/event-stream", "text/event-stream;q=0.9, application/json", "text/event-stream"],
)
def test_a_raw_background_call_that_takes_events_gets_them_whatever_else_it_takes(
    caller: RawCaller, accept: str
) -> None:
    params = {"name": BACKGROUND, "arguments": {"cmd": "echo one"}}
    message = {"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": params}
    answer = caller.post(message, headers={"Accept": accept})
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
    names = [line for line in answer.body.decode().splitlines() if line.startswith("event: ")]
    assert names == ["event: process_started", "event: stdout", "event: message"]


@pytest.mark.promise("S4.3", "M.raw")
def test_events_are_framed_as_documented_in_their_order(caller: RawCaller) -> None:
    """The whole body: of each event its name, one line of data and an empty line; nothing between them."""
    with caller.stream(BACKGROUND, 3, cmd="echo one; echo two") as response:
        *blocks, rest = response.read().decode().split("\n\n")
    assert rest == ""
    heads, data = zip(*(block.split("\ndata: ") for block in blocks), strict=True)
    assert heads == ("event: process_started", "event: stdout", "event: stdout", "event: message")
    pid = json.loads(data[0])["pid"]
    assert data[0] == f'{{"pid": {pid}, "status": "started", "request_id": "3"}}'
    first, second, result = map(json.loads, data[1:])
    assert (first, second) == ({"content": "one"}, {"content": "two"})
    content = [{"type": "text", "text": "one\ntwo"}]
    assert result == {"jsonrpc": "2.0", "id": 3, "result": {"content": content, "isError": False}}


@pytest.mark.promise("S4.2", "S1.2", "S4.13.answers")
@pytest.mark.parametrize(
    ("tool", "member"),
    [("run", "command"), ("command_execute", "command"), ("execute_linux_shell_command", "cmd")],
)
def test_what_a_pipeline_writes_just_after_the_end_is_in_the_answer(
    caller: RawCaller, tool: str, member: str
) -> None:
    line = "exec > >(sleep 0.01; cat); echo FAI''LED; exit 1"
    arguments: dict[str, Any] = {member: line}
    assert "FAILED" in caller.call(tool, 1, **arguments).text


@pytest.mark.promise("S4.6", "M.ids", "M.raw")
@pytest.mark.parametrize(("sent", "cancelled"), [(3, "3"), ("3", 3), ("x", "x")])
def test_a_cancel_finds_its_request_whatever_the_type_of_the_id(
    caller: RawCaller, marker: Marker, sent: int | str, cancelled: int | str
) -> None:
    with caller.stream(BACKGROUND, sent, cmd=marker.sleep) as response:
        events = events_of(response)
        pid = next(events)[1]["pid"]
        answer = caller.cancel(cancelled)
        assert (answer.status, answer.body) == (204, b"")
        last = list(events)[-1][1]
    assert last["result"]["content"][0]["text"].startswith("[Process was terminated]")
    assert last["id"] == sent
    assert not is_alive(pid)


@pytest.mark.promise("S4.6")
def test_a_cancel_ends_a_command_that_its_caller_waits_for(caller: RawCaller, marker: Marker) -> None:
    answers = []
    waiting = threading.Thread(
        target=lambda: answers.append(caller.call("execute_linux_shell_command", 4, cmd=marker.sleep))
    )
    waiting.start()
    anyio.run(wait_for, marker, 1)
    assert caller.cancel(4).status == 204
    waiting.join(20)
    assert answers[0].text.startswith("[Process was terminated]")
    assert answers[0].json["result"]["isError"] is True


@pytest.mark.promise("S4.6")
def test_a_cancel_reaches_no_request_of_another_session(
    server: OutliveServer, caller: RawCaller, marker: Marker
) -> None:
    other = RawCaller.begin(server.mcp_url)
    with caller.stream(BACKGROUND, 1, cmd=marker.sleep) as response:
        pid = next(events_of(response))[1]["pid"]
        assert other.cancel(1).status == 204
        assert is_alive(pid)
        assert caller.cancel(1).status == 204
        anyio.run(wait_dead, pid)


@pytest.mark.promise("M.background")
def test_a_background_command_outlives_its_connection(caller: RawCaller, marker: Marker) -> None:
    with caller.stream(BACKGROUND, 1, cmd=marker.sleep) as response:
        pid = next(events_of(response))[1]["pid"]
    assert f"PID: {pid}" in caller.call("list_processes").text
    assert is_alive(pid)
    caller.cancel(1)
    anyio.run(wait_dead, pid)


@pytest.fixture
def ended(caller: RawCaller) -> RawCaller:
    """A session that its client has ended."""
    answer = request(caller.url, "DELETE", headers={"Mcp-Session-Id": caller.session_id})
    assert answer.status == 200
    return caller


@pytest.mark.promise("S4.1", "S4.1.verbs", "S4.1.initialized")
def test_a_session_is_needed_known_and_can_be_ended(server: OutliveServer, ended: RawCaller) -> None:
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    kind = {"Content-Type": "application/json"}
    assert request(server.mcp_url, "POST", body=ping, headers=kind).status == 400
    live = RawCaller.begin(server.mcp_url)
    assert live.post(json.loads(ping)).json == {"jsonrpc": "2.0", "id": 1, "result": {}}
    for unknown in ("nonsense", ended.session_id, live.session_id[:-1] + "!", live.session_id.upper()):
        headers = {**kind, "Mcp-Session-Id": unknown}
        assert request(server.mcp_url, "POST", body=ping, headers=headers).status == 404
    assert request(server.mcp_url, "DELETE").status == 400
    assert request(server.mcp_url, "GET", headers={"Accept": "text/event-stream"}).status == 400
    assert request(server.mcp_url, "GET", headers={"Mcp-Session-Id": live.session_id}).status == 406
    assert request(server.mcp_url, "PUT", headers={"Mcp-Session-Id": live.session_id}).status == 405


@pytest.mark.promise("S4.3")
def test_the_stream_of_a_queued_command_begins_when_its_turn_has_come(caller: RawCaller, gate: Gate) -> None:
    group = {"group": "raw", "group_limit": 1}
    with (
        caller.stream(BACKGROUND, 1, cmd=gate.wait, **group) as first,
        caller.stream(BACKGROUND, 2, cmd="echo turn", **group) as second,
    ):
        gate.open()
        assert [name for name, _ in events_of(first)] == ["process_started", "message"]
        events = list(events_of(second))
    assert [name for name, _ in events] == ["process_started", "stdout", "message"]
    assert isinstance(events[0][1]["pid"], int)
