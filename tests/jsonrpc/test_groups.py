"""Groups on the wire: queued, then started, and what a restart of the server changes: nothing."""

from pathlib import Path

import pytest
from anyio import to_thread

from tests.support.processes import Gate
from tests.support.rpc import RpcClient, connect, output_text
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio


async def _queue_behind(client: RpcClient, line: str, gate: Gate, group: str) -> tuple[str, str]:
    first = await client.execute(gate.wait, concurrent=True, group=group, group_limit=1)
    assert first["status"] == "started"
    second = await client.execute(line, concurrent=True, group=group)
    assert (second["status"], second["pid"]) == ("queued", None)
    return first["process_id"], second["process_id"]


@pytest.mark.promise("W.state.jsonrpc")
async def test_who_waits_is_queued_then_started_then_completed(client: RpcClient, gate: Gate) -> None:
    first, second = await _queue_behind(client, "echo mine; exit 4", gate, "one")
    found = await client.request("get", process_id=second)
    assert (found["status"], found["state"], found["pid"]) == ("queued", "queued", None)
    gate.open()
    await client.completed(first)
    completed = await client.completed(second)
    assert (completed["status"], completed["exit_code"]) == ("failed", 4)
    mine = [
        message
        for message in client.messages
        if "method" in message and message["params"].get("process_id") == second
    ]
    queued = mine.pop(0)
    assert (queued["method"], queued["params"]["waits_for"]) == ("process.queued", "group")
    assert [message["method"] for message in mine] == [
        "process.started",
        "process.output",
        "process.completed",
    ]
    assert mine[0]["params"]["pid"] == completed["pid"]
    assert mine[1]["params"]["data"] == "mine\n"


async def test_who_is_cancelled_while_waiting_is_told_completed_without_an_exit_code(
    client: RpcClient, gate: Gate, tmp_path: Path
) -> None:
    trace = tmp_path / "ran"
    first, second = await _queue_behind(client, f"touch {trace}", gate, "two")
    assert (await client.failure("control", process_id=second, type="PAUSE")).reason == "process_queued"
    await client.request("control", process_id=second, type="CANCEL")
    completed = await client.completed(second)
    assert (completed["status"], completed["exit_code"], completed["pid"]) == ("failed", None, None)
    assert completed["error"]
    gate.open()
    await client.completed(first)
    assert not trace.exists()


async def test_a_queued_command_survives_the_server(own_server: OutliveServer, gate: Gate) -> None:
    async with connect(own_server.url) as client:
        _, second = await _queue_behind(client, "echo late; exit 6", gate, "three")
        await to_thread.run_sync(own_server.kill)
    await to_thread.run_sync(own_server.start)
    async with connect(own_server.url, session_id=client.session_id) as again:
        assert again.hello["resumed"] is True
        statuses = {one["process_id"]: one["status"] for one in again.hello["processes"]}
        assert statuses[second] == "queued"
        gate.open()
        completed = await again.completed(second)
        assert completed["exit_code"] == 6
        assert output_text(again.messages, second) == "late\n"
        assert [
            message["method"] for message in again.messages if "started" in message.get("method", "")
        ] == ["process.started"]


@pytest.mark.parametrize("limit", [0, -1, "2", 1.5])
async def test_a_limit_is_a_whole_number_from_one_on(client: RpcClient, limit: object) -> None:
    refused = await client.failure("execute", command="true", group="four", group_limit=limit)
    assert refused.code == -32602
