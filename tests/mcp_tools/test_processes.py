"""The process tools against a real engine: texts, signals, lists, whose processes they see."""

import asyncio
import re
from datetime import datetime

import pytest

from outlive.config import Settings
from outlive.core.command import Command
from outlive.core.controls import Pause
from outlive.core.errors import CommandRefused, InvalidRequest
from outlive.core.process import Owner
from outlive.engine import Engine
from outlive.engine.processes.process import until
from outlive.frontends.mcp.tools import Toolbox
from outlive.frontends.mcp.tools.documents import shell_result
from tests.engine.engines import an_engine
from tests.keeper.house import House
from tests.mcp_tools.calling import a_caller, answer, live_process, refuses, seen
from tests.support.processes import Marker

_RUN = "execute_linux_shell_command"
_START = "execute_background_linux_shell_command"


@pytest.mark.promise("S4.2", "S4.2.exit", "S4.3.result")
@pytest.mark.parametrize(
    ("cmd", "text", "is_error"),
    [
        ("echo out", "out", False),
        ("echo out; echo err >&2", "out\n\nSTDERR:\nerr", False),
        ("echo err >&2", "\n\nSTDERR:\nerr", False),
        ("printf 'a\\n\\n'; exit 3", "[exit code 3]\na\n", True),
        ("echo err >&2; exit 1", "[exit code 1]\n\n\nSTDERR:\nerr", True),
        ("exit 2", "[exit code 2]", True),
        ("true", "[exit code 0]", False),
        ("kill -9 $$", "[Command was ended by signal 9 (SIGKILL)]\n[exit code -9]", True),
    ],
)
async def test_the_text_is_both_streams(
    toolbox: Toolbox, engine: Engine, cmd: str, text: str, is_error: bool
) -> None:
    outcome = await answer(toolbox, _RUN, a_caller(), {"cmd": cmd})
    assert (outcome.text, outcome.is_error, outcome.structured) == (text, is_error, None)
    process = await toolbox.start_background({"cmd": cmd}, a_caller())
    async with asyncio.timeout(10):
        await engine.queries.wait(process)
    assert await shell_result(toolbox.runner, process) == outcome


@pytest.mark.promise("S4.3")
async def test_a_background_start_is_refused_or_runs(toolbox: Toolbox, engine: Engine) -> None:
    caller = a_caller()
    with pytest.raises(InvalidRequest, match="cmd"):
        await toolbox.start_background({}, caller)
    with pytest.raises(CommandRefused):
        await toolbox.start_background({"cmd": "sudo ls"}, caller)
    process = await toolbox.start_background({"cmd": "sleep 100"}, caller)
    assert process.record.owner == Owner(
        principal=caller.principal, connection_id=caller.connection_id, request_id="7", door="mcp"
    )
    await engine.controls.cancel(process)


@pytest.mark.promise("S4.3.result", "S1.8.output")
async def test_a_result_shows_so_much_of_each_stream(engine: Engine) -> None:
    """Also the last one of a raw stream, however much was streamed before it."""
    toolbox = Toolbox(engine, Settings(max_output_bytes=20))
    cmd = "seq 100; seq 100 >&2"
    shown = "1\n2\n3\n4\n5\n\n[... 272 bytes omitted ...]\n98\n99\n100"
    outcome = await answer(toolbox, _RUN, a_caller(), {"cmd": cmd})
    assert outcome.text == f"{shown}\n\nSTDERR:\n{shown}"
    process = await toolbox.start_background({"cmd": cmd}, a_caller())
    async with asyncio.timeout(10):
        await engine.queries.wait(process)
    assert await shell_result(toolbox.runner, process) == outcome


@pytest.mark.promise("S4.6.result")
async def test_the_result_of_a_cancelled_command_says_so(toolbox: Toolbox, engine: Engine) -> None:
    for cmd, text in (
        ("echo before; sleep 100", "[Process was terminated]\n[exit code -15]\nbefore"),
        ("sleep 100", "[Process was terminated]\n[exit code -15]"),
    ):
        process = await toolbox.start_background({"cmd": cmd}, a_caller())
        if "echo" in cmd:
            await seen(process, "before\n")
        await engine.controls.cancel(process)
        async with asyncio.timeout(10):
            await engine.queries.wait(process)
        outcome = await shell_result(toolbox.runner, process)
        assert (outcome.text, outcome.is_error) == (text, True)


