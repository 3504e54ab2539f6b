"""The extra methods: attach, list, get, read, wait, signal, and requests while a process streams."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from anyio import fail_after

from tests.support.processes import Gate
from tests.support.reading import read_back
from tests.support.rpc import Message, RpcClient, output_text, outputs, records

pytestmark = pytest.mark.anyio


@pytest.mark.promise("S0.19.busy")
async def test_requests_are_answered_while_a_process_streams(client: RpcClient, gate: Gate) -> None:
    """S0.19: twenty answers arrive before the stream's end."""
    result = await client.execute(f"seq 1 20000; {gate.wait}; echo end")
    for _ in range(20):
        await client.request("list")
    assert not any(message.get("method") == "process.completed" for message in client.messages)
    gate.open()
    assert (await client.finish(result)).lines[-1] == "end\n"


@pytest.mark.promise("S0.19.list", "S0.19.get", "W.process-id")
async def test_list_and_get_tell_about_running_and_ended_processes(client: RpcClient, gate: Gate) -> None:
    """S0.19: the session's processes with id, pid, exit code."""
    ended = await client.run("exit 3")
    running = await client.execute(f"{gate.wait}; true")
    listed = records((await client.request("list"))["processes"])
    assert {ended.process_id, running["process_id"]} <= set(listed)
    assert listed[running["process_id"]]["pid"] == running["pid"]
    assert listed[running["process_id"]]["exit_code"] is None
    told = await client.request("get", process_id=ended.process_id)
    assert (told["process_id"], told["exit_code"]) == (ended.process_id, 3)
    gate.open()
    await client.completed(running["process_id"])


@pytest.mark.promise("S0.19.list.time")
async def test_processes_are_listed_by_when_they_lived(client: RpcClient, gate: Gate) -> None:
    first = (await client.run("true")).process_id
    between = datetime.now(UTC).isoformat()
    second = await client.execute(gate.wait)

    async def listed(**wanted: object) -> list[str]:
        return [view["process_id"] for view in (await client.request("list", **wanted))["processes"]]

    assert await listed(since=between) == [second["process_id"]]
    assert (await listed(until=between))[0] == first
    assert await listed(alive_since=between) == [second["process_id"]]
    assert await listed(alive_since=between, until=between) == []
    for wrong in ("since", "until", "alive_since"):
        assert (await client.failure("list", **{wrong: "soon"})).reason == "invalid_params"
    gate.open()
    await client.completed(second["process_id"])


@pytest.mark.promise("S0.19.list.same")
async def test_runs_of_the_same_command_in_the_same_folder_are_listed(
    client: RpcClient, tmp_path: Path
) -> None:
    line = f"true # {'as long as the index and longer ' * 4}"
    runs = [(await client.run(line, cwd=str(tmp_path), detach=True)).process_id for _ in range(3)]
    await client.run(line, cwd="/", detach=True)
    await client.run(line + "!", cwd=str(tmp_path), detach=True)

    async def listed(**wanted: object) -> list[str]:
        return [view["process_id"] for view in (await client.request("list", **wanted))["processes"]]

    assert await listed(same_as=runs[0]) == runs[::-1]
    assert await listed(same_as=runs[2], before=runs[2], limit=1) == [runs[1]]
    assert await listed(same_as=runs[0], before=runs[0], limit=1) == []
    assert (await client.failure("list", same_as="no-such-name")).reason == "process_not_found"


@pytest.mark.promise("S0.3.tags", "S0.19.get")
async def test_tags_and_group_are_remembered(client: RpcClient) -> None:
    """S0.3: tags, group."""
    run = await client.run("true", tags={"task": "build"}, group="nightly")
    told = await client.request("get", process_id=run.process_id)
    assert told["tags"] == {"task": "build"}
    assert told["group"] == "nightly"


@pytest.mark.promise("S0.19.attach", "S0.19.attach-ended")
async def test_attach_to_an_ended_process_replays_from_the_cursor(client: RpcClient) -> None:
    """S0.19: response, then output from there, then completed, also for a process that has ended."""
    run = await client.run("echo one; echo two >&2; echo three; exit 4")
    before = len(client.messages)
    await client.request("attach", process_id=run.process_id, cursor="4.0")
    completed = await client.completed(run.process_id)
    about = client.messages[before:]
    assert "result" in about[0]
    told = sorted((params["type"], params["data"]) for params in outputs(about, run.process_id))
    assert told == [("stderr", "two\n"), ("stdout", "three\n")]
    assert completed["exit_code"] == 4
    assert about[-1]["method"] == "process.completed"
    assert "process.started" not in [message.get("method") for message in about]


@pytest.mark.promise("S0.19.attach-ended", "W.cursor")
@pytest.mark.parametrize("cut", [0, 1, 3, 100, 2_000, 3_893])
async def test_attach_anywhere_gives_exactly_the_rest(client: RpcClient, cut: int) -> None:
    """Cursor: continuing there neither repeats nor loses a byte, also in the middle of a line."""
    run = await client.run("seq 1 1000")
    assert len(run.stdout) == 3893
    before = len(client.messages)
    await client.request("attach", process_id=run.process_id, cursor=f"{cut}.0")
    await client.completed(run.process_id)
    assert output_text(client.messages[before:], run.process_id) == run.stdout[cut:]


