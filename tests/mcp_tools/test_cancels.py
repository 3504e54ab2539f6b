"""A call that is cancelled while its answer is made, and what a session is taken to have seen of it."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from outlive.config import Settings
from outlive.core.lifecycle import State
from outlive.engine import Engine, OutputLog
from outlive.engine.processes.process import until
from outlive.frontends.mcp.http.calls import Calls
from outlive.frontends.mcp.tools import Caller, Outcome, Toolbox, runner, waits
from outlive.frontends.mcp.tools.calls import CallStatus, Project, SessionMemory
from outlive.operations.tool_sets import ToolSet
from outlive.protocols.mcp import hosts
from tests.mcp_tools.calling import a_caller, answer, live_process, say, seen

_SOON_S = 10


@contextlib.contextmanager
def _cancelled_at_the_output(
    call: "asyncio.Task[Outcome]", monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Cancel a call when it reads its process's output, as it does when it makes its answer."""
    read, look = OutputLog.read, OutputLog.look

    def reading(log: OutputLog, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 -- as the method
        call.cancel()
        return read(log, *arguments, **named)

    def looking(log: OutputLog, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 -- as the method
        call.cancel()
        return look(log, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(OutputLog, "read", reading)
        patched.setattr(OutputLog, "look", looking)
        yield


_CALLS = (
    ("lean", "run", {"command": "echo up; exec sleep 300", "wait_s": 0.5}),
    ("documents", "command_execute", {"command": "echo up; exec sleep 300", "wait_s": 0.5}),
)


@pytest.mark.promise("S4.6", "S4.13.waits")
@pytest.mark.parametrize(("tools", "name", "arguments"), _CALLS)
@pytest.mark.parametrize("is_given_up", [False, True])
async def test_a_cancel_while_the_answer_is_made_does_what_it_does_while_the_call_waits(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    tools: ToolSet,
    name: str,
    arguments: dict[str, object],
    is_given_up: bool,
) -> None:
    """The time is up, the answer would have said "running", and no client gets it: nothing may run on
    unseen.
    """
    caller, status, toolbox = a_caller(), CallStatus(), Toolbox(engine, Settings(mcp_tools=tools))
    call = asyncio.create_task(toolbox.call(name, arguments, caller, status=status))
    async with asyncio.timeout(_SOON_S):
        process = await live_process(engine, caller)
        await seen(process, "up")
        status.is_given_up = is_given_up
        with _cancelled_at_the_output(call, monkeypatch), pytest.raises(asyncio.CancelledError):
            await call
        if is_given_up:
            assert process.status.state is State.RUNNING
            await engine.controls.cancel(process, grace_s=0)
        await until(process, lambda one: one.status.is_ended)


@pytest.mark.promise("S4.6")
async def test_a_cancel_in_the_moment_of_the_answer_ends_what_the_call_has_started(
    toolbox: Toolbox, engine: Engine
) -> None:
    """2026-07-28: the response stream is closed when the tool is done, and nothing was sent yet."""
    calls = Calls(toolbox)
    caller = replace(a_caller(), connection_id=None)
    arguments = {"command": "echo up; exec sleep 300", "wait_s": 0.3}
    call = asyncio.create_task(calls.call("run", arguments, caller, None, request=calls.expect(caller)))
    async with asyncio.timeout(_SOON_S):
        process = await live_process(engine, caller)
        (task,) = (one for one in asyncio.all_tasks() if one.get_name() == "tool call")
        # Called before the task that waits for it goes on.
        task.add_done_callback(lambda _: call.cancel())
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(process, lambda one: one.status.is_ended)
    await calls.close()


@pytest.mark.promise("S4.6")
async def test_what_runs_in_the_background_goes_on_when_its_call_is_cancelled(
    toolbox: Toolbox, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = a_caller()
    call = asyncio.create_task(
        toolbox.call("run", {"command": "echo up; exec sleep 300", "wait_s": 0}, caller)
    )
    async with asyncio.timeout(_SOON_S):
        with _cancelled_at_the_output(call, monkeypatch), pytest.raises(asyncio.CancelledError):
            await call
        process = await live_process(engine, caller)
    await seen(process, "up")
    assert process.status.state is State.RUNNING
    await engine.controls.cancel(process, grace_s=0)


@pytest.mark.promise("S4.13.shown")
async def test_hosts_without_mcp_sessions_have_each_seen_what_they_were_shown(toolbox: Toolbox) -> None:
    """2026-07-28 has no sessions: two hosts in one project differ in their relays."""
    caller = replace(a_caller(), connection_id=None)

    def host(relay: str) -> Caller:
        return replace(caller, project=Project(root="/", cwd="/", env={}, relay=relay))

    one, two = host("one"), host("two")
    assert (await say(toolbox, "run", one, command="echo once")).endswith("\nonce")
    assert (await say(toolbox, "read", one, id="p1")).endswith("shows it again]")
    assert (await say(toolbox, "read", two, id="p1")).endswith("\nonce")
    assert (await say(toolbox, "read", two, id="p1")).endswith("shows it again]")
    # A program without a relay is told apart by its name, as far as it says one.
    other = replace(caller, project=one.project, client="other")
    assert (await say(toolbox, "read", other, id="p1")).endswith("\nonce")


@pytest.mark.thorough
@pytest.mark.promise("S4.13.waits")
async def test_that_progress_keeps_a_host_waiting_is_learned_from_calls_that_reported_some(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token alone is no progress, and an answer that no client hears has kept none waiting."""
    monkeypatch.setattr(hosts, "COMMON_LIMITS_S", (0.2, 0.5))
    monkeypatch.setattr(hosts, "LIMIT_TOLERANCE_S", 0.1)
    monkeypatch.setattr(waits, "_MOST_WAIT_S", 0.2)
    monkeypatch.setattr(runner, "_HEARTBEAT_S", 0.05)
    toolbox = Toolbox(engine, Settings())
    calls = Calls(toolbox)
    texts: list[str] = []

    async def hear(text: str) -> None:
        texts.append(text)

    async def is_patient(caller: Caller) -> bool:
        text = (
            await answer(toolbox, "run", caller, {"command": "sleep 0.6; echo whole"}, progress=hear)
        ).text
        return text == "[exit 0]\nwhole"

    async def call(caller: Caller, name: str, **arguments: object) -> None:
        async with asyncio.timeout(_SOON_S):
            with contextlib.closing(calls.expect(caller)) as request:
                await calls.call(name, arguments, caller, hear, request=request)

    caller = replace(a_caller(), client="unheard-of")
    await call(
        caller, "execute_linux_shell_command", cmd="sleep 0.3"
    )  # some hosts have that limit, others a longer one
    assert not await is_patient(caller)
    stubborn = "trap '' TERM; echo up; sleep 300"
    await say(toolbox, "run", caller, command=stubborn, wait_for="up", wait_s=0.1)
    texts.clear()
    await call(caller, "stop", ids=["p3"], grace=0.7)
    assert not texts
    assert not await is_patient(caller)
    await call(caller, "execute_linux_shell_command", cmd="sleep 0.8")
    assert await is_patient(caller)
    assert not await is_patient(replace(caller, client="another"))
    await calls.close()


@pytest.mark.promise("S4.13.waits")
def test_of_many_clients_those_that_come_again_are_known_to_wait() -> None:
    """A name is its client's claim, and every claim takes room."""
    memory, caller = SessionMemory(), a_caller()
    for number in range(5000):
        memory.note_patience(replace(caller, client=f"client {number}"))
        assert memory.is_patient(replace(caller, client="client 0"))
    assert memory.is_patient(replace(caller, client="client 4999"))
    assert not memory.is_patient(replace(caller, client="client 1"))