@pytest.mark.promise("S1.10", "S4.3.official")
async def test_what_runs_longer_goes_on(toolbox: Toolbox, engine: Engine) -> None:
    caller = a_caller()
    outcome = await answer(toolbox, _RUN, caller, {"cmd": "echo here; sleep 100", "wait_s": 1})
    process = await live_process(engine, caller)
    assert not outcome.is_error
    assert outcome.text.startswith("[Still running after 1 s")
    assert f"PID: {process.record.pid}\nProcess ID: {process.process_id}\n" in outcome.text
    assert outcome.text.endswith("\n\nhere")
    assert outcome.structured == {"running": True, "id": process.process_id, "pid": process.record.pid}
    await engine.controls.cancel(process)
    for name, arguments in ((_RUN, {"background": True}), (_START, {})):
        other = a_caller()
        outcome = await answer(toolbox, name, other, {"cmd": "sleep 100", **arguments})
        process = await live_process(engine, other)
        assert str(process.record.pid) in outcome.text
        assert process.process_id in outcome.text
        assert not outcome.is_error
        await engine.controls.cancel(process)


async def test_a_timeout_is_said_before_the_output(toolbox: Toolbox) -> None:
    """S1.9, S4.12.history."""
    for cmd, exit_code in (
        ("echo a; sleep 100", "[exit code -15]\n"),
        ("trap 'exit 0' TERM; echo a; while :; do sleep 0.05; done", ""),
    ):
        outcome = await answer(toolbox, _RUN, a_caller(), {"cmd": cmd, "timeout": 0.5})
        assert outcome.text.startswith(f"[Command timed out after 0.5 seconds]\n{exit_code}a")
        assert outcome.is_error


@pytest.mark.promise("S4.4")
@pytest.mark.parametrize(
    ("cmd", "signal"),
    [("exec sleep 100", "SIGTERM"), ("trap '' TERM; echo ready; while :; do sleep 0.05; done", "SIGKILL")],
)
async def test_terminate_names_the_signal_that_worked(engine: Engine, cmd: str, signal: str) -> None:
    toolbox = Toolbox(engine, Settings(termination_timeout_s=0.3))
    for caller in (a_caller(request_id="42"), a_caller(request_id="a-b")):
        process = await toolbox.start_background({"cmd": cmd}, caller)
        if "ready" in cmd:
            await seen(process, "ready\n")
        pid = process.record.pid
        outcome = await answer(toolbox, "terminate_process", caller, {"pid": pid})
        assert outcome.text == (
            f"Process {pid} terminated successfully\n"
            f"Request ID: {caller.request_id}\n"
            f"Signal: {signal}\n"
            "Reason: Manual termination via terminate_process tool"
        )
        assert not outcome.is_error
        assert process.status.is_complete


@pytest.mark.promise("S4.4")
async def test_what_an_ended_process_left_behind_is_terminated(toolbox: Toolbox, engine: Engine) -> None:
    caller = a_caller()
    process = await toolbox.start_background({"cmd": "setsid sleep 100 & echo started"}, caller)
    async with asyncio.timeout(10):
        await engine.queries.wait(process)
    assert (await shell_result(toolbox.runner, process)).text == "started"
    outcome = await answer(toolbox, "terminate_process", caller, {"pid": process.record.pid})
    assert outcome.text.startswith(f"Process {process.record.pid} terminated successfully\n")
    assert process.record.descendants == 0


