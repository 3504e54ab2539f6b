"""Calls that become tasks, against a real engine: which do, what they answer in the end, who may ask, how
they end.
"""

import asyncio
import errno
import re
import threading
from collections.abc import Mapping
from dataclasses import replace

import pytest

from outlive.config import Settings
from outlive.core.errors import ProcessNotFound
from outlive.core.lifecycle import Cause
from outlive.engine import Engine
from outlive.frontends.mcp.tools import Caller, Outcome, Toolbox
from outlive.frontends.mcp.tools import toolbox as toolbox_module
from outlive.frontends.mcp.tools.calls import Unfinished
from outlive.frontends.mcp.tools.runner import Runner
from outlive.frontends.mcp.tools.toolbox import ProcessTasks
from outlive.kernel.files import write_whole
from outlive.protocols.mcp.tasks import Task, TaskCall, tool_result
from outlive.store.retention import Retention
from tests.engine.engines import settled
from tests.mcp_tools.calling import a_caller, answer, live_process
from tests.support.processes import Gate

_RUNNING_TOOLS: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("command_execute", "command", {}),
    ("command_execute", "command", {"cwd": "/"}),
    ("command_execute_script", "script_content", {"interpreter": "/bin/sh"}),
    ("execute_linux_shell_command", "cmd", {}),
    ("run", "command", {}),
    ("run", "command", {"raw": True, "budget": 120}),
)
# What shows in a result that the arguments have been heeded: as many as there are rows above.
_WANTED = (
    ["'return_code': 3", "'cwd': None"],
    ["'return_code': 3", "'cwd': '/'"],
    ["'interpreter': '/bin/sh'", "/script'"],
    ["STDERR:\\nerr"],
    ["[exit 3]\\none\\n1\\n2\\n", "\\n500\\n"],
    [" exit 3]\\n", "\\x1b[1mone", " bytes omitted: read(id="],
)


@pytest.fixture
def hasty(engine: Engine) -> Toolbox:
    """All tools, with a server that waits for 20 ms."""
    return Toolbox(engine, Settings(wait_s=0.02, retention_s=60.0))


async def _task(toolbox: Toolbox, caller: Caller, name: str, arguments: Mapping[str, object]) -> Task:
    outcome = await answer(toolbox, name, caller, arguments)
    assert outcome.task is not None, outcome
    return outcome.task


async def _ended(toolbox: Toolbox, engine: Engine, task: Task, caller: Caller) -> Task:
    """Wait for the end of a task's process and return the task."""
    process = await engine.queries.find(task.task_id)
    async with asyncio.timeout(20):
        await engine.queries.wait(process)
    return await toolbox.tasks.get(task.task_id, caller)


@pytest.mark.promise("M.tasks", "M.tasks.result")
@pytest.mark.parametrize(
    ("name", "argument", "more", "wanted"),
    [(*row, wanted) for row, wanted in zip(_RUNNING_TOOLS, _WANTED, strict=True)],
)
async def test_a_call_that_outlasts_the_wait_becomes_a_task_with_the_same_result(
    engine: Engine,
    hasty: Toolbox,
    gate: Gate,
    name: str,
    argument: str,
    more: dict[str, object],
    wanted: list[str],
) -> None:
    """The same as the tool answers for the process where it waits long enough.

    Here that is asked of it directly.
    """
    caller = a_caller(has_tasks=True)
    line = f"echo '\033[1mone'; {gate.wait}; seq 500; echo err >&2; exit 3"
    task = await _task(hasty, caller, name, {argument: line, **more})
    assert task.status == "working"
    assert (await hasty.tasks.get(task.task_id, caller)).status == "working"
    gate.open()
    ended = await _ended(hasty, engine, task, caller)
    assert ended.status == "completed"
    patient = Toolbox(engine, Settings())
    expected = await answer(patient, name, caller, {argument: line, **more})
    assert ended.result is not None
    assert _comparable(ended.result) == _comparable(
        tool_result(expected.text, expected.structured, is_error=expected.is_error)
    )
    for word in wanted:
        assert word in str(ended.result)


