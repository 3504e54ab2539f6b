"""PAUSE, RESUME, CANCEL: the whole tree, the right order, the right exit code."""

from pathlib import Path

import pytest

from tests.support.processes import (
    Marker,
    descendants,
    is_alive,
    is_stopped,
    poll_until,
    wait_dead,
    wait_file,
    wait_for,
)
from tests.support.rpc import Message, RpcClient, connect
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio

_WORDS = {"PAUSE": "paused", "RESUME": "resumed", "CANCEL": "cancelled"}


async def _tree(client: RpcClient, marker: Marker) -> tuple[Message, list[int]]:
    """Start a shell with a child, a background child and one in another POSIX session; return all pids."""
    command = f"{marker.sleep} & setsid {marker.sleep} & (({marker.sleep} &) &); {marker.sleep}; true"
    result = await client.execute(command)
    return result, [result["pid"], *await wait_for(marker, 4)]


@pytest.mark.promise("S0.10", "S0.10.tree")
async def test_pause_stops_and_resume_continues_the_whole_tree(client: RpcClient, marker: Marker) -> None:
    """S0.10: the whole tree is paused / resumed, not only the process group."""
    result, pids = await _tree(client, marker)
    assert (await client.request("control", type="PAUSE"))["status"] == "paused"
    assert [pid for pid in pids if not is_stopped(pid)] == []
    assert (await client.request("control", type="RESUME"))["status"] == "resumed"
    await poll_until(lambda: not any(map(is_stopped, pids)))
    assert all(map(is_alive, pids))
    await client.request("control", type="CANCEL")
    await client.completed(result["process_id"])


@pytest.mark.promise("S0.10", "S0.20", "S0.20.cursor", "S0.20.spelling")
@pytest.mark.parametrize("key", ["type", "action"])
async def test_every_control_answers_and_notifies(client: RpcClient, marker: Marker, key: str) -> None:
    """S0.10: type|action; {status} and a notification with the shape of process.started, after the
    response.
    """
    result = await client.execute(f"{marker.sleep}; true")
    await client.notification("process.started", result["process_id"])
    for word, status in _WORDS.items():
        before = len(client.messages)
        assert (await client.request("control", **{key: word}))["status"] == status
        params = await client.notification(f"process.{status}", result["process_id"])
        assert (
            params.items()
            >= {
                "status": status,
                "pid": result["pid"],
                "pgid": result["pid"],
                "exit_code": None,
                "error": None,
                "cursor": "0.0",
            }.items()
        )
        kinds = [message.get("method", "response") for message in client.messages[before:]]
        assert kinds[:2] == ["response", f"process.{status}"]
    await client.completed(result["process_id"])


@pytest.mark.promise("S0.10.tree", "S0.10.completed", "S0.8.error", "S0.9.signal")
async def test_cancel_ends_the_whole_tree_before_completed(client: RpcClient, marker: Marker) -> None:
    """S0.10: completed (failed, -15) follows when the tree is empty; S0.8: error says why."""
    result, pids = await _tree(client, marker)
    assert (await client.request("control", type="CANCEL"))["status"] == "cancelled"
    completed = await client.completed(result["process_id"])
    assert marker.pids() == []
    assert [pid for pid in pids if is_alive(pid)] == []
    assert (completed["status"], completed["exit_code"]) == ("failed", -15)
    assert "cancel" in completed["error"].lower()


@pytest.mark.promise("S0.4.cancel", "S0.10.completed", "S0.20.spelling")
async def test_a_cancel_comes_in_the_promised_order(client: RpcClient) -> None:
    """S0.4: response, process.cancelled, output*, process.completed; last words are delivered."""
    result = await client.execute("trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.02; done")
    await client.output(result["process_id"], "ready")
    before = len(client.messages)
    await client.request("control", type="CANCEL")
    completed = await client.completed(result["process_id"])
    await client.barrier()
    about = client.messages[before:-1]
    kinds = [message.get("method", "response") for message in about]
    # The shell may have a word of its own about its child, which got the signal, too.
    last_words = kinds[2:-1]
    assert kinds[:2] == ["response", "process.cancelled"]
    assert kinds[-1] == "process.completed"
    assert last_words == ["process.output"] * len(last_words)
    assert "bye\n" in [message["params"]["data"] for message in about[2:-1]]
    assert completed["exit_code"] == 3
    assert completed["error"]


@pytest.mark.promise("S0.10.grace", "S0.10.completed", "S0.19.control", "S0.bad.ignores-term", "W.grace")
async def test_a_tree_that_ignores_term_is_killed_after_the_grace(client: RpcClient, tmp_path: Path) -> None:
    """S0.10: TERM, grace, KILL; S0.19: control accepts grace; completed -9 and nobody left."""
    inner = "trap '' TERM; touch ready; while :; do sleep 0.05; done"
    result = await client.execute(f"trap '' TERM; bash -c \"{inner}\"; true", cwd=str(tmp_path))
    await wait_file(tmp_path / "ready")
    below = descendants(result["pid"])
    await client.request("control", type="CANCEL", grace=0.3)
    completed = await client.completed(result["process_id"])
    assert (completed["status"], completed["exit_code"]) == ("failed", -9)
    assert [pid for pid in [result["pid"], *below] if is_alive(pid)] == []