@pytest.mark.promise("S4.4")
async def test_a_paused_process_is_terminated_too(toolbox: Toolbox, engine: Engine) -> None:
    """And one without a request id is named by its process id."""
    caller = a_caller()
    command = Command(line="exec sleep 100", detached=True)
    process = await engine.starts.start(command, owner=Owner(principal=caller.principal))
    await engine.controls.control(process, Pause())
    outcome = await answer(toolbox, "list_processes", caller, {})
    assert "  Status: running (paused)\n" in outcome.text
    outcome = await answer(toolbox, "terminate_process", caller, {"pid": process.record.pid})
    assert f"Request ID: {process.process_id}\nSignal: SIGTERM\n" in outcome.text


@pytest.mark.promise("S4.4.unknown", "S4.4.own")
async def test_only_own_processes_can_be_terminated(toolbox: Toolbox, engine: Engine) -> None:
    mine, other = a_caller(), a_caller()
    process = await toolbox.start_background({"cmd": "sleep 100"}, mine)
    private = await engine.starts.start(
        Command(line="sleep 100"), owner=Owner(principal=mine.principal, connection_id="elsewhere")
    )
    for caller, pid in ((other, process.record.pid), (mine, 1), (mine, private.record.pid), (mine, -5)):
        outcome = await answer(toolbox, "terminate_process", caller, {"pid": pid})
        assert outcome.is_error
        assert outcome.text == f"No process with PID {pid} is running that this server started for you"
    assert not process.status.is_ended
    assert not private.status.is_ended
    for started in (process, private):
        await engine.controls.cancel(started)


@pytest.mark.promise("S4.5")
async def test_the_list_has_the_documents_blocks(toolbox: Toolbox, engine: Engine) -> None:
    caller = a_caller()
    empty = await answer(toolbox, "list_processes", caller, {})
    assert (empty.text, empty.structured) == (
        "No background processes running",
        {"processes": [], "count": 0},
    )
    first = await toolbox.start_background({"cmd": "sleep 100"}, caller)
    second = await toolbox.start_background({"cmd": "sleep 101"}, a_caller(principal=caller.principal))
    outcome = await answer(toolbox, "list_processes", caller, {})
    assert re.fullmatch(
        r"Background Processes \(2\):\n\n"
        rf"PID: {first.record.pid}\n  Request ID: 7\n  Command: sleep 100\n  Status: running\n"
        r"  Started: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n\n"
        rf"PID: {second.record.pid}\n  Request ID: 7\n  Command: sleep 101\n  Status: running\n"
        r"  Started: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
        outcome.text,
    )
    assert outcome.structured is not None
    assert outcome.structured["count"] == 2
    rows = outcome.structured["processes"]
    assert isinstance(rows, list)
    assert datetime.fromisoformat(rows[0].pop("started_at")).tzinfo is None
    assert rows[0] == {
        "pid": first.record.pid,
        "request_id": "7",
        "command": "sleep 100",
        "status": "running",
        "process_id": first.process_id,
    }
    for process in (first, second):
        await engine.controls.cancel(process)


@pytest.mark.promise("C.run.left", "S4.5")
async def test_lists_and_headers_show_what_an_ended_command_has_left_running(
    toolbox: Toolbox, engine: Engine, marker: Marker
) -> None:
    caller = a_caller()
    left = f"{marker.sleep} >/dev/null 2>&1 &"
    process = await toolbox.start_background({"cmd": f"{left} {left} true"}, caller)
    async with asyncio.timeout(10):
        await until(process, lambda one: one.status.is_complete and one.record.descendants == 2)
    listed = await answer(toolbox, "list_processes", caller, {})
    assert "\n  Status: completed, left 2\n" in listed.text
    assert listed.structured is not None
    rows = listed.structured["processes"]
    assert isinstance(rows, list)
    assert [row["status"] for row in rows] == ["completed, left 2"]
    for tool, arguments in (("list", {}), ("read", {"id": process.process_id})):
        shown = await answer(toolbox, tool, caller, arguments)
        assert re.match(r"\[p1 exit 0,( .* ago,)? 2 of its processes still run\]", shown.text), tool
    await engine.controls.cancel(process, grace_s=0)
    async with asyncio.timeout(10):
        await until(process, lambda one: not one.record.descendants)
    assert (await answer(toolbox, "list", caller, {})).text.startswith("[nothing is running;")


