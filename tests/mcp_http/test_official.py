"""The official Python client, of both eras, over real HTTP."""

import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from mcp.client.client import Client
from mcp.types import CallToolResult, TextContent

from tests.mcp_http.raw_caller import BACKGROUND, Answer, RawCaller, request
from tests.support.processes import Gate, Marker, is_alive, wait_dead, wait_for
from tests.support.server import OutliveServer

_ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


@asynccontextmanager
async def _client(server: OutliveServer, era: str) -> AsyncIterator[Client]:
    async with Client(server.mcp_url, mode=era) as client:
        yield client


def _text(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@_ERAS
@pytest.mark.promise("M.handshake", "M.stateless", "M.official", "S1.1", "S4.2")
async def test_an_official_client_lists_and_calls_the_tools(server: OutliveServer, era: str) -> None:
    async with _client(server, era) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {BACKGROUND, "execute_linux_shell_command", "command_execute", "list_processes"} <= names
        result = await client.call_tool("execute_linux_shell_command", {"cmd": "echo out; echo err >&2"})
        assert (_text(result), result.is_error) == ("out\n\nSTDERR:\nerr", False)
        ran = await client.call_tool("command_execute", {"command": "exit 4"})
        assert ran.structured_content is not None
        assert (ran.structured_content["return_code"], ran.is_error) == (4, False)


@_ERAS
@pytest.mark.promise("M.progress", "S4.3.official", "M.official")
async def test_output_arrives_as_progress_while_the_command_runs(
    server: OutliveServer, gate: Gate, era: str
) -> None:
    heard: list[str] = []
    first = anyio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")
        first.set()

    async def open_gate() -> None:
        await first.wait()
        gate.open()

    async with _client(server, era) as client:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(open_gate)
                command = f"echo one; {gate.wait}; echo two"
                result = await client.call_tool(BACKGROUND, {"cmd": command}, progress_callback=hear)
    assert "".join(heard) == "one\ntwo\n"
    assert _text(result) == "one\ntwo"


@pytest.mark.promise("S4.3.official", "S4.6", "M.background")
async def test_without_a_token_a_background_call_answers_at_once(
    server: OutliveServer, marker: Marker
) -> None:
    async with _client(server, "legacy") as client:
        with anyio.fail_after(20):
            result = await client.call_tool(BACKGROUND, {"cmd": marker.sleep})
        assert "started" in _text(result)
        (pid,) = await wait_for(marker, 1)
        listed = await client.call_tool("list_processes", {})
        assert listed.structured_content is not None
        pids = [
            one["pid"] for one in listed.structured_content["processes"] if marker.seconds in one["command"]
        ]
        await client.call_tool("terminate_process", {"pid": pids[0]})
        await wait_dead(pid)


@_ERAS
@pytest.mark.promise("S4.6", "M.stateless", "M.official")
async def test_giving_up_a_call_ends_its_command(server: OutliveServer, marker: Marker, era: str) -> None:
    """By notifications/cancelled in one era, by closing the response stream in the other."""
    async with _client(server, era) as client, anyio.create_task_group() as group:
        with anyio.CancelScope() as call:
            group.start_soon(_give_up, call, marker)
            await client.call_tool("execute_linux_shell_command", {"cmd": marker.sleep})
        with anyio.fail_after(20):
            await wait_for(marker, 0)
            # Goes on; and a client that left at once could not take the answer to the call it gave up.
            result = await client.call_tool("execute_linux_shell_command", {"cmd": "echo on"})
        assert _text(result) == "on"


async def _give_up(call: anyio.CancelScope, marker: Marker) -> None:
    await wait_for(marker, 1)
    call.cancel()


@pytest.mark.thorough
@pytest.mark.promise("M.restart", "M.handshake")
async def test_a_client_of_the_handshake_era_keeps_working_after_a_restart(own_server: OutliveServer) -> None:
    async with _client(own_server, "legacy") as client:
        await client.call_tool("execute_linux_shell_command", {"cmd": "true"})
        await anyio.to_thread.run_sync(own_server.restart)
        result = await client.call_tool("execute_linux_shell_command", {"cmd": "echo again"})
    assert _text(result) == "again"


@pytest.mark.promise("M.official", "S4.6")
def test_a_caller_with_the_version_header_gets_202_and_no_extra_events(
    caller: RawCaller, marker: Marker
) -> None:
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert caller.post(initialized, official=True).status == 202
    answer = caller.call(BACKGROUND, 8, official=True, cmd=marker.sleep)
    assert answer.headers["content-type"] == "application/json"
    (pid,) = anyio.run(wait_for, marker, 1)
    cancelled = caller.cancel(8, official=True)
    assert (cancelled.status, cancelled.body) == (202, b"")
    anyio.run(wait_dead, pid)


@pytest.mark.promise("M.official.cancel")
@pytest.mark.parametrize(
    ("accept", "status"), [("application/json, text/event-stream", 200), ("application/json", 202)]
)
@pytest.mark.parametrize("tool", ["execute_linux_shell_command", "run"])
def test_a_cancelled_request_of_a_caller_with_the_version_header_gets_no_answer(
    caller: RawCaller, marker: Marker, accept: str, status: int, tool: str
) -> None:
    command = {"cmd": marker.sleep} if tool != "run" else {"command": marker.sleep}
    params = {"name": tool, "arguments": command, "_meta": {"progressToken": "t"}}
    message = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}
    answers: list[Answer] = []

    def call() -> None:
        answers.append(caller.post(message, official=True, headers={"Accept": accept}))

    waiting = threading.Thread(target=call)
    waiting.start()
    (pid,) = anyio.run(wait_for, marker, 1)
    assert caller.cancel(9, official=True).status == 202
    waiting.join(20)
    anyio.run(wait_dead, pid)
    (answer,) = answers
    assert answer.status == status
    assert b"result" not in answer.body
    assert b"error" not in answer.body
    again = caller.call("execute_linux_shell_command", 9, official=True, cmd="echo on")
    assert b'"on' in again.body, "the id is free again"