def _comparable(result: Mapping[str, object]) -> list[object]:
    """Return a result without what differs from run to run: ids, paths with ids, times."""
    structured = result.get("structuredContent")
    if isinstance(structured, dict):
        varying = {"id", "start_time", "duration"}
        kept = {key: value for key, value in structured.items() if key not in varying}
        for key in ("command", "script_path"):
            kept[key] = str(kept.get(key)).rpartition("/")[2]
        return [result["isError"], kept]
    content = result["content"]
    assert isinstance(content, list)
    text = re.sub(r"^\[p\d+ |\(id=\"p\d+\"", "[ID ", content[0]["text"])  # the second run has the next id
    return [result["isError"], text]


@pytest.mark.promise("M.tasks.declared")
@pytest.mark.parametrize(("name", "argument", "more"), _RUNNING_TOOLS[:1] + _RUNNING_TOOLS[2:5])
async def test_who_declares_no_tasks_gets_none(
    engine: Engine, hasty: Toolbox, gate: Gate, name: str, argument: str, more: dict[str, object]
) -> None:
    caller = a_caller()
    outcome = await answer(hasty, name, caller, {argument: gate.wait, **more})
    assert outcome.task is None
    process = await live_process(engine, caller)
    assert "running" in outcome.text.lower() or '"completed":false' in outcome.text
    with pytest.raises(ProcessNotFound):
        await hasty.tasks.get(process.process_id, replace(caller, has_tasks=True))


@pytest.mark.promise("M.tasks.asked")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("command_execute", {"command": "W", "wait_s": 0.02}),
        ("command_execute", {"command": "W", "background": True}),
        ("execute_linux_shell_command", {"cmd": "W", "wait_s": 0}),
        ("execute_background_linux_shell_command", {"cmd": "W"}),
        ("run", {"command": "W", "wait_s": 0.02}),
        ("run", {"command": "echo up; W", "wait_for": {"text": "up"}}),
        ("run", {"command": "W", "stdin": "pipe"}),
        ("run", {"command": "W", "pty": True}),
        ("command_execute", {"command": "true", "wait_s": 20}),
    ],
)
async def test_who_says_how_long_to_wait_or_has_an_input_to_give_is_answered(
    hasty: Toolbox, gate: Gate, name: str, arguments: dict[str, object]
) -> None:
    words = {
        key: value.replace("W", gate.wait) if isinstance(value, str) else value
        for key, value in arguments.items()
    }
    outcome = await answer(hasty, name, a_caller(has_tasks=True), words)
    assert outcome.task is None
    assert outcome.text


@pytest.mark.promise("M.tasks")
async def test_what_ends_in_time_is_answered(engine: Engine) -> None:
    toolbox = Toolbox(engine, Settings())
    caller = a_caller(has_tasks=True)
    for name, argument in (
        ("command_execute", "command"),
        ("run", "command"),
        ("execute_linux_shell_command", "cmd"),
    ):
        outcome = await answer(toolbox, name, caller, {argument: "echo done"})
        assert outcome.task is None
        assert "done" in outcome.text


@pytest.mark.promise("M.tasks.cancel")
async def test_a_cancelled_task_ends_with_its_tree(engine: Engine, hasty: Toolbox) -> None:
    caller = a_caller(has_tasks=True)
    task = await _task(hasty, caller, "run", {"command": "sleep 1000 & sleep 1000"})
    await hasty.tasks.cancel(task.task_id, caller)
    ended = await _ended(hasty, engine, task, caller)
    assert (ended.status, ended.message, ended.result) == ("cancelled", "Cancelled by the client.", None)
    process = await engine.queries.find(task.task_id)
    assert (process.record.cause, process.record.descendants) == (Cause.CANCEL, 0)
    await hasty.tasks.cancel(task.task_id, caller)
    assert (await hasty.tasks.get(task.task_id, caller)).status == "cancelled"