@pytest.mark.thorough
@pytest.mark.promise("S0.19.read")
async def test_read_gives_pages_of_the_log(client: RpcClient) -> None:
    """S0.19: everything of both streams can be read from any cursor, also long after the end."""
    run = await client.run("seq 1 50000; echo err >&2")
    assert (await read_back(client, run.process_id)).decode() == run.stdout
    assert await read_back(client, run.process_id, stream="stderr") == b"err\n"
    assert (await read_back(client, run.process_id, cursor="100.4")).decode() == run.stdout[100:]


@pytest.mark.promise("S0.19.read")
async def test_read_of_a_running_process_is_caught_up_not_finished(client: RpcClient, gate: Gate) -> None:
    """S0.19: an empty page means "no more now"; the next page continues."""
    result = await client.execute(f"echo one; {gate.wait}; echo two")
    await client.output(result["process_id"], "one")
    assert await read_back(client, result["process_id"]) == b"one\n"
    assert await read_back(client, result["process_id"], cursor="4.0") == b""
    gate.open()
    await client.completed(result["process_id"])
    assert await read_back(client, result["process_id"], cursor="4.0") == b"two\n"


@pytest.mark.promise("S0.19.wait", "W.wait")
async def test_wait_answers_at_the_end_with_the_exit_code(client: RpcClient, gate: Gate) -> None:
    """S0.19: wait_s is how long the call waits, never when the process ends."""
    result = await client.execute(f"{gate.wait}; exit 5")
    still = await client.request("wait", process_id=result["process_id"], wait_s=0.05)
    assert still["exit_code"] is None
    waiting = await client.send("wait", {"process_id": result["process_id"], "wait_s": 15})
    gate.open()
    assert (await client.response(waiting))["result"]["exit_code"] == 5


@pytest.mark.promise("S0.19.wait")
async def test_wait_for_an_ended_process_answers_at_once(client: RpcClient) -> None:
    """S0.19: the exit code is remembered."""
    run = await client.run("exit 6")
    assert (await client.request("wait", process_id=run.process_id))["exit_code"] == 6


@pytest.mark.promise("S0.19.signal", "S0.8.error")
@pytest.mark.parametrize("sent", [10, "SIGUSR1", "USR1"])
async def test_signal_reaches_the_process(client: RpcClient, sent: object) -> None:
    """S0.19: by number or name."""
    result = await client.execute("trap 'echo got it; exit 9' USR1; echo ready; while :; do sleep 0.02; done")
    await client.output(result["process_id"], "ready")
    await client.request("signal", process_id=result["process_id"], signal=sent)
    run = await client.finish(result)
    assert run.lines == ["ready\n", "got it\n"]
    assert run.exit_code == 9
    assert run.completed["error"] is None


@pytest.mark.promise("S0.19.signal", "S0.11")
async def test_an_impossible_signal_is_invalid(client: RpcClient) -> None:
    """S0.11: -32602; the process is untouched."""
    result = await client.execute("sleep 1000")
    for sent in (0, 99, -9, "SIGNONSENSE", None):
        assert (await client.failure("signal", process_id=result["process_id"], signal=sent)).code == -32602
    await client.request("signal", process_id=result["process_id"], signal=9)
    assert (await client.completed(result["process_id"]))["exit_code"] == -9


@pytest.mark.promise("S0.11.hint", "S0.19.write", "S0.19.signal")
async def test_what_needs_a_running_process_says_so_after_its_end(client: RpcClient) -> None:
    """S0.11: every refusal has a reason and a hint; nothing hangs."""
    run = await client.run("true", stdin="pipe")
    calls: dict[str, Message] = {"write": {"data": "x"}, "signal": {"signal": 15}}
    for method, params in calls.items():
        failure = await client.failure(method, process_id=run.process_id, **params)
        assert failure.code in (-32003, -32602)
        assert failure.reason
        assert failure.hint


async def test_get_shows_what_the_tree_looks_like_when_asked(client: RpcClient) -> None:
    result = await client.execute("sleep 1000 & exec cat", stdin="pipe")
    plain = await client.request("get", process_id=result["process_id"])
    assert "stats" not in plain
    with fail_after(15):
        stats: dict[str, object] = {}
        while stats.get("waiting") != "input":
            stats = (await client.request("get", process_id=result["process_id"], stats=True))["stats"]
    assert set(stats) == {"pids", "threads", "cpu", "memory_bytes", "ports", "waiting"}
    assert result["pid"] in stats["pids"]  # type: ignore[operator]  # a list on the wire
    await client.request("control", process_id=result["process_id"], type="CANCEL")
    await client.completed(result["process_id"])
    ended = await client.request("get", process_id=result["process_id"], stats=True)
    assert ended["stats"]["pids"] == []
