"""Output that is lost is said to be, at every door: never plain success (issue 19, section 5)."""

import functools
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest

from outlive.client import Client
from tests.faults.losing import LOST_BYTES, lose_output, losing_line
from tests.keeper.client import until
from tests.mcp_http.raw_caller import RawCaller
from tests.rest.rest_caller import RestCaller
from tests.support.processes import Gate, stat
from tests.support.rpc import connect
from tests.support.server import OutliveServer, outlive_command, run_outlive

pytestmark = [pytest.mark.promise("W.loss"), pytest.mark.usefixtures("stays_stopped")]


def _start(server: OutliveServer, gate: Gate) -> tuple[RawCaller, str, dict[str, Any]]:
    """Start what will lose output by the tool of document 001; return caller, command id and REST's view."""
    caller = RawCaller.begin(server.mcp_url)
    answer = caller.call("command_execute", command=losing_line(gate), background=True)
    command_id = answer.json["result"]["structuredContent"]["id"]
    process = RestCaller(server.rest_url).call("GET", "/v1/processes").json["processes"][0]
    return caller, command_id, process


def _cut(server: OutliveServer, process_id: str) -> None:
    with (server.state_dir / "processes" / process_id / "out").open("r+b") as log:
        log.truncate(2)


def _check_rest(server: OutliveServer, process_id: str, *, lost_bytes: int | None) -> None:
    rest = RestCaller(server.rest_url)
    one = rest.wait(process_id)
    listed = rest.call("GET", "/v1/processes").json["processes"][0]
    document = rest.call("GET", f"/api/async/process/{process_id}/").json
    for view in (one, listed):
        assert (view["status"], view["exit_code"], view["output_lost"]) == ("failed", 0, True)
        assert view["lost_bytes"] == lost_bytes
        assert "lost" in view["error"]
    assert (document["status"], document["exit_code"], document["success"]) == ("failed", 0, False)
    assert document["output_lost"] is True
    assert "lost" in document["error"]


def _check_tools(caller: RawCaller, command_id: str, process_id: str) -> None:
    answer = caller.call("command_get_status", command_id=command_id).json["result"]["structuredContent"]
    status = answer["status"]
    assert (status["return_code"], status["success"], status["output_lost"]) == (0, False, True)
    assert "lost" in status["error"]
    assert "output lost" in caller.call("read", id=process_id).text.replace("B of output", " output")
    assert "lost" in caller.call("list", all=True).text


def _check_cli(server: OutliveServer, process_id: str) -> None:
    assert "output lost" in run_outlive("ps", "--all", state_dir=server.state_dir).stdout
    inspected = run_outlive("inspect", process_id, state_dir=server.state_dir).stdout
    assert "lost" in inspected
    as_json = json.loads(run_outlive("ps", "--all", "--json", state_dir=server.state_dir).stdout)
    found = as_json[0] if isinstance(as_json, list) else as_json["processes"][0]
    assert found["output_lost"] is True


def _check_jsonrpc(server: OutliveServer, process_id: str, *, lost_bytes: int | None) -> None:
    anyio.run(functools.partial(_look_by_jsonrpc, server.url, process_id, lost_bytes=lost_bytes))


async def _look_by_jsonrpc(url: str, process_id: str, *, lost_bytes: int | None) -> None:
    async with connect(url) as client:
        one = await client.request("get", process_id=process_id)
        listed = (await client.request("list"))["processes"][0]
        for view in (one, listed):
            assert (view["status"], view["exit_code"], view["output_lost"]) == ("failed", 0, True)
            assert view["lost_bytes"] == lost_bytes
        await client.request("attach", process_id=process_id, cursor="0")
        completed = await client.completed(process_id)
        assert (completed["status"], completed["exit_code"]) == ("failed", 0)
        assert completed["output_lost"] is True
        assert "lost" in completed["error"]


def _check_client(server: OutliveServer, process_id: str) -> None:
    with Client(str(server.state_dir), start_server=False) as client:
        process = client.get(process_id)
        assert process.info().output_lost
        assert process.wait().output_lost


@pytest.mark.thorough
def test_a_pipe_that_went_with_shim_and_supervisor_is_said_at_every_door(
    own_server: OutliveServer, gate: Gate
) -> None:
    caller, command_id, process = _start(own_server, gate)
    process_id = process["process_id"]
    lose_output(own_server, gate, pid=process["pid"], process_id=process_id)
    for round_ in ("as told", "loaded again"):
        _check_rest(own_server, process_id, lost_bytes=None)
        _check_tools(caller, command_id, process_id)
        _check_cli(own_server, process_id)
        _check_jsonrpc(own_server, process_id, lost_bytes=None)
        _check_client(own_server, process_id)
        if round_ == "as told":
            own_server.restart()
    (own_server.state_dir / "registry.db").unlink()
    own_server.restart()
    _check_rest(own_server, process_id, lost_bytes=None)