@pytest.mark.promise("M.official", "S4.3.official")
@pytest.mark.parametrize("token", [None, "t"])
def test_a_caller_with_the_version_header_gets_messages_only_however_it_asks(
    caller: RawCaller, token: str | None
) -> None:
    """For events alone too, which makes a raw caller's background call stream: no other event than
    `message`.
    """
    params: dict[str, object] = {"name": BACKGROUND, "arguments": {"cmd": "echo one; echo two >&2"}}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    message = {"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": params}
    answer = caller.post(message, official=True, headers={"Accept": "text/event-stream"})
    lines = answer.body.decode().splitlines()
    assert {line for line in lines if line.startswith("event:")} == {"event: message"}
    data = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    methods = {one["method"] for one in data[:-1]}
    assert methods == (set() if token is None else {"notifications/progress"})
    text = data[-1]["result"]["content"][0]["text"]
    assert text.startswith("Background process started") if token is None else text == "one\n\nSTDERR:\ntwo"


@pytest.mark.promise("M.handshake")
def test_a_lost_connection_cancels_nothing_in_the_handshake_era(caller: RawCaller, marker: Marker) -> None:
    with caller.unread("execute_linux_shell_command", 1, cmd=marker.sleep):
        (pid,) = anyio.run(wait_for, marker, 1)
    caller.call("list_processes", 2)
    assert is_alive(pid)
    caller.cancel(1)
    anyio.run(wait_dead, pid)


@pytest.mark.promise("M.stateless")
def test_blanks_around_a_header_are_no_part_of_it(server: OutliveServer) -> None:
    """A raw 2026-07-28 request; RFC 9110, section 5.5."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    }
    params = {"name": "list_processes", "arguments": {}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28 ",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "  list_processes \t",
    }
    answer = request(server.mcp_url, "POST", body=json.dumps(message).encode(), headers=headers)
    assert answer.status == 200, answer
    assert "mcp-session-id" not in answer.headers
    missing = {name: value for name, value in headers.items() if name != "MCP-Protocol-Version"}
    assert request(server.mcp_url, "POST", body=json.dumps(message).encode(), headers=missing).status == 400
