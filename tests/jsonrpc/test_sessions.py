"""Sessions: one process each, private or detached, resumed within the reconnect grace, cleaned up after
it.
"""

import anyio
import pytest
from anyio import to_thread

from tests.support.fixtures import ServerFactory
from tests.support.processes import Gate, Marker, is_alive, wait_dead, wait_for
from tests.support.rpc import RpcClient, connect, output_text, outputs, records
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio


@pytest.mark.promise("S0.13", "S0.11.busy", "S0.11.hint")
async def test_a_second_command_in_a_session_is_refused_while_one_runs(client: RpcClient, gate: Gate) -> None:
    """S0.13, S0.11: -32602 with data {reason:"process_running", pid}; afterwards the session is free."""
    result = await client.execute(f"{gate.wait}; echo first")
    failure = await client.failure("execute", command="echo second")
    assert (failure.code, failure.reason) == (-32602, "process_running")
    assert failure.error["data"]["pid"] == result["pid"]
    assert failure.hint
    gate.open()
    assert (await client.finish(result)).stdout == "first\n"
    assert (await client.run("echo third")).stdout == "third\n"


@pytest.mark.promise("S0.13.concurrent")
async def test_concurrent_commands_run_side_by_side(client: RpcClient, gate: Gate) -> None:
    """S0.13: concurrent:true; each message names its process."""
    first = await client.execute(f"echo a; {gate.wait}; echo b")
    second = await client.run("echo c; exit 4", concurrent=True)
    assert (second.stdout, second.exit_code) == ("c\n", 4)
    gate.open()
    assert (await client.finish(first)).stdout == "a\nb\n"


@pytest.mark.promise("S0.13.private")
async def test_sessions_do_not_see_each_other(server: OutliveServer, client: RpcClient) -> None:
    """S0.13: neither notifications nor list tell of another session's private process."""
    async with connect(server.url) as stranger:
        run = await client.run("echo secret")
        assert run.process_id not in records((await stranger.request("list"))["processes"])
        assert stranger.about(run.process_id) == []
        for method in ("get", "read", "wait"):
            assert (await stranger.failure(method, process_id=run.process_id)).code == -32003


@pytest.mark.promise("S0.14.resume", "S0.14.once", "W.cursor")
async def test_reconnecting_continues_at_the_cursor(server: OutliveServer, gate: Gate) -> None:
    """S0.14: connected {resumed:true, processes}, output from the cursor, no second process.started."""
    async with connect(server.url) as client:
        result = await client.execute(f"seq 1 100; {gate.wait}; seq 101 200; exit 5")
        process_id = result["process_id"]
        await client.output(process_id, "60\n")
        cursor = client.cursor(process_id)
        before = output_text(client.messages, process_id)
        client.vanish()
    async with connect(server.url, session_id=client.session_id, cursor=cursor) as again:
        assert again.session_id == client.session_id
        assert again.hello["resumed"] is True
        assert process_id in records(again.hello["processes"])
        gate.open()
        completed = await again.completed(process_id)
        await again.barrier()
    assert completed["exit_code"] == 5
    expected = "".join(f"{number}\n" for number in range(1, 201))
    assert before + output_text(again.messages, process_id) == expected
    assert "process.started" not in [message.get("method") for message in again.messages]


@pytest.mark.promise("S0.14.resume")
async def test_what_completed_in_between_is_told_after_reconnecting(
    server: OutliveServer, gate: Gate
) -> None:
    """S0.14: a process that ended while nobody was connected delivers its rest and its exit code."""
    async with connect(server.url) as client:
        result = await client.execute(f"echo before; {gate.wait}; echo after; exit 9")
        await client.output(result["process_id"], "before")
        client.vanish()
    gate.open()
    await wait_dead(result["pid"])
    cursor = client.cursor(result["process_id"])
    async with connect(server.url, session_id=client.session_id, cursor=cursor) as again:
        completed = await again.completed(result["process_id"])
        assert completed["exit_code"] == 9
        assert output_text(again.messages, result["process_id"]) == "after\n"


@pytest.mark.promise("S0.14.resume", "W.cursor")
async def test_reconnecting_inside_a_partial_line_repeats_nothing(server: OutliveServer, gate: Gate) -> None:
    """S0.14, S0.20: held-back bytes count as not delivered, stderr in between as delivered."""
    async with connect(server.url) as client:
        result = await client.execute(f"echo one; printf 'tw'; echo err >&2; {gate.wait}; echo o; echo three")
        await client.output(result["process_id"], "one")
        await client.output(result["process_id"], "err", stream="stderr")
        cursor = client.cursor(result["process_id"])
        assert cursor == "4.4"
        client.vanish()
    async with connect(server.url, session_id=client.session_id, cursor=cursor) as again:
        gate.open()
        await again.completed(result["process_id"])
        told = [(p["type"], p["data"]) for p in outputs(again.messages, result["process_id"])]
        assert told == [("stdout", "two\n"), ("stdout", "three\n")]


