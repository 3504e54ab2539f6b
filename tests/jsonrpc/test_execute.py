"""execute: what it answers, in which order things come, how a process ends."""

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.support.processes import Marker, is_alive, stat, wait_for
from tests.support.rpc import Message, RpcClient

pytestmark = pytest.mark.anyio


def _kinds(messages: list[Message]) -> list[str]:
    return [str(message.get("method", "response")) for message in messages]


@pytest.mark.promise("S0.3", "S0.3.pgid")
async def test_the_result_names_a_real_process_in_a_posix_session_of_its_own(
    client: RpcClient, marker: Marker
) -> None:
    """S0.3: {status, pid, pgid, process_id, shell}, pgid == pid, own POSIX session and group."""
    result = await client.execute(f"{marker.sleep}; true")
    assert result["status"] == "started"
    assert result["pgid"] == result["pid"]
    assert isinstance(result["process_id"], str)
    assert os.path.basename(result["shell"]) == ("bash" if shutil.which("bash") else "sh")
    found = stat(result["pid"])
    assert found is not None
    assert (found.pgid, found.posix_session) == (result["pid"], result["pid"])
    await wait_for(marker, 1)
    await client.request("control", type="CANCEL")
    await client.completed(result["process_id"])
    assert not is_alive(result["pid"])


@pytest.mark.promise("S0.3.shell")
@pytest.mark.skipif(shutil.which("bash") is None, reason="this machine has no bash")
async def test_the_shell_is_bash(client: RpcClient) -> None:
    """S0.3: bash where present."""
    assert re.match(r"\d+\.\d+", (await client.run("echo $BASH_VERSION")).stdout)


@pytest.mark.promise("S0.4", "W.state.jsonrpc")
async def test_response_started_output_and_one_completed_come_in_this_order(client: RpcClient) -> None:
    """S0.4: response, process.started, process.output*, exactly one process.completed."""
    run = await client.run("echo one; echo two; echo three >&2")
    await client.barrier()
    kinds = _kinds(client.about(run.process_id))
    assert kinds == ["response", "process.started", *["process.output"] * 3, "process.completed"]


@pytest.mark.promise("S0.5", "S0.20")
async def test_started_has_the_shape_of_the_document(client: RpcClient) -> None:
    """S0.5: {status:"started", pid, pgid, exit_code:null, error:null}."""
    run = await client.run("true")
    message = next(m for m in run.messages if m.get("method") == "process.started")
    expected = {"status": "started", "pid": run.result["pid"], "pgid": run.result["pid"]}
    assert message["jsonrpc"] == "2.0"
    assert message["params"].items() >= {**expected, "exit_code": None, "error": None}.items()
    assert message["params"]["process_id"] == run.process_id


@pytest.mark.promise("S0.8", "S0.8.error", "S0.9", "W.state.jsonrpc")
@pytest.mark.parametrize("code", [0, 1, 2, 7, 126, 128, 137, 255])
async def test_completed_tells_the_exit_code(client: RpcClient, code: int) -> None:
    """S0.8, S0.9: "completed" iff the exit code is 0, else "failed"; error null for a natural end."""
    run = await client.run(f"exit {code}")
    assert (
        run.completed.items()
        >= {
            "status": "completed" if code == 0 else "failed",
            "pid": run.result["pid"],
            "pgid": run.result["pid"],
            "exit_code": code,
            "error": None,
            "process_id": run.process_id,
        }.items()
    )


@pytest.mark.promise("S0.9.signal", "S0.8.error")
@pytest.mark.parametrize(
    ("name", "number"), [("HUP", 1), ("INT", 2), ("KILL", 9), ("SEGV", 11), ("TERM", 15)]
)
async def test_a_process_ended_by_a_signal_has_the_negative_signal_number(
    client: RpcClient, name: str, number: int
) -> None:
    """S0.9: minus the signal number; S0.8: a signal that we did not send is a natural end."""
    run = await client.run(f"kill -{name} $$")
    assert run.completed["status"] == "failed"
    assert run.exit_code == -number
    assert run.completed["error"] is None


@pytest.mark.promise("S0.3.argv")
async def test_argv_runs_without_a_shell(client: RpcClient) -> None:
    """S0.3: argv: [str]; nothing expands the words."""
    run = await client.run(argv=["printf", "%s|", "a b", "$HOME", "*", ""])
    assert run.stdout == "a b|$HOME|*||"
    assert run.exit_code == 0


@pytest.mark.promise("S0.3.cwd", "S0.3.env")
async def test_cwd_and_env_reach_the_process(client: RpcClient, tmp_path: Path) -> None:
    """S0.3: cwd, env."""
    run = await client.run("pwd; echo $GREETING", cwd=str(tmp_path), env={"GREETING": "good morning"})
    assert run.lines == [f"{tmp_path}\n", "good morning\n"]


@pytest.mark.promise("S0.3.unknown-keys")
async def test_unknown_keys_are_ignored(client: RpcClient) -> None:
    """S0.3: a client of a later version may send more."""
    assert (await client.run("echo fine", colour="blue", nested={"deep": [1, 2]})).stdout == "fine\n"


