"""The tool sets `claude` and `codex`: what their calls may start, and what a cancel of them ends."""

import asyncio
from dataclasses import replace

import pytest

from outlive.core.command import Command
from outlive.core.lifecycle import State
from outlive.engine import Engine
from outlive.engine.commands.containers import ContainerSettings
from outlive.frontends.mcp.tools import Toolbox, ToolSettings
from outlive.frontends.mcp.tools.runner import Runner, ToolCall
from outlive.frontends.mcp.tools.workspaces import enter_folder
from tests.engine.engines import an_engine
from tests.keeper.house import House
from tests.mcp_tools.calling import a_caller, answer, live_process, seen

_SOON_S = 10


@pytest.mark.promise("S4.13.shells")
async def test_a_shell_that_the_operators_patterns_block_runs_nothing(engine: Engine) -> None:
    """A wall: the argument `shell` names a program, and is no way around the patterns."""
    settings = ToolSettings(mcp_tools="codex", blocked_patterns=("python*",))
    toolbox, caller = Toolbox(engine, settings), a_caller()
    for shell in ("python3", "/usr/bin/python3"):
        outcome = await answer(toolbox, "exec_command", caller, {"cmd": "print", "shell": shell})
        assert outcome.is_error
        assert "blocked pattern: python*" in outcome.text
    settings = ToolSettings(mcp_tools="codex", allowed_patterns=("true", "print"))
    outcome = await answer(
        Toolbox(engine, settings), "exec_command", caller, {"cmd": "print", "shell": "python3"}
    )
    assert outcome.is_error
    assert "any allowed pattern" in outcome.text
    settings = ToolSettings(mcp_tools="codex", allowed_patterns=("true", "print"))
    outcome = await answer(
        Toolbox(engine, settings), "exec_command", caller, {"cmd": "true", "shell": "/bin/bash"}
    )
    assert "exited with code 0" in outcome.text


@pytest.mark.promise("S4.13.shells")
async def test_a_cancelled_look_at_a_session_ends_nothing(engine: Engine) -> None:
    """A host that was restarted counts its requests from the beginning: an equal id is another request."""
    toolbox, caller = Toolbox(engine, ToolSettings(mcp_tools="codex")), a_caller()
    started = {"cmd": "echo up; sleep 300", "yield_time_ms": 1}
    await answer(toolbox, "exec_command", caller, started)
    process = await live_process(engine, caller)
    await seen(process, "up")
    later = replace(caller, connection_id="s2")
    look = {"session_id": process.record.number, "yield_time_ms": 30_000}
    assert "up" in (await answer(toolbox, "write_stdin", later, look)).text
    before = len(process.subscribers)
    call = asyncio.create_task(toolbox.call("write_stdin", look, later))
    async with asyncio.timeout(_SOON_S):
        while len(process.subscribers) == before:  # noqa: ASYNC110 -- there is no event for it
            await asyncio.sleep(0)  # the wait has begun when it listens to the process
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert (process.is_ended, process.state) == (False, State.RUNNING)
    await engine.controls.cancel(process, grace_s=0)


@pytest.mark.promise("S4.13.shells")
async def test_ctrl_c_ends_a_session_that_has_no_terminal(engine: Engine) -> None:
    """Nothing reads it there, and the set has no tool that ends one."""
    toolbox, caller = Toolbox(engine, ToolSettings(mcp_tools="codex")), a_caller()
    line = "(trap '' INT; sleep 300) & echo up; wait"
    await answer(toolbox, "exec_command", caller, {"cmd": line, "yield_time_ms": 1})
    process = await live_process(engine, caller)
    await seen(process, "up")
    session = {"session_id": process.record.number}
    outcome = await answer(toolbox, "write_stdin", caller, {**session, "chars": "\x03"})
    assert not outcome.is_error
    assert "Process exited with code -15\nstopped by you\nOutput:\n" in outcome.text
    assert process.is_complete


@pytest.mark.promise("S4.13.shells")
async def test_what_is_typed_into_a_session_without_a_terminal_is_refused_in_codex_s_words(
    engine: Engine,
) -> None:
    toolbox, caller = Toolbox(engine, ToolSettings(mcp_tools="codex")), a_caller()
    await answer(toolbox, "exec_command", caller, {"cmd": "sleep 300", "yield_time_ms": 1})
    process = await live_process(engine, caller)
    typed = {"session_id": process.record.number, "chars": "y\n"}
    outcome = await answer(toolbox, "write_stdin", caller, typed)
    assert outcome.is_error
    assert outcome.text.startswith("stdin is closed for this session")
    assert "Rerun exec_command with tty=true" in outcome.text
    assert not process.is_ended
    await engine.controls.cancel(process, grace_s=0)


@pytest.mark.promise("S4.13.shells")
async def test_a_line_that_changes_its_folder_runs_where_commands_run_in_containers(
    shared_house: House,
) -> None:
    """Its folder is forgotten there. That no workspace can be kept is no answer to a caller that asked for none."""
    async with an_engine(shared_house.state_dir, containers=ContainerSettings(backend="docker")) as engine:
        call = ToolCall(Runner(engine, ToolSettings()), a_caller())
        asked = Command(line="cd /tmp && pwd")
        assert await enter_folder(call, asked) == asked