@pytest.mark.promise("S0.14.resume")
async def test_a_session_can_be_taken_over_while_its_old_connection_hangs(
    server: OutliveServer, gate: Gate
) -> None:
    """S0.14: a client that lost its network comes back before the server noticed the loss."""
    async with connect(server.url) as stale:
        result = await stale.execute(f"echo one; {gate.wait}; echo two")
        await stale.output(result["process_id"], "one")
        cursor = stale.cursor(result["process_id"])
        async with connect(server.url, session_id=stale.session_id, cursor=cursor) as again:
            assert again.hello["resumed"] is True
            gate.open()
            await again.completed(result["process_id"])
            assert output_text(again.messages, result["process_id"]) == "two\n"


@pytest.mark.promise("S0.14", "S0.2")
@pytest.mark.parametrize("session_id", ["6f1de8a5-6a5c-4b6e-9d4e-0c3c5a0f2b11", "nonsense", ""])
async def test_an_unknown_session_id_gets_a_new_session(server: OutliveServer, session_id: str) -> None:
    """S0.14: nothing to resume: resumed is false and the id is a fresh one."""
    async with connect(server.url, session_id=session_id, cursor="0") as client:
        assert client.hello["resumed"] is False
        assert client.session_id != session_id
        assert (await client.run("echo works")).stdout == "works\n"


@pytest.mark.promise("S0.14", "S0.14.detach")
@pytest.mark.parametrize("goodbye", ["close", "vanish"])
async def test_after_the_grace_private_processes_are_cancelled_and_detached_ones_live(
    serve: ServerFactory, goodbye: str
) -> None:
    """S0.14: cancelled after the reconnect grace; detach:true keeps the process running."""
    server = await to_thread.run_sync(lambda: serve(OUTLIVE_RECONNECT_GRACE="0.5"))
    kept, ended = Marker(), Marker()
    async with connect(server.url) as client:
        detached = await client.execute(f"{kept.sleep}; true", detach=True)
        private = await client.execute(f"setsid {ended.sleep} & {ended.sleep}; true", concurrent=True)
        await wait_for(ended, 2)
        if goodbye == "vanish":
            client.vanish()
    await wait_dead(private["pid"])
    await wait_for(ended, 0)
    assert is_alive(detached["pid"])
    assert len(kept.pids()) == 1
    async with connect(server.url) as other:
        await other.request("control", type="CANCEL", process_id=detached["process_id"])
        with anyio.fail_after(15):
            await wait_for(kept, 0)


@pytest.mark.promise("S0.14", "S0.14.resume")
async def test_the_grace_is_an_option_too_and_reconnecting_stops_it(serve: ServerFactory) -> None:
    """S0.14: configurable; who is back in time loses nothing (witness: another session's process ends)."""
    server = await to_thread.run_sync(lambda: serve("--reconnect-grace", "0.7"))
    async with connect(server.url) as client, connect(server.url) as witness:
        result = await client.execute("sleep 1000")
        client.vanish()
        async with connect(server.url, session_id=client.session_id, cursor="0") as again:
            doomed = await witness.execute("sleep 1000")
            witness.vanish()
            await wait_dead(doomed["pid"])
            assert is_alive(result["pid"])
            await again.request("control", type="CANCEL")
            assert (await again.completed(result["process_id"]))["exit_code"] == -15


@pytest.mark.promise("S0.13.detached", "S0.19.attach", "S0.14.detach")
async def test_a_detached_process_is_attached_by_another_session(server: OutliveServer, gate: Gate) -> None:
    """S0.13, S0.19: it belongs to the principal; output from the cursor, live, then completed."""
    async with connect(server.url) as starter:
        result = await starter.execute(f"echo one; echo two; {gate.wait}; echo three; exit 6", detach=True)
        await starter.output(result["process_id"], "one")
        cursor = starter.cursor(result["process_id"])
    async with connect(server.url) as other:
        await other.request("attach", process_id=result["process_id"], cursor=cursor)
        await other.output(result["process_id"], "two")
        gate.open()
        completed = await other.completed(result["process_id"])
        assert completed["exit_code"] == 6
        assert output_text(other.messages, result["process_id"]) == "two\nthree\n"
        assert result["process_id"] in records((await other.request("list"))["processes"])


@pytest.mark.promise("S0.13.detached", "S0.19.attach")
async def test_two_sessions_watch_the_same_process(server: OutliveServer, gate: Gate) -> None:
    """S0.19: a cursor per subscriber; each gets everything and one completed."""
    async with connect(server.url) as one, connect(server.url) as two:
        result = await one.execute(f"{gate.wait}; seq 1 1000", detach=True)
        await two.request("attach", process_id=result["process_id"], cursor="0")
        gate.open()
        expected = "".join(f"{number}\n" for number in range(1, 1001))
        for watcher in (one, two):
            await watcher.completed(result["process_id"])
            await watcher.barrier()
            assert output_text(watcher.messages, result["process_id"]) == expected
            kinds = [message.get("method") for message in watcher.messages]
            assert kinds.count("process.completed") == 1