@pytest.mark.promise("S0.3.stdin")
async def test_without_stdin_a_reader_sees_its_end_at_once(client: RpcClient) -> None:
    """S0.3: stdin "none" is the default, so `cat` ends and nothing of the server is inherited."""
    run = await client.run("cat; echo done")
    assert run.stdout == "done\n"


@pytest.mark.promise("S0.3.timeout", "S0.8.error")
async def test_a_timeout_ends_the_tree_and_says_so(client: RpcClient, marker: Marker) -> None:
    """S0.3 timeout, S0.8: error is one sentence for a timeout; the whole tree is gone at the end."""
    run = await client.run(f"echo before; {marker.sleep} & {marker.sleep}; true", timeout=0.4)
    assert run.stdout == "before\n"
    assert run.completed["status"] == "failed"
    assert run.exit_code == -15
    assert "time" in run.completed["error"].lower()
    assert marker.pids() == []


@pytest.mark.promise("S0.3.timeout", "S0.3.grace", "W.grace")
async def test_a_timeout_kills_what_ignores_term_after_the_grace(client: RpcClient) -> None:
    """S0.3 timeout and grace: TERM first, KILL when the grace is over."""
    run = await client.run("trap '' TERM; while :; do sleep 0.05; done", timeout=0.2, grace=0.2)
    assert run.exit_code == -9


@pytest.mark.promise("S0.bad.unknown-program")
async def test_an_unknown_program_in_a_shell_line_starts_and_completes_with_127(client: RpcClient) -> None:
    """Bad input: the shell was started; it is the one that does not find the program."""
    run = await client.run("no-such-program-anywhere")
    assert _kinds(run.messages)[:2] == ["response", "process.started"]
    assert run.exit_code == 127
    assert "no-such-program-anywhere" in run.stderr


@pytest.mark.promise("S0.bad.argv", "S0.11", "S0.11.hint")
async def test_an_unknown_program_in_argv_is_an_execution_failure(client: RpcClient) -> None:
    """Bad input: -32603 not_found, and nothing was started."""
    failure = await client.failure("execute", argv=["no-such-program-anywhere", "x"])
    assert (failure.code, failure.reason) == (-32603, "not_found")
    assert failure.hint
    await client.barrier()
    assert "process.started" not in _kinds(client.messages)
    assert (await client.run("echo next")).stdout == "next\n"


@pytest.mark.promise("S0.bad.cwd", "S0.11")
@pytest.mark.parametrize("kind", ["missing", "file"])
async def test_a_working_folder_that_is_none_is_an_execution_failure(
    client: RpcClient, tmp_path: Path, kind: str
) -> None:
    """Bad input: cwd missing or not a folder: -32603 cwd_missing."""
    (tmp_path / "file").touch()
    failure = await client.failure("execute", command="pwd", cwd=str(tmp_path / kind))
    assert (failure.code, failure.reason) == (-32603, "cwd_missing")
    assert failure.hint


@pytest.mark.promise("S0.4", "S0.4.closed", "S0.4.late")
async def test_output_of_descendants_after_completed_waits_for_a_reader(
    client: RpcClient, tmp_path: Path
) -> None:
    """S0.4: no output follows completed.

    Late bytes are read with attach; process.closed tells the streams' end.
    """
    opened = tmp_path / "open"
    waiting = f"until [ -e '{opened}' ]; do sleep 0.02; done"
    run = await client.run(f"echo main; ({waiting}; echo late) & exit 3")
    assert run.stdout == "main\n"
    assert run.exit_code == 3
    cursor = client.cursor(run.process_id)
    opened.touch()
    closed = await client.notification("process.closed", run.process_id)
    assert closed["process_id"] == run.process_id
    await client.barrier()
    assert "late\n" not in [
        m["params"]["data"] for m in client.messages if m.get("method") == "process.output"
    ]
    await client.request("attach", process_id=run.process_id, cursor=cursor)
    again = await client.completed(run.process_id)
    assert again["exit_code"] == 3
    after = [m["params"] for m in client.messages if m.get("method") == "process.output"]
    assert [params["data"] for params in after] == ["main\n", "late\n"]


@pytest.mark.promise("S0.4.closed")
async def test_closed_is_told_only_when_the_streams_were_still_open(client: RpcClient) -> None:
    """S0.4: a process whose streams ended with it has a completed and no closed."""
    run = await client.run("echo x")
    await client.barrier()
    assert _kinds(client.about(run.process_id)).count("process.closed") == 0


@pytest.mark.promise("S0.4", "S0.4.closed")
async def test_a_background_child_that_holds_the_pipe_does_not_delay_the_end(
    client: RpcClient, marker: Marker
) -> None:
    """S0.8: completed follows the main process, never the end-of-file that a grandchild holds back."""
    run = await client.run(f"{marker.sleep} & echo started")
    assert run.stdout == "started\n"
    assert run.exit_code == 0
    (pid,) = await wait_for(marker, 1)
    os.kill(pid, 9)
    await client.notification("process.closed", run.process_id)
