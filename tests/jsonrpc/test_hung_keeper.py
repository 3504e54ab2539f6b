"""A supervisor that hangs (SIGSTOP): the caller is told, nothing is lost, and things go on afterwards."""

import os
import signal
from contextlib import suppress

import anyio
import pytest
from anyio import to_thread

from tests.support.processes import Gate
from tests.support.rpc import RpcClient, RpcFailure, connect
from tests.support.server import OutliveServer

pytestmark = [pytest.mark.anyio, pytest.mark.thorough, pytest.mark.usefixtures("stays_stopped")]


async def _stop_supervisor(server: OutliveServer, *, guardian_too: bool = False) -> list[int]:
    status = await to_thread.run_sync(server.keeper_status)
    pids = [status.guardian_pid] if guardian_too else []
    stopped = [pid for pid in [*pids, status.supervisor_pid] if pid is not None]
    assert len(stopped) == 1 + guardian_too
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    return stopped


def _continue(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # the keeper may have replaced it meanwhile
            os.kill(pid, signal.SIGCONT)


@pytest.mark.promise("S0.11", "S0.11.hint", "S0.bad.hung-supervisor")
async def test_a_hung_supervisor_is_told_and_overcome(own_server: OutliveServer, gate: Gate) -> None:
    """Bad input: a clear message with a hint (or help within the wait), then every byte and the exit code."""
    async with connect(own_server.url, patience_s=40) as client:
        running = await client.execute(f"seq 1 5000; {gate.wait}; seq 5001 10000; exit 13")
        await client.output(running["process_id"], "1000\n")
        stopped = await _stop_supervisor(own_server)
        try:
            await _told_or_helped(client)
            await client.barrier()  # what needs no keeper still works
        finally:
            _continue(stopped)
        gate.open()
        run = await client.finish(running)
        assert run.exit_code == 13
        assert run.stdout == "".join(f"{number}\n" for number in range(1, 10_001))
        with anyio.fail_after(40):
            await _until_a_command_runs(client)


async def _told_or_helped(client: RpcClient) -> None:
    """Start a command: it runs, or the refusal is of the promised kind."""
    answer = await client.response(
        await client.send("execute", {"command": "echo helped", "concurrent": True})
    )
    if "error" in answer:
        failure = RpcFailure(answer["error"])
        assert failure.code in (-32603, -32004)
        assert failure.reason in ("timeout", "keeper_unavailable", "keeper_restarted")
        assert failure.hint
    else:
        assert (await client.finish(answer["result"])).stdout == "helped\n"


async def _until_a_command_runs(client: RpcClient) -> None:
    """Run commands until one is accepted again."""
    while True:
        with suppress(RpcFailure):
            run = await client.run("echo again", concurrent=True)
            assert run.stdout == "again\n"
            return
        await anyio.sleep(0.1)


@pytest.mark.promise("S0.bad.hung-supervisor")
async def test_a_server_that_starts_beside_a_hung_supervisor_becomes_ready(own_server: OutliveServer) -> None:
    """Bad input: starting does not wait for ever; what ran before is whole at the end."""
    async with connect(own_server.url) as client:
        result = await client.execute("echo one; sleep 0.3; echo two; exit 14", detach=True)
        await client.output(result["process_id"], "one")
        stopped = await _stop_supervisor(own_server)
        try:
            await to_thread.run_sync(own_server.restart)
        finally:
            _continue(stopped)
    async with connect(own_server.url, patience_s=40) as again:
        await again.request("attach", process_id=result["process_id"], cursor="4.0")
        assert (await again.completed(result["process_id"]))["exit_code"] == 14
        assert again.cursor(result["process_id"]) == "8.0"


@pytest.mark.slow
@pytest.mark.promise("S0.bad.hung-supervisor", "S0.11.hint")
async def test_a_keeper_that_hangs_as_a_whole_is_an_error_with_a_hint(own_server: OutliveServer) -> None:
    """S0.bad.hung-supervisor: nobody is left to help, so the caller is told; afterwards all is well."""
    async with connect(own_server.url, patience_s=80) as client:
        stopped = await _stop_supervisor(own_server, guardian_too=True)
        try:
            failure = await client.failure("execute", command="echo late")
        finally:
            _continue(stopped)
        assert failure.code in (-32603, -32004)
        assert failure.reason in ("timeout", "keeper_unavailable", "keeper_restarted")
        assert failure.hint
        with anyio.fail_after(40):
            await _until_a_command_runs(client)