@pytest.mark.thorough
def test_a_log_that_was_cut_after_the_end_is_said_with_its_bytes(own_server: OutliveServer) -> None:
    caller = RawCaller.begin(own_server.mcp_url)
    ran = caller.call("command_execute", command="echo whole").json["result"]["structuredContent"]
    assert ran["success"] is True
    assert "output_lost" not in ran
    rest = RestCaller(own_server.rest_url)
    process = rest.call("GET", "/v1/processes").json["processes"][0]
    process_id = process["process_id"]
    assert (process["output_lost"], process["lost_bytes"]) == (False, None)
    rest.wait(process_id, until="closed")
    _cut(own_server, process_id)
    own_server.restart()
    _check_rest(own_server, process_id, lost_bytes=4)
    _check_tools(caller, ran["id"], process_id)
    _check_jsonrpc(own_server, process_id, lost_bytes=4)


@pytest.mark.parametrize(
    "words", [(), ("--follow",), ("--grep", "wh"), ("--grep", "absent"), ("--tail", "1")]
)
def test_logs_says_what_is_missing_and_its_exit_code_does(
    server: OutliveServer, words: tuple[str, ...]
) -> None:
    def logs(process_id: str, *more: str) -> subprocess.CompletedProcess[str]:
        return run_outlive("logs", process_id, *words, *more, state_dir=server.state_dir)

    with Client(server.state_dir, start_server=False) as client:
        cut, gone = client.start("echo whole"), client.start("echo whole")
        bounded = client.start(
            "head -c 300000 /dev/zero; echo; echo whole", output_limit=65536, on_limit="truncate"
        )
        for one in (cut, gone, bounded):
            one.wait(30, until="closed")
    assert logs(cut.process_id).returncode == int("absent" in words)
    _cut(server, cut.process_id)
    shutil.rmtree(server.state_dir / "processes" / gone.process_id)
    said = logs(cut.process_id)
    assert (said.returncode, "4 bytes of its output are lost" in said.stderr) == (3, True), said
    said = logs(cut.process_id, "--json")
    assert said.returncode == 3
    assert json.loads(said.stdout.splitlines()[-1]) == {"output_lost": True, "lost_bytes": 4}
    if "--follow" not in words:
        said = logs(gone.process_id)
        assert (said.returncode, "output may be lost" in said.stderr) == (3, True), said
    said = logs(bounded.process_id)
    assert said.returncode == (0 if "--tail" in words else 3), said.stderr


def test_outlive_run_keeps_the_exit_code_and_says_what_is_lost(
    own_server: OutliveServer, gate: Gate, tmp_path: Path
) -> None:
    words = [
        *outlive_command(),
        "run",
        "--state-dir",
        str(own_server.state_dir),
        "-c",
        losing_line(gate, code=3),
    ]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"early\n"
        process = RestCaller(own_server.rest_url).call("GET", "/v1/processes").json["processes"][0]
        lose_output(own_server, gate, pid=process["pid"], process_id=process["process_id"])
        out, err = run.communicate(timeout=30)
    assert len(out) < LOST_BYTES
    assert run.returncode == 3
    assert b"lost" in err


def test_a_terminal_that_lost_both_is_hung_up(own_server: OutliveServer) -> None:
    """README's table: the kernel hangs up a terminal whose last master is closed (tty_ioctl(4)), and that is
    said.
    """
    rest = RestCaller(own_server.rest_url)
    process = rest.start(argv=["sh", "-c", "echo early; sleep 1000"], pty=True)
    out = own_server.state_dir / "processes" / process["process_id"] / "out"
    until(lambda: out.stat().st_size, "the first output")
    supervisor, command = own_server.keeper_status().supervisor_pid, stat(process["pid"])
    assert command is not None
    assert supervisor is not None
    for sent in (signal.SIGSTOP, signal.SIGKILL):
        for pid in (command.ppid, supervisor):
            os.kill(pid, sent)
    ended = rest.wait(process["process_id"])
    assert (ended["exit_code"], ended["status"], ended["output_lost"]) == (-signal.SIGHUP, "failed", True)
