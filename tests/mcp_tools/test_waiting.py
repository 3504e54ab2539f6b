"""While a call waits: progress reaches the caller, silence is broken, a cancel ends what the call started."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from outlive.config import Settings
from outlive.core.lifecycle import Cause
from outlive.engine import Engine, Process
from outlive.frontends.mcp.tools import Caller, Toolbox, runner
from tests.mcp_tools.calling import a_caller, answer, ask, live_process, seen
from tests.support.processes import Gate

_RUN = "execute_linux_shell_command"
_START = "execute_background_linux_shell_command"
_TOOLS = ((_RUN, "cmd"), (_START, "cmd"), ("command_execute", "command"))


class _Told:
    """Collects progress; `until` waits for some text."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._woken = asyncio.Event()

    async def __call__(self, text: str) -> None:
        self.texts.append(text)
        self._woken.set()

    async def until(self, text: str) -> None:
        async with asyncio.timeout(10):
            while text not in "".join(self.texts):
                self._woken.clear()
                await self._woken.wait()


@pytest.mark.promise("M.progress", "S4.3.official")
@pytest.mark.parametrize(("name", "argument"), _TOOLS)
async def test_output_is_told_while_a_call_waits(
    toolbox: Toolbox, gate: Gate, name: str, argument: str
) -> None:
    told = _Told()
    line = f"printf 'a \\303'; {gate.wait}; printf '\\274'; echo err >&2"
    call = asyncio.create_task(answer(toolbox, name, a_caller(), {argument: line}, progress=told))
    await told.until("a ")
    assert not call.done()
    gate.open()
    outcome = await call
    assert not outcome.is_error
    assert "".join(told.texts) in {"a üerr\n", "a err\nü"}
    assert "ü" in outcome.text


@pytest.mark.promise("M.progress")
async def test_a_silent_command_is_told_about(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_HEARTBEAT_S", 0.05)
    toolbox = Toolbox(engine, Settings())
    told = _Told()
    call = asyncio.create_task(
        ask(toolbox, "command_execute", a_caller(), command="sleep 0.5", progress=told)
    )
    result = await call
    assert result["success"] is True
    assert len(told.texts) >= 2
    assert all(text.startswith("[still running after ") for text in told.texts)


@pytest.mark.promise("M.progress")
async def test_a_flood_is_told_in_few_messages(toolbox: Toolbox) -> None:
    told = _Told()
    result = await ask(toolbox, "command_execute", a_caller(), command="seq 1000000", progress=told)
    assert result["success"] is True
    assert sum(map(len, told.texts)) < 1_000_000
    assert "".join(told.texts).endswith("999999\n1000000\n")
    assert "bytes not shown here" in "".join(told.texts)


@pytest.mark.promise("M.progress")
async def test_output_that_comes_in_drops_is_told_in_coalesced_messages(toolbox: Toolbox) -> None:
    """At most ten a second, measured by the command's own duration; nothing is lost by it."""
    told = _Told()
    line = "for n in {1..200}; do echo $n; sleep 0.004; done"
    result = await ask(toolbox, "command_execute", a_caller(), command=line, progress=told)
    assert "".join(told.texts) == result["stdout"] == "".join(f"{n}\n" for n in range(1, 201))
    assert len(told.texts) <= 3 + 10 * result["duration"]


@pytest.mark.promise("M.progress")
async def test_a_slow_listener_holds_only_its_own_call(toolbox: Toolbox, engine: Engine) -> None:
    caller, release = a_caller(), asyncio.Event()

    async def listen(_text: str) -> None:
        await release.wait()

    call = asyncio.create_task(answer(toolbox, _RUN, caller, {"cmd": "seq 100000"}, progress=listen))
    process = await live_process(engine, caller)
    async with asyncio.timeout(10):
        await engine.queries.wait(process)
    assert not call.done()
    release.set()
    assert (await call).text.endswith("100000")


@pytest.mark.promise("S4.6")
@pytest.mark.parametrize(("name", "argument"), [_TOOLS[0], _TOOLS[2]])
async def test_a_cancelled_call_ends_its_whole_tree(
    engine: Engine, tmp_path: Path, name: str, argument: str
) -> None:
    toolbox = Toolbox(engine, Settings(termination_timeout_s=0.3))
    caller = a_caller()
    line = "trap '' TERM; setsid sleep 100 & echo ready; while :; do sleep 0.05; done"
    call = asyncio.create_task(answer(toolbox, name, caller, {argument: line}))
    process = await live_process(engine, caller)
    await seen(process, "ready\n")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    async with asyncio.timeout(10):
        await engine.queries.wait(process)
    record = process.record
    assert (record.cause, record.exit_signal, record.descendants) == (Cause.CANCEL, 9, 0)


@pytest.mark.promise("S4.6")
async def test_a_call_cancelled_again_and_again_still_ends_its_process(
    toolbox: Toolbox, engine: Engine
) -> None:
    caller = a_caller()
    call = asyncio.create_task(answer(toolbox, _RUN, caller, {"cmd": "exec sleep 100"}))
    process = await live_process(engine, caller)
    while not call.done():
        call.cancel()
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await engine.queries.wait(process)
    assert process.record.cause is Cause.CANCEL


async def _left_of_a_cancelled_call(
    toolbox: Toolbox, engine: Engine, caller: Caller, *, tool: str, turns: int
) -> list[Process]:
    """Cancel a call some turns of the loop after it began; return what it has started and lives."""
    call = asyncio.create_task(answer(toolbox, tool, caller, {"cmd": "exec sleep 100"}))
    for _ in range(turns):
        await asyncio.sleep(0)
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await call
    return [one for one in engine.queries.live() if one.record.owner.principal == caller.principal]


@pytest.mark.promise("S4.6")
@pytest.mark.parametrize("turns", range(6))
async def test_a_call_cancelled_while_it_starts_leaves_nothing(
    toolbox: Toolbox, engine: Engine, turns: int
) -> None:
    caller = a_caller()
    for process in await _left_of_a_cancelled_call(toolbox, engine, caller, tool=_RUN, turns=turns):
        async with asyncio.timeout(10):
            await engine.queries.wait(process)
        assert process.record.cause is Cause.CANCEL


@pytest.mark.promise("M.background")
@pytest.mark.parametrize("turns", range(6))
async def test_a_background_command_whose_call_is_cancelled_while_it_starts_is_not_ended(
    toolbox: Toolbox, engine: Engine, turns: int
) -> None:
    caller = a_caller()
    for process in await _left_of_a_cancelled_call(toolbox, engine, caller, tool=_START, turns=turns):
        assert process.record.cause is Cause.NONE
        assert process is await live_process(engine, caller)  # acknowledged, and still not asked to end
        assert process.record.cause is Cause.NONE
        await engine.controls.cancel(process)


@pytest.mark.promise("M.background")
async def test_a_background_command_outlives_its_cancelled_call(toolbox: Toolbox, engine: Engine) -> None:
    caller, told = a_caller(), _Told()
    call = asyncio.create_task(answer(toolbox, _START, caller, {"cmd": "echo hi; sleep 100"}, progress=told))
    await told.until("hi\n")
    process = await live_process(engine, caller)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not process.status.is_ended
    assert process.record.cause is Cause.NONE
    listed = await answer(toolbox, "list_processes", caller, {})
    assert str(process.record.pid) in listed.text
    await engine.controls.cancel(process)