@pytest.mark.promise("M.tasks.cancel")
async def test_cancelling_a_task_that_has_ended_changes_nothing(
    engine: Engine, hasty: Toolbox, gate: Gate
) -> None:
    caller = a_caller(has_tasks=True)
    task = await _task(hasty, caller, "run", {"command": gate.wait})
    gate.open()
    before = await _ended(hasty, engine, task, caller)
    await hasty.tasks.cancel(task.task_id, caller)
    after = await hasty.tasks.get(task.task_id, caller)
    assert (after.status, after.ttl_ms) == (before.status, before.ttl_ms) == ("completed", after.ttl_ms)


@pytest.mark.promise("M.tasks.own")
async def test_a_task_is_its_principals_alone(hasty: Toolbox, gate: Gate) -> None:
    caller, other = a_caller(has_tasks=True), a_caller(has_tasks=True)
    task = await _task(hasty, caller, "run", {"command": gate.wait})
    known = (task.task_id, other), ("01m7zc00000000000000000000", caller), ("../etc/passwd", caller)
    for task_id, asker in known:
        for verb in (
            hasty.tasks.get(task_id, asker),
            hasty.tasks.update(task_id, {}, asker),
            hasty.tasks.cancel(task_id, asker),
        ):
            with pytest.raises(ProcessNotFound):
                await verb
    await hasty.tasks.update(task.task_id, {"nobody asked": 1}, caller)
    later = replace(caller, connection_id="another", request_id="8")
    assert (await hasty.tasks.get(task.task_id, later)).status == "working"


@pytest.mark.promise("M.tasks.status")
async def test_a_task_is_removed_together_with_its_process(
    engine: Engine, hasty: Toolbox, gate: Gate
) -> None:
    caller = a_caller(has_tasks=True)
    task = await _task(hasty, caller, "run", {"command": gate.wait})
    gate.open()
    await _ended(hasty, engine, task, caller)
    process = await engine.queries.find(task.task_id)
    await settled(engine, process)
    await engine._upkeep.prune(Retention(max_count=0))
    with pytest.raises(ProcessNotFound):
        await hasty.tasks.get(task.task_id, caller)


@pytest.mark.promise("M.tasks.durable")
async def test_a_task_that_cannot_be_kept_is_not_given_out(
    engine: Engine, toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = await _unfinished(engine, toolbox)
    assert outcome.unfinished is not None

    def full(path: str, content: bytes) -> None:
        raise OSError(errno.ENOSPC, f"{len(content)} bytes do not fit", path)

    monkeypatch.setattr(toolbox_module, "write_whole", full)
    assert await ProcessTasks(Runner(engine, Settings())).adopt(outcome) == outcome


@pytest.mark.promise("M.tasks.durable", "M.stateless")
async def test_a_call_that_is_given_up_while_its_task_is_kept_ends_its_command(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, writing, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    write = write_whole

    def held(path: str, content: bytes) -> None:
        loop.call_soon_threadsafe(writing.set)
        go_on.wait(20)
        write(path, content)

    monkeypatch.setattr(toolbox_module, "write_whole", held)
    caller = a_caller(has_tasks=True)
    toolbox = Toolbox(engine, Settings(wait_s=0.1))
    call = asyncio.create_task(toolbox.call("run", {"command": "exec sleep 1000"}, caller))
    async with asyncio.timeout(20):
        await writing.wait()
        (process,) = [one for one in engine.queries.live() if one.principal == caller.principal]
        call.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        await engine.queries.wait(process)
    assert process.record.cause is Cause.CANCEL


async def _unfinished(engine: Engine, toolbox: Toolbox) -> Outcome:
    """Return the outcome of a call that has left a process running."""
    caller = a_caller(has_tasks=True)
    outcome = await answer(toolbox, "run", caller, {"command": "sleep 1000", "wait_s": 0})
    process = await live_process(engine, caller)
    return replace(outcome, unfinished=Unfinished(process, TaskCall(tool="run")))
