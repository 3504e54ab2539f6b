"""What an answer of the lean tools says once, to a model that has not seen what led there."""

import asyncio

import pytest

from outlive.engine import Engine
from outlive.frontends.mcp.tools import Toolbox, lean_answers
from tests.mcp_tools.calling import a_caller, answer, live_process, newest_process, say


@pytest.mark.promise("S4.13.answers")
async def test_an_answer_after_a_long_time_stands_alone(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call is far away by then, or no longer in the conversation."""
    monkeypatch.setattr(lean_answers, "_ALONE_S", 0.05)
    caller = a_caller()
    text = await say(toolbox, "run", caller, command="sleep 0.3; echo done")
    assert text == "[p1 exit 0, after 0.3 s, 'sleep 0.3; echo done']\ndone"


@pytest.mark.promise("S4.13.answers")
async def test_a_person_s_esc_is_told_as_the_user_s(toolbox: Toolbox, engine: Engine) -> None:
    caller = a_caller()
    call = asyncio.create_task(answer(toolbox, "run", caller, {"command": "exec sleep 300"}))
    process = await live_process(engine, caller)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await engine.queries.wait(process)
    assert (await say(toolbox, "wait", caller, ids=["p1"])).startswith("[p1 the user cancelled]")


@pytest.mark.promise("S4.13.keys")
async def test_the_key_of_a_failed_run_says_how_to_run_it_again(toolbox: Toolbox) -> None:
    caller = a_caller()
    await say(toolbox, "run", caller, command="exit 3", key="k")
    text = await say(toolbox, "run", caller, command="exit 3", key="k")
    assert text.endswith(" ago with this key, not again (another key runs it again)]")


@pytest.mark.promise("S4.13.waits")
async def test_a_paused_process_says_so_in_a_wait(toolbox: Toolbox) -> None:
    caller = a_caller()
    await say(toolbox, "run", caller, command="exec sleep 300", wait_s=0)
    assert "it was not paused" in await say(toolbox, "control", caller, id="p1", action="resume")
    assert await say(toolbox, "control", caller, id="p1", action="pause") == "[p1 paused]"
    text = await say(toolbox, "wait", caller, ids=["p1"], wait_s=25)
    assert text == '[p1 paused]\n[it is paused: control(id="p1", action="resume") lets it go on]'
    assert (
        await say(toolbox, "control", caller, id="p1", action="pause") == "[p1 paused, it was paused already]"
    )
    assert "not paused" not in await say(toolbox, "control", caller, id="p1", action="resume")
    await say(toolbox, "stop", caller, ids=["p1"])


@pytest.mark.promise("S4.13.answers")
async def test_what_failed_for_want_of_a_terminal_names_pty(toolbox: Toolbox) -> None:
    caller = a_caller()
    text = await say(toolbox, "run", caller, command="exec 3</dev/tty && echo has one")
    assert text.endswith("\n[it looked for a terminal: run again with pty=true]")
    text = await say(toolbox, "run", caller, command="exec 3</dev/tty; echo has one", pty=True)
    assert text == "[exit 0]\nhas one"
    assert "pty" not in await say(toolbox, "run", caller, command="echo not a tty")


@pytest.mark.promise("S4.13.answers")
async def test_the_first_cd_of_a_session_says_that_it_does_not_last(toolbox: Toolbox) -> None:
    caller = a_caller()
    assert "workspace" not in await say(toolbox, "run", caller, command="cd /tmp && true")
    text = await say(toolbox, "run", caller, command="cd /tmp")
    assert text.splitlines()[1].startswith("[cd does not last: pass cwd=")
    assert await say(toolbox, "run", caller, command="cd /tmp") == "[exit 0]"
    assert "last" not in await say(toolbox, "run", a_caller(), command="cd /tmp", workspace="w")


@pytest.mark.promise("S4.13.plain")
async def test_an_empty_screen_is_nothing(toolbox: Toolbox, engine: Engine) -> None:
    caller = a_caller()
    line = "printf '\\033[?1049h\\033[2J\\r\\n\\r\\n\\r\\n'; exec sleep 300"
    text = await say(toolbox, "run", caller, command=line, pty=True, wait_for={"idle_s": 0.2})
    assert "\n\n" not in text
    assert (await newest_process(engine, caller)).log.end.stdout > 0
    await say(toolbox, "stop", caller, ids=["p1"])
