"""execute with a process_id of the caller's choice: repeated, it runs once."""

import os
import time
from pathlib import Path

import pytest
from anyio import to_thread

from outlive.core.identity import RANDOM_BYTES, new_process_id
from tests.support.processes import Marker, wait_file, wait_for
from tests.support.rpc import RpcClient, connect
from tests.support.server import OutliveServer

pytestmark = [pytest.mark.anyio, pytest.mark.promise("S0.3.once")]


def _new_id() -> str:
    return new_process_id(time.time_ns(), os.urandom(RANDOM_BYTES))


async def test_a_repeated_execute_answers_for_the_process_that_runs(
    client: RpcClient, marker: Marker
) -> None:
    wanted = {"process_id": _new_id(), "detach": True, "concurrent": True}
    first = await client.execute(marker.sleep, **wanted)
    assert await client.execute(marker.sleep, **wanted) == first
    assert first["process_id"] == wanted["process_id"]
    assert await wait_for(marker, 1) == [first["pid"]]
    await client.request("control", type="CANCEL", process_id=first["process_id"])


async def test_a_repeated_execute_tells_the_output_and_the_end_again(client: RpcClient) -> None:
    process_id = _new_id()
    for _ in range(2):
        run = await client.run("echo once; exit 4", process_id=process_id)
        assert (run.process_id, run.stdout, run.exit_code) == (process_id, "once\n", 4)


async def test_an_execute_repeated_after_a_crash_of_the_server_starts_nothing_twice(
    own_server: OutliveServer, tmp_path: Path
) -> None:
    wanted = {"process_id": _new_id(), "detach": True}
    command = f"echo x >> '{tmp_path}/count'; touch '{tmp_path}/begun'; sleep 1000"
    async with connect(own_server.url) as client:
        await client.send("execute", {"command": command, **wanted})
        await wait_file(tmp_path / "begun")
        await to_thread.run_sync(own_server.restart)
    async with connect(own_server.url) as again:
        assert (await again.execute(command, **wanted))["process_id"] == wanted["process_id"]
    assert (tmp_path / "count").read_text() == "x\n"


async def test_a_failed_start_stays_failed_when_it_is_repeated(client: RpcClient) -> None:
    process_id = _new_id()
    for _ in range(2):
        refused = await client.failure("execute", argv=["/no/such/program"], process_id=process_id)
        assert refused.code == -32603


async def test_the_id_of_somebody_elses_private_process_is_taken(
    server: OutliveServer, client: RpcClient, marker: Marker
) -> None:
    result = await client.execute(marker.sleep)
    async with connect(server.url) as other:
        refused = await other.failure("execute", command="true", process_id=result["process_id"])
        assert (refused.code, refused.reason) == (-32602, "invalid_params")
    await wait_for(marker, 1)
    await client.request("control", type="CANCEL")
    await client.completed(result["process_id"])


async def test_what_is_no_ulid_is_refused(client: RpcClient) -> None:
    refused = await client.failure("execute", command="true", process_id="../x")
    assert (refused.code, refused.reason) == (-32602, "invalid_params")
