"""Nothing is lost: the server killed, stopped, started again; the keeper killed.

Bytes and exit codes stay exact.
"""

import os
import signal
from pathlib import Path

import pytest
from anyio import to_thread

from tests.support.fixtures import ServerFactory
from tests.support.processes import Gate, Marker, is_alive, is_stopped, wait_dead, wait_file, wait_for
from tests.support.rpc import RpcClient, connect, output_text, records
from tests.support.server import OutliveServer, run_outlive

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]


def _numbers(first: int, last: int) -> str:
    return "".join(f"{number}\n" for number in range(first, last + 1))


@pytest.mark.promise("S0.14.resume", "S0.14.once", "S0.9", "W.cursor")
async def test_a_killed_server_loses_no_byte_and_no_exit_code(own_server: OutliveServer, gate: Gate) -> None:
    """S0.14: SIGKILL in the middle; the process ends while nobody is there.

    Session and cursor give the rest.
    """
    noisy = "for n in $(seq 1 400); do echo $n; echo e$n >&2; done"
    async with connect(own_server.url) as client:
        result = await client.execute(f"seq 1 3000; {noisy}; {gate.wait}; seq 3001 6000; {noisy}; exit 7")
        process_id = result["process_id"]
        await client.output(process_id, "1500\n")
        await to_thread.run_sync(own_server.kill)
    assert is_alive(result["pid"])
    gate.open()
    await wait_dead(result["pid"])
    await to_thread.run_sync(own_server.start)
    async with connect(
        own_server.url, session_id=client.session_id, cursor=client.cursor(process_id)
    ) as again:
        assert again.hello["resumed"] is True
        assert again.session_id == client.session_id
        completed = await again.completed(process_id)
        await again.barrier()
    assert (completed["status"], completed["exit_code"], completed["error"]) == ("failed", 7, None)
    messages = client.messages + again.messages
    extra = _numbers(1, 400)
    assert output_text(messages, process_id) == _numbers(1, 3000) + extra + _numbers(3001, 6000) + extra
    expected_errors = "".join(f"e{number}\n" for number in range(1, 401)) * 2
    assert output_text(messages, process_id, "stderr") == expected_errors
    kinds = [message.get("method") for message in messages]
    assert (kinds.count("process.started"), kinds.count("process.completed")) == (1, 1)


@pytest.mark.promise("S0.14.resume")
async def test_a_process_that_still_runs_streams_on_after_the_restart(
    own_server: OutliveServer, gate: Gate
) -> None:
    """S0.14: live output after the restart, and it can be controlled again."""
    async with connect(own_server.url) as client:
        result = await client.execute(f"echo before; {gate.wait}; echo after; sleep 1000")
        await client.output(result["process_id"], "before")
        await to_thread.run_sync(own_server.restart)
    cursor = client.cursor(result["process_id"])
    async with connect(own_server.url, session_id=client.session_id, cursor=cursor) as again:
        assert again.hello["resumed"] is True
        gate.open()
        await again.output(result["process_id"], "after")
        await again.request("control", type="CANCEL")
        assert (await again.completed(result["process_id"]))["exit_code"] == -15


@pytest.mark.promise("S0.9", "S0.9.signal")
async def test_exit_codes_of_processes_that_ended_without_a_server_are_known(
    own_server: OutliveServer, gate: Gate
) -> None:
    """S0.9: never invented, never lost: the keeper has them."""
    ends = {"exit 0": 0, "exit 3": 3, "exit 255": 255, "kill -9 $$": -9, "kill -1 $$": -1}
    started = {}
    async with connect(own_server.url) as client:
        for end, code in ends.items():
            result = await client.execute(f"{gate.wait}; {end}", concurrent=True)
            started[result["process_id"]] = (result["pid"], code)
        await to_thread.run_sync(own_server.kill)
    gate.open()
    await wait_dead(*(pid for pid, _ in started.values()))
    await to_thread.run_sync(own_server.start)
    async with connect(own_server.url, session_id=client.session_id) as again:
        for process_id, (_, code) in started.items():
            assert (await again.request("wait", process_id=process_id))["exit_code"] == code


