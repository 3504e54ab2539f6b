"""The official Python client, of both eras, over the relay's standard input and output."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.types import CallToolResult, TextContent

from tests.mcp_stdio.hosting import environment, server_of, words
from tests.support.processes import Gate, Marker, end, is_alive, wait_dead, wait_for
from tests.support.server import OutliveServer

pytestmark = pytest.mark.thorough

_BACKGROUND = "execute_background_linux_shell_command"
_FOREGROUND = "execute_linux_shell_command"
_ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28", "auto"])


@asynccontextmanager
async def _client(state_dir: Path, era: str) -> AsyncIterator[Client]:
    program, *arguments = words(state_dir)
    started = StdioServerParameters(command=program, args=arguments, env=environment())
    async with Client(started, mode=era) as client:
        yield client


def _text(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@_ERAS
@pytest.mark.promise("M.handshake", "M.stateless", "M.official")
async def test_an_official_client_lists_and_calls_the_tools(server: OutliveServer, era: str) -> None:
    async with _client(server.state_dir, era) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"run", _BACKGROUND, "command_execute"} <= names
        assert _text(await client.call_tool(_FOREGROUND, {"cmd": "echo hi"})) == "hi"


@_ERAS
@pytest.mark.promise("M.progress", "S4.3.official", "M.official")
async def test_output_arrives_as_progress_while_the_command_runs(
    server: OutliveServer, gate: Gate, era: str
) -> None:
    heard: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")
        gate.open()

    async with _client(server.state_dir, era) as client:
        with anyio.fail_after(30):
            command = f"echo one; {gate.wait}; echo two"
            result = await client.call_tool(_BACKGROUND, {"cmd": command}, progress_callback=hear)
    assert "".join(heard) == "one\ntwo\n"
    assert _text(result) == "one\ntwo"


@_ERAS
@pytest.mark.promise("S4.6", "M.stateless", "M.official")
async def test_giving_up_a_call_ends_its_command(server: OutliveServer, marker: Marker, era: str) -> None:
    async with _client(server.state_dir, era) as client, anyio.create_task_group() as group:
        with anyio.CancelScope() as call:
            group.start_soon(_give_up, call, marker)
            await client.call_tool(_FOREGROUND, {"cmd": marker.sleep})
        with anyio.fail_after(20):
            await wait_for(marker, 0)
            assert _text(await client.call_tool(_FOREGROUND, {"cmd": "echo on"})) == "on"


async def _give_up(call: anyio.CancelScope, marker: Marker) -> None:
    await wait_for(marker, 1)
    call.cancel()


@_ERAS
@pytest.mark.promise("M.restart", "M.background", "M.official")
async def test_client_and_background_command_outlive_a_killed_server(
    no_server: Path, marker: Marker, era: str
) -> None:
    async with _client(no_server, era) as client:
        await client.call_tool(_BACKGROUND, {"cmd": marker.sleep})
        (pid,) = await wait_for(marker, 1)
        (server_pid,) = server_of(no_server)
        end(server_pid)
        with anyio.fail_after(30):
            listed = await client.call_tool("list_processes", {})
        assert marker.seconds in _text(listed)
    assert is_alive(pid)
    assert server_of(no_server) not in ([], [server_pid])
    async with _client(no_server, era) as client:
        found = await client.call_tool("list_processes", {})
        assert found.structured_content is not None
        await client.call_tool("terminate_process", {"pid": found.structured_content["processes"][0]["pid"]})
    await wait_dead(pid)