@pytest.mark.promise("S4.5")
async def test_a_terminal_is_no_background_process(toolbox: Toolbox) -> None:
    """It is the terminal tools' own: its shell waits at a prompt for as long as it is open."""
    caller = a_caller()
    opened = await answer(toolbox, "terminal_create", caller, {})
    assert opened.structured is not None
    listed = await answer(toolbox, "list_processes", caller, {})
    assert (listed.text, listed.structured) == (
        "No background processes running",
        {"processes": [], "count": 0},
    )
    closing = {"terminal_id": opened.structured["terminal_id"]}
    assert not (await answer(toolbox, "terminal_close", caller, closing)).is_error


@pytest.mark.promise("S4.5.scope", "S4.12.restart")
async def test_jobs_stay_findable_after_a_restart(shared_house: House) -> None:
    caller = a_caller()
    async with an_engine(shared_house.state_dir) as engine:
        process = await Toolbox(engine, Settings()).start_background({"cmd": "sleep 100"}, caller)
        pid = process.record.pid
    again = a_caller(principal=caller.principal, connection_id="another host")
    async with an_engine(shared_house.state_dir) as engine:
        toolbox = Toolbox(engine, Settings())
        outcome = await answer(toolbox, "list_processes", again, {})
        assert outcome.text.startswith(f"Background Processes (1):\n\nPID: {pid}\n  Request ID: 7\n")
        outcome = await answer(toolbox, "terminate_process", again, {"pid": pid})
        assert outcome.text.startswith(f"Process {pid} terminated successfully\nRequest ID: 7\n")


@pytest.mark.promise("S4.12.history")
async def test_a_command_has_its_own_timeout_tags_and_group(toolbox: Toolbox) -> None:
    arguments = {"cmd": "true", "timeout": 5.5, "tags": {"a": "b"}, "group": "g", "cwd": "/tmp", "grace": 2}
    process = await toolbox.start_background({**arguments, "env": {"A": None}}, a_caller())
    record = process.record
    assert (record.timeout_s, record.grace_s, record.cwd) == (5.5, 2, "/tmp")
    assert (record.tags, record.group, record.is_detached) == ({"a": "b"}, "g", True)


@pytest.mark.parametrize(
    ("name", "arguments", "named"),
    [
        (_RUN, {}, "cmd"),
        (_START, {"cmd": ["ls"]}, "cmd"),
        (_RUN, {"cmd": "ls", "wait_s": -1}, "wait_s"),
        ("terminate_process", {"pid": "12"}, "pid"),
        ("terminate_process", {"pid": 10**30}, "64 bits"),
        (_RUN, {"cmd": "echo \ud800"}, "surrogate"),
        ("terminate_process", {"pid": True}, "pid"),
        (_RUN, {"cmd": "ls", "cwd": "/no/such"}, "/no/such"),
    ],
)
async def test_wrong_arguments_are_named(
    toolbox: Toolbox, name: str, arguments: dict[str, object], named: str
) -> None:
    """S4.2."""
    await refuses(toolbox, name, arguments, named=named)


async def test_who_waits_for_a_groups_turn_is_told_so_and_listed(toolbox: Toolbox, engine: Engine) -> None:
    caller = a_caller()
    group = {"group": "documents", "group_limit": 1}
    first = await toolbox.start_background({"cmd": "sleep 1000", **group}, caller)
    told = await answer(toolbox, _START, caller, {"cmd": "echo turn", **group})
    assert told.text.startswith("Background process queued: its group is full")
    late = await answer(toolbox, _RUN, caller, {"cmd": "echo third", "wait_s": 0.05, **group})
    assert late.text.startswith("[Still waiting for its turn after 0.05 s")
    listed = await answer(toolbox, "list_processes", caller, {})
    assert listed.structured is not None
    assert listed.structured["count"] == 3
    await engine.controls.cancel(first, grace_s=0)
    command = {"command": "echo fourth", **group}
    done = await answer(toolbox, "command_execute", caller, command)  # first come, first served
    assert done.structured is not None
    assert done.structured["stdout"] == "fourth\n"