@pytest.mark.promise("S0.14.clock")
async def test_the_grace_does_not_run_while_the_server_is_dead(serve: ServerFactory, tmp_path: Path) -> None:
    """S0.14: it counts from the end of the recovery after a crash, and then it does count."""
    server = await to_thread.run_sync(lambda: serve(OUTLIVE_RECONNECT_GRACE="0.5"))
    async with connect(server.url) as client:
        result = await client.execute(f"sleep 1.5; touch '{tmp_path}/lived'; sleep 1000")
        await to_thread.run_sync(server.kill)
    await wait_file(tmp_path / "lived")
    assert is_alive(result["pid"])
    await to_thread.run_sync(server.start)
    await wait_dead(result["pid"])


@pytest.mark.promise("S0.14.detach")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
async def test_stopping_the_server_leaves_the_processes_alone(
    own_server: OutliveServer, gate: Gate, sent: signal.Signals
) -> None:
    """S0.14: Ctrl-C stops the server, not the processes, and says so."""
    async with connect(own_server.url) as client:
        result = await client.execute(f"echo one; {gate.wait}; echo two; exit 8", detach=True)
        await client.output(result["process_id"], "one")
        code = await to_thread.run_sync(own_server.stop, sent)
    assert code in (0, -sent, 128 + sent)
    assert is_alive(result["pid"])
    gate.open()
    await wait_dead(result["pid"])
    await to_thread.run_sync(own_server.start)
    async with connect(own_server.url) as again:
        await again.request("attach", process_id=result["process_id"], cursor="0")
        assert (await again.completed(result["process_id"]))["exit_code"] == 8
        assert output_text(again.messages, result["process_id"]) == "one\ntwo\n"


@pytest.mark.promise("S0.14")
async def test_stop_processes_ends_them_with_the_server(serve: ServerFactory, marker: Marker) -> None:
    """S0.14: `--stop-processes` is the other choice; even a detached tree ends."""
    server = await to_thread.run_sync(lambda: serve("--stop-processes"))
    async with connect(server.url) as client:
        await client.execute(f"setsid {marker.sleep} & {marker.sleep}; true", detach=True)
        await wait_for(marker, 2)
        await to_thread.run_sync(server.stop)
    await wait_for(marker, 0)


@pytest.mark.promise("S0.3.timeout", "S0.8.error")
async def test_a_timeout_fires_while_the_server_is_dead(own_server: OutliveServer) -> None:
    """S0.3: the keeper keeps the time; S0.8: the reason is known afterwards."""
    async with connect(own_server.url) as client:
        result = await client.execute("echo hello; sleep 1000", timeout=1)
        await client.output(result["process_id"], "hello")
        await to_thread.run_sync(own_server.kill)
    await wait_dead(result["pid"])
    await to_thread.run_sync(own_server.start)
    cursor = client.cursor(result["process_id"])
    async with connect(own_server.url, session_id=client.session_id, cursor=cursor) as again:
        completed = await again.completed(result["process_id"])
    assert completed["exit_code"] == -15
    assert "time" in completed["error"].lower()


@pytest.mark.promise("S0.10")
async def test_a_paused_process_stays_paused_over_a_restart(own_server: OutliveServer) -> None:
    """S0.10: RESUME works with the next server."""
    async with connect(own_server.url) as client:
        result = await client.execute("echo one; sleep 1000")
        await client.output(result["process_id"], "one")
        await client.request("control", type="PAUSE")
        await to_thread.run_sync(own_server.restart)
    assert is_stopped(result["pid"])
    cursor = client.cursor(result["process_id"])
    async with connect(own_server.url, session_id=client.session_id, cursor=cursor) as again:
        assert (await again.request("control", type="RESUME"))["status"] == "resumed"
        assert not is_stopped(result["pid"])
        await again.request("control", type="CANCEL")
        assert (await again.completed(result["process_id"]))["exit_code"] == -15