@pytest.mark.slow
@pytest.mark.promise("S0.10.grace", "W.grace")
async def test_the_default_grace_is_ten_seconds(client: RpcClient) -> None:
    """S0.10: 10 s between TERM and KILL; within it the process may still work."""
    result = await client.execute(
        "trap '' TERM; echo ready; n=0; while :; do sleep 1; n=$((n+1)); echo $n; done"
    )
    await client.output(result["process_id"], "ready")
    await client.request("control", type="CANCEL")
    run = await client.finish(result)
    assert run.exit_code == -9
    assert 8 <= int(run.lines[-1]) <= 11


@pytest.mark.promise("S0.10.paused")
async def test_cancelling_a_paused_process_ends_it(client: RpcClient, marker: Marker) -> None:
    """S0.10: a paused tree is continued so that TERM can act."""
    result, pids = await _tree(client, marker)
    await client.request("control", type="PAUSE")
    await client.request("control", type="CANCEL")
    completed = await client.completed(result["process_id"])
    assert completed["exit_code"] == -15
    assert [pid for pid in pids if is_alive(pid)] == []


@pytest.mark.promise("S0.10.repeat")
async def test_repeating_a_control_is_a_success(client: RpcClient) -> None:
    """S0.10: a client that is not sure may ask again."""
    result = await client.execute("trap '' TERM; echo ready; while :; do sleep 0.05; done")
    await client.output(result["process_id"], "ready")
    for word, status in _WORDS.items():
        for _ in range(2):
            grace = {"grace": 1.0} if word == "CANCEL" else {}
            assert (await client.request("control", type=word, **grace))["status"] == status
    assert (await client.completed(result["process_id"]))["exit_code"] == -9


@pytest.mark.promise("S0.10")
async def test_a_paused_process_goes_on_where_it_stood(client: RpcClient) -> None:
    """S0.10: nothing is lost or repeated by a pause."""
    result = await client.execute("for n in $(seq 1 60); do echo $n; sleep 0.005; done")
    await client.output(result["process_id"], "20\n")
    await client.request("control", type="PAUSE")
    assert is_stopped(result["pid"])
    await client.request("control", type="RESUME")
    run = await client.finish(result)
    assert run.lines == [f"{number}\n" for number in range(1, 61)]
    assert run.exit_code == 0


@pytest.mark.promise("S0.11", "S0.bad.no-process")
async def test_control_while_nothing_runs_is_refused(client: RpcClient) -> None:
    """Bad input: control while none runs: -32003."""
    failure = await client.failure("control", type="CANCEL")
    assert (failure.code, failure.reason) == (-32003, "no_process")
    assert failure.hint
    await client.run("true")
    assert (await client.failure("control", type="PAUSE")).code == -32003


@pytest.mark.promise("S0.bad.ambiguous", "S0.19.control", "S0.11.hint")
async def test_control_needs_a_process_id_when_several_run(client: RpcClient) -> None:
    """Bad input: -32602 process_ambiguous; S0.19: control accepts process_id."""
    first = await client.execute("sleep 1000")
    second = await client.execute("sleep 1000", concurrent=True)
    failure = await client.failure("control", type="CANCEL")
    assert (failure.code, failure.reason) == (-32602, "process_ambiguous")
    await client.request("control", type="CANCEL", process_id=second["process_id"])
    await client.completed(second["process_id"])
    assert is_alive(first["pid"])
    await client.request("control", type="CANCEL")  # one is left, so no id is needed
    await client.completed(first["process_id"])


@pytest.mark.promise("S0.10", "S0.11")
@pytest.mark.parametrize(
    "params", [{}, {"type": "EXPLODE"}, {"type": 9}, {"type": None}, {"type": ["PAUSE"]}]
)
async def test_an_unknown_control_is_invalid(client: RpcClient, params: Message) -> None:
    """S0.11: -32602 for invalid params; the process is untouched."""
    result = await client.execute("sleep 1000")
    failure = await client.failure("control", **params)
    assert failure.code == -32602
    assert is_alive(result["pid"])
    await client.request("control", type="CANCEL")
    await client.completed(result["process_id"])


@pytest.mark.promise("S0.13.private")
async def test_a_session_cannot_control_the_process_of_another(
    server: OutliveServer, client: RpcClient
) -> None:
    """S0.13: a process that is not detached is private to its session."""
    result = await client.execute("sleep 1000")
    async with connect(server.url) as stranger:
        failure = await stranger.failure("control", type="CANCEL", process_id=result["process_id"])
        assert failure.code == -32003
        failure = await stranger.failure("attach", process_id=result["process_id"], cursor="0")
        assert failure.code == -32003
    assert is_alive(result["pid"])
    await client.request("control", type="CANCEL")
    await client.completed(result["process_id"])


@pytest.mark.promise("S0.10.tree")
async def test_a_child_started_in_the_grace_dies_too(client: RpcClient, tmp_path: Path) -> None:
    """S0.10: the tree is walked until nothing is left, a fork chain included."""
    chain = tmp_path / "chain.sh"
    chain.write_text(
        'trap "" TERM\necho $$ >> pids\n[ $(wc -l < pids) -gt 3 ] && touch ready\nsleep 0.03\nsh $0 &\n'
    )
    result = await client.execute(
        "trap '' TERM; sh chain.sh; while :; do sleep 0.05; done", cwd=str(tmp_path)
    )
    await wait_file(tmp_path / "ready")
    await client.request("control", type="CANCEL", grace=0.2)
    await client.completed(result["process_id"])
    await wait_dead(*map(int, (tmp_path / "pids").read_text().split()))
