"""`terminal_execute` without a terminal: the active one, at the doors where a terminal is a parameter."""

import json
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from websockets.asyncio.client import connect

from tests.support.server import OutliveServer
from tests.terminals.doors import Caller, caller_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def own_home(tmp_path: Path) -> Iterator[OutliveServer]:
    """A server of the test's own, which has no terminals yet."""
    with OutliveServer(tmp_path / "state", env={"HOME": str(tmp_path), "SHELL": "/bin/bash"}) as server:
        yield server


@pytest.mark.promise("S3.6.active")
async def test_a_raw_websocket_runs_commands_without_naming_a_terminal(own_home: OutliveServer) -> None:
    """Nothing of ours but JSON in frames: the first command opens a terminal, the second finds it as it was
    left.
    """
    async with connect(own_home.url) as socket:
        results = []
        for number, command in enumerate(("cd /; WORD=kept", 'echo "$PWD $WORD"')):
            params = {"command": command, "wait_s": 20}
            call = {"jsonrpc": "2.0", "id": number, "method": "terminal_execute", "params": params}
            await socket.send(json.dumps(call))
            with anyio.fail_after(30):
                while (answer := json.loads(await socket.recv())).get("id") != number:
                    pass
            results.append(answer["result"])
    assert results[0]["terminal_id"] == results[1]["terminal_id"]
    assert (results[1]["output"], results[1]["exit_code"]) == ("/ kept\n", 0)


async def _taken(caller: Caller) -> str:
    gave = await caller.call("execute", command="true", wait_s=20)
    assert gave["exit_code"] == 0
    return str(gave["terminal_id"])


@pytest.mark.thorough
@pytest.mark.promise("S3.6.active")
@pytest.mark.parametrize("door", ["mcp", "jsonrpc"])
async def test_the_active_terminal_is_the_one_used_last_else_the_newest(
    door: str, own_home: OutliveServer
) -> None:
    caller = caller_of(door, own_home)
    opened = [await caller.create() for _ in range(3)]
    assert await _taken(caller) == opened[2]
    await caller.call("write", terminal_id=opened[0], text="true\n")
    await caller.ready(opened[0])
    assert await _taken(caller) == opened[0]
    await caller.call("close", terminal_id=opened[0])
    assert await _taken(caller) == opened[2]
    await caller.run(opened[1], "true")
    await anyio.to_thread.run_sync(own_home.restart)
    assert await _taken(caller) == opened[2]  # what was used last is not kept, the newest is known