@pytest.mark.promise("S0.19.list", "S0.19.get", "W.process-id")
async def test_history_survives_a_restart(own_server: OutliveServer) -> None:
    """S0.19: list, get and attach know what ran before."""
    async with connect(own_server.url) as client:
        run = await client.run("echo remembered; exit 2")
        await to_thread.run_sync(own_server.restart)
    async with connect(own_server.url, session_id=client.session_id) as again:
        assert run.process_id in records((await again.request("list"))["processes"])
        assert (await again.request("get", process_id=run.process_id))["exit_code"] == 2
        await again.request("attach", process_id=run.process_id, cursor="0")
        assert (await again.completed(run.process_id))["exit_code"] == 2
        assert "remembered\n" in output_text(again.messages, run.process_id)


async def _stream_through(server: OutliveServer, client: RpcClient, gate: Gate, *parts: str) -> None:
    """Kill parts of the keeper in the middle of a stream and check that it stays whole."""
    result = await client.execute(f"seq 1 20000; {gate.wait}; seq 20001 40000; exit 11")
    await client.output(result["process_id"], "1000\n")
    status = await to_thread.run_sync(server.keeper_status)
    pids = {"guardian": status.guardian_pid, "supervisor": status.supervisor_pid}
    for part in parts:
        pid = pids[part]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    gate.open()
    run = await client.finish(result)
    assert run.exit_code == 11
    assert run.stdout == _numbers(1, 40000)
    assert (await client.run("echo next")).stdout == "next\n"


@pytest.mark.promise("S0.6", "S0.9")
@pytest.mark.parametrize("parts", [("supervisor",), ("guardian",), ("guardian", "supervisor")])
async def test_the_keeper_killed_in_the_middle_of_a_stream_loses_nothing(
    own_server: OutliveServer, gate: Gate, parts: tuple[str, ...]
) -> None:
    """S0.6, S0.9: supervisor, guardian or both: the same connection gets every byte and the exit code."""
    async with connect(own_server.url) as client:
        await _stream_through(own_server, client, gate, *parts)


@pytest.mark.promise("S0.14.resume", "S0.9", "W.cursor")
async def test_server_and_keeper_killed_at_once_lose_nothing(own_server: OutliveServer, gate: Gate) -> None:
    """S0.14: server, supervisor and guardian die together; the next server starts the keeper again."""
    async with connect(own_server.url) as client:
        result = await client.execute(f"seq 1 5000; {gate.wait}; seq 5001 6000; exit 12")
        await client.output(result["process_id"], "2000\n")
        status = await to_thread.run_sync(own_server.keeper_status)
        for pid in (own_server.pid, status.supervisor_pid, status.guardian_pid):
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        await to_thread.run_sync(own_server.restart)
    cursor = client.cursor(result["process_id"])
    async with connect(own_server.url, session_id=client.session_id, cursor=cursor) as again:
        gate.open()
        assert (await again.completed(result["process_id"]))["exit_code"] == 12
    assert output_text(client.messages + again.messages, result["process_id"]) == _numbers(1, 6000)


@pytest.mark.promise("S0.14.detach")
async def test_keeper_stop_refuses_while_something_runs(own_server: OutliveServer, marker: Marker) -> None:
    """S0.14: only --kill ends what runs."""
    async with connect(own_server.url) as client:
        await client.execute(f"{marker.sleep}; true", detach=True)
        await wait_for(marker, 1)
        refused = await to_thread.run_sync(
            lambda: run_outlive("keeper", "stop", state_dir=own_server.state_dir)
        )
        assert refused.returncode != 0
        assert "--kill" in refused.stdout + refused.stderr
        assert len(marker.pids()) == 1
