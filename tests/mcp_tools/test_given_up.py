"""Calls of the lean tools that a host gives up or cancels: what goes on, what ends, and what counts as
shown.
"""

import asyncio
import gc
import re
import weakref
from contextlib import closing
from dataclasses import replace

import pytest

from outlive.core.lifecycle import State
from outlive.engine import Engine
from outlive.engine.processes.process import until
from outlive.frontends.mcp.http.calls import Calls
from outlive.frontends.mcp.tools import Toolbox
from outlive.frontends.mcp.tools.calls import CallStatus
from tests.mcp_tools.calling import a_caller, live_process, say, seen

_SOON_S = 10  # a third of what the calls below ask to wait: what takes longer was not answered early


@pytest.mark.promise("S4.13.waits")
async def test_what_a_hosts_time_limit_gives_up_goes_on_and_says_so(toolbox: Toolbox, engine: Engine) -> None:
    """Impatience is no cancel; a cancel is (S4.6)."""
    caller = a_caller()

    async def cancelled(*, has_given_up: bool) -> None:
        work = toolbox.call(
            "run",
            {"command": "echo up; sleep 300"},
            caller,
            status=CallStatus(is_given_up=has_given_up),
        )
        call = asyncio.create_task(work)
        await seen(await live_process(engine, caller), "up")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    async with asyncio.timeout(_SOON_S):
        await cancelled(has_given_up=True)
    text = await say(toolbox, "wait", caller, ids=["p1"], wait_s=0)
    assert re.match(r"\[p1 running, [^\]]*the host gave up waiting, and it went on\]\nup", text), text
    assert "gave up" not in await say(toolbox, "wait", caller, ids=["p1"], wait_s=0)
    await say(toolbox, "stop", caller, ids=["p1"])
    caller = a_caller()
    async with asyncio.timeout(_SOON_S):
        await cancelled(has_given_up=False)
    assert (await say(toolbox, "wait", caller, ids=["p1"], wait_s=5)).startswith("[p1 the user cancelled")


@pytest.mark.promise("S4.13.shown")
async def test_what_an_answer_that_reaches_no_client_would_have_shown_is_shown_by_the_next(
    toolbox: Toolbox,
) -> None:
    """A client that has cancelled a call, or has left, reads no answer to it."""
    caller = a_caller()
    async with asyncio.timeout(_SOON_S):
        outcome = await toolbox.call(
            "run", {"command": "echo o$((1))e"}, caller, status=CallStatus(has_left=True)
        )
    assert outcome.text == "[exit 0]\no1e"
    assert (await say(toolbox, "read", caller, id="p1")).endswith("o1e")
    assert (await say(toolbox, "read", caller, id="p1")).endswith("shows it again]")


@pytest.mark.promise("S4.13.shown")
async def test_a_read_further_on_hides_nothing_that_lies_before_it(toolbox: Toolbox) -> None:
    caller = a_caller()
    await say(toolbox, "run", caller, command="echo first; echo second", wait_s=0)
    await say(toolbox, "wait", caller, ids=["p1"], wait_s=5, budget=100)
    caller = replace(caller, connection_id="another session")
    assert (await say(toolbox, "read", caller, id="p1", cursor="6.0")).endswith("\nsecond")
    assert (await say(toolbox, "read", caller, id="p1")).endswith("\nfirst\nsecond")


@pytest.mark.promise("S4.13.waits")
async def test_a_time_limit_that_is_told_twice_or_late_ends_nothing(toolbox: Toolbox, engine: Engine) -> None:
    """A relay repeats a cancel until it has the answer, and a host's notice may cross the answer on its
    way.
    """
    calls = Calls(toolbox)
    for number, is_late in enumerate((False, True)):
        caller = replace(a_caller(), request_id=f"{number}")
        arguments = {"command": "echo up; sleep 300", "wait_s": 0.2 if is_late else 45}
        call = asyncio.create_task(calls.call("run", arguments, caller, None, request=calls.expect(caller)))
        async with asyncio.timeout(_SOON_S):
            process = await live_process(engine, caller)
            await seen(process, "up")
            if is_late:
                await call
            for _ in range(2):
                await calls.cancel(caller, reason="Request timed out")
                await call
            assert process.status.state is State.RUNNING
            if is_late:  # a person's cancel ends what an answered call has left running (S4.6)
                await calls.cancel(caller, reason="")
                await until(process, lambda one: one.status.is_ended)
            else:
                await engine.controls.cancel(process, grace_s=0)
    await calls.close()


async def test_the_answer_of_a_call_that_is_over_is_not_kept(toolbox: Toolbox) -> None:
    """A late cancel has to find what became of the call, not the text that was sent."""
    calls, caller = Calls(toolbox), a_caller()
    with closing(calls.expect(caller)) as request:
        await calls.call("run", {"command": "true"}, caller, None, request=request)
    assert request.task is not None
    task = weakref.ref(request.task)
    del request
    gc.collect()
    assert task() is None
    await calls.close()
