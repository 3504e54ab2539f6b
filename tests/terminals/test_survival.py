"""Terminals when something dies: the server in the middle of a command, the keeper, both."""

import contextlib
import os
import signal
from http.client import HTTPException

import anyio
import pytest
from websockets.exceptions import WebSocketException

from tests.support.fixtures import ServerFactory
from tests.support.processes import end
from tests.terminals.doors import DOORS, Refused, caller_of

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]
_COMMAND = "echo begun; seq 1 20000; until [ -e {gate} ]; do sleep 0.05; done; echo ended; (exit 42)"


@pytest.mark.promise("S3.7", "S3.7.outlives")
@pytest.mark.parametrize("door", DOORS)
async def test_a_command_whose_server_was_killed_ends_with_its_exact_code(
    door: str, serve: ServerFactory, tmp_path: str
) -> None:
    server = await anyio.to_thread.run_sync(lambda: serve(HOME=tmp_path, SHELL="/bin/bash"))
    caller = caller_of(door, server)
    terminal = await caller.create(terminal_name="kept")
    await caller.run(terminal, "NAME=value")
    gate = os.path.join(tmp_path, "gate")
    gave = await caller.run(terminal, _COMMAND.format(gate=gate), wait_s=0)
    assert not gave["is_complete"]
    await anyio.to_thread.run_sync(server.kill)
    await anyio.Path(gate).touch()
    await anyio.to_thread.run_sync(server.start)
    listed = (await caller.call("list"))["terminals"]
    assert [(one["terminal_id"], one["terminal_name"]) for one in listed] == [(terminal, "kept")]
    text = await caller.ready(terminal)
    assert text["exit_code"] == 42
    cursor, texts = gave["cursor"], [gave["output"]]
    while True:
        page = await caller.call("read", terminal_id=terminal, form="raw", cursor=cursor, budget=100_000)
        texts.append(page["text"])
        cursor = page["cursor"]
        if not page["has_more"]:
            break
    whole = "".join(texts).replace("\r", "")
    expected = "begun\n" + "".join(f"{number}\n" for number in range(1, 20_001)) + "ended\n"
    assert expected in whole
    assert (await caller.run(terminal, "echo $NAME; (exit 3)"))["output"] == "value\n"


@pytest.mark.parametrize("door", DOORS)
async def test_a_server_that_stops_does_not_wait_for_a_command(
    door: str, serve: ServerFactory, tmp_path: str
) -> None:
    server = await anyio.to_thread.run_sync(lambda: serve(HOME=tmp_path, SHELL="/bin/bash"))
    caller = caller_of(door, server)
    terminal = await caller.create()

    begun = anyio.Path(tmp_path) / "begun"

    async def left_alone() -> None:
        with contextlib.suppress(Refused, OSError, HTTPException, WebSocketException):
            gave = await caller.run(terminal, f"touch {begun}; sleep 6; echo ended; (exit 8)", wait_s=60)
            assert not gave["is_complete"]

    async with anyio.create_task_group() as group:
        group.start_soon(left_alone)
        # A command that was not typed yet would never run, and the shell would be ready with 0.
        with anyio.fail_after(20):
            while not await begun.exists():  # noqa: ASYNC110 - a file has no event
                await anyio.sleep(0.02)
        with anyio.fail_after(15):
            assert await anyio.to_thread.run_sync(server.stop) == 0
    await anyio.to_thread.run_sync(server.start)
    assert (await caller.ready(terminal))["exit_code"] == 8


@pytest.mark.promise("S3.7", "S3.7.outlives")
async def test_a_terminal_outlives_supervisor_guardian_and_server_at_once(
    serve: ServerFactory, tmp_path: str
) -> None:
    server = await anyio.to_thread.run_sync(lambda: serve(HOME=tmp_path, SHELL="/bin/bash"))
    caller = caller_of("jsonrpc", server)
    terminal = await caller.create()

    async def running() -> None:
        gave = await caller.run(terminal, "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done; (exit 9)")
        assert gave["output"] == "".join(f"{number}\n" for number in range(1, 9))
        assert gave["exit_code"] == 9

    async with anyio.create_task_group() as group:
        group.start_soon(running)
        await anyio.sleep(0.3)
        status = await anyio.to_thread.run_sync(server.keeper_status)
        assert status.supervisor_pid is not None
        os.kill(status.supervisor_pid, signal.SIGKILL)  # the server and the command go on
    status = await anyio.to_thread.run_sync(server.keeper_status)
    assert status.supervisor_pid is not None
    assert status.guardian_pid is not None
    gave = await caller.run(terminal, "sleep 0.5; echo through; (exit 5)", wait_s=0)
    for pid in (status.guardian_pid, status.supervisor_pid):
        end(pid)
    await anyio.to_thread.run_sync(server.restart)
    text = await caller.ready(terminal)
    assert text["exit_code"] == 5
    page = await caller.call("read", terminal_id=terminal, cursor=gave["cursor"])
    assert "through" in gave["output"] + page["text"]
    assert (await caller.run(terminal, "echo on"))["output"] == "on\n"
