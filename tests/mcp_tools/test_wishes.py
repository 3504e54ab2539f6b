"""What the lean tools say of a wait: what it was for and did not come, what came, and what to do when nothing
is new.
"""

import asyncio
import os
import re
import shlex
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from outlive.config import Settings
from outlive.engine import Engine
from outlive.frontends.mcp.tools import Toolbox
from outlive.frontends.mcp.tools.calls import Project
from outlive.frontends.mcp.tools.lean_answers import runnable
from tests.mcp_tools.calling import a_caller, answer, say, short_id
from tests.support.processes import Gate


@pytest.mark.promise("S4.13.waits")
async def test_a_wish_that_did_not_come_true_is_named(toolbox: Toolbox) -> None:
    """`[exit 0]` alone reads as if the server had started."""
    caller = a_caller()
    text = await say(toolbox, "run", caller, command="echo up", wait_for="ready")
    assert text == "[exit 0, 'ready' did not come]\nup"
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        text = await say(toolbox, "run", caller, command="true", wait_for=f"port {port}")
        assert text == f"[exit 0, nothing listens on {port}]"
        listener.listen()  # as of a server that goes into the background
        text = await say(toolbox, "run", caller, command="true", wait_for=f"port {port}")
        assert "nothing listens" not in text
    text = await say(toolbox, "run", caller, command="sleep 300", wait_for="ready", wait_s=0.2)
    assert re.match(r"\[p\d running, [^,]+, 'ready' did not come yet\]\n", text)
    name = short_id(text)
    text = await say(toolbox, "wait", caller, ids=[name], wait_for=f"port {port}", wait_s=0.2)
    assert f"nothing listens on {port} yet]" in text
    await say(toolbox, "stop", caller, ids=[name])


@pytest.mark.promise("S4.13.waits")
async def test_a_wait_for_a_text_that_came_needs_no_second_one(toolbox: Toolbox, gate: Gate) -> None:
    caller = a_caller()
    await say(toolbox, "run", caller, command=f"{gate.wait}; echo ready; sleep 300", wait_s=0)
    call = asyncio.create_task(say(toolbox, "wait", caller, ids=["p1"], wait_for="ready"))
    gate.open()
    assert re.fullmatch(r"\[p1 running, [^,]+, 'ready' came\]\nready", await call)
    await say(toolbox, "stop", caller, ids=["p1"])


@pytest.mark.promise("S4.13.waits")
async def test_no_news_sends_away_for_longer_and_names_what_wakes_the_host(toolbox: Toolbox) -> None:
    """The way to be woken is what ends the asking: it must not be lost where the asking has begun."""
    caller = replace(a_caller(), client="claude-code")
    await say(toolbox, "run", caller, command="sleep 300", wait_s=0)
    texts = [await say(toolbox, "wait", caller, ids=["p1"], wait_s=0.01) for _ in range(3)]
    for text, minutes in zip(texts, (1, 2, 4), strict=True):
        assert f"check again in {minutes} min" in text
    assert all(re.search(r"run `\S*outlive wait ", text) for text in texts)
    await say(toolbox, "stop", caller, ids=["p1"])


@pytest.mark.promise("S4.13.waits")
async def test_of_several_wishes_the_header_says_which_came(toolbox: Toolbox) -> None:
    caller = a_caller()
    wishes = ["ready", "error", "port 1"]
    line = "echo address already in use; echo 'Error: no'; sleep 300"
    text = await say(toolbox, "run", caller, command=line, wait_for=wishes)
    assert re.match(r"\[p1 running, [^,]+, 'error' came\]\n", text)
    text = await say(toolbox, "wait", caller, ids=["p1"], wait_for=wishes, wait_s=0.2)
    assert "'ready' or 'error' did not come yet, nothing listens on 1 yet]" in text
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        text = await say(toolbox, "wait", caller, ids=["p1"], wait_for=["ready", f":{port}"])
    assert f", port {port} is open]" in text
    await say(toolbox, "stop", caller, ids=["p1"])


@pytest.mark.promise("S4.13.waits")
async def test_a_text_in_two_pieces_is_found_and_a_word_in_two_pieces_is_one(
    toolbox: Toolbox, gate: Gate
) -> None:
    """However the keeper's reads cut them, and behind a flood."""
    caller = a_caller()
    line = f"seq 20000; printf al; {gate.wait}; echo ready; printf re; sleep 0.2; echo ady at last; sleep 300"
    await say(toolbox, "run", caller, command=line, wait_for={"idle_s": 0.1})
    call = asyncio.create_task(say(toolbox, "run", caller, command=line, wait_for="ready"))
    gate.open()
    assert "ready at last" in await call
    await say(toolbox, "stop", caller, ids=["p1", "p2"])


async def _no_progress(_text: str) -> None:
    """Take what would be shown to a person."""


@pytest.mark.promise("S4.13.waits")
async def test_a_wish_waits_no_longer_than_the_setting_at_a_host_that_waits_for_ever(engine: Engine) -> None:
    """What never comes would hold a call of Claude Code for 25 minutes."""
    toolbox = Toolbox(engine, Settings(wait_s=0.2))
    caller = replace(a_caller(), client="claude-code")
    asked: dict[str, object] = {"command": "echo up; sleep 300", "wait_for": "ready"}
    outcome = await answer(toolbox, "run", caller, asked, progress=_no_progress)
    assert "'ready' did not come yet]\nup" in outcome.text
    asked = {"ids": ["p1"], "wait_for": "ready"}
    outcome = await answer(toolbox, "wait", caller, asked, progress=_no_progress)
    assert "'ready' did not come yet]" in outcome.text
    await say(toolbox, "stop", caller, ids=["p1"])


_FAILED_START = (
    "echo 'Error: listen EADDRINUSE: address in use :::3000'; echo waiting for changes; exec sleep 300"
)


@pytest.mark.promise("S4.13.waits")
@pytest.mark.parametrize(
    "wish", [{"wait_for": "ready", "wait_s": 25}, {"wait_for": "port 1", "wait_s": 25}, {}]
)
async def test_a_start_that_fails_and_goes_on_watching_is_answered_about(
    toolbox: Toolbox, wish: dict[str, object]
) -> None:
    caller = a_caller()
    async with asyncio.timeout(20):
        text = await say(toolbox, "run", caller, command=_FAILED_START, **wish)
    assert re.match(r"\[p1 running, .*it has reported an error and fell silent\]\nError: listen", text)
    assert 'wait(ids=["p1"])' in text
    # It was said: what is waited for next is something new.
    text = await say(toolbox, "wait", caller, ids=["p1"], wait_for="ready", wait_s=4)
    assert "'ready' did not come yet]" in text
    await say(toolbox, "stop", caller, ids=["p1"])


@pytest.mark.promise("S4.13.waits")
async def test_a_tree_that_works_in_silence_after_an_error_is_waited_for(toolbox: Toolbox) -> None:
    caller = a_caller()
    line = (
        "echo 'error: optional module missing'; timeout 5 sh -c 'while :; do :; done'; echo ready; sleep 300"
    )
    text = await say(toolbox, "run", caller, command=line, wait_for="ready", wait_s=25)
    assert text.splitlines()[-1] == "ready"
    await say(toolbox, "stop", caller, ids=["p1"])


@pytest.mark.promise("S4.13.words")
@pytest.mark.parametrize("has_path", [True, False])
async def test_a_program_that_an_answer_names_is_one_that_the_host_can_run(
    toolbox: Toolbox, tmp_path: Path, *, has_path: bool
) -> None:
    """After an installation into a venv the name alone ends in 127."""
    (tmp_path / "outlive").write_text("#!/bin/sh\n")
    (tmp_path / "outlive").chmod(0o700)
    path = f"/usr/bin:/bin{f':{tmp_path}' if has_path else ''}"
    project = Project(root="/", cwd="/", env={"PATH": path})
    caller = replace(a_caller(), client="claude-code", project=project)
    text = await say(toolbox, "run", caller, command="sleep 300", wait_s=0.1)
    found = re.search(r"run `(.*) wait \w+` as a background", text)
    assert found is not None
    program = shlex.split(found[1])[0]
    assert program == "outlive" if has_path else os.access(program, os.X_OK)
    # So do hints, and what a person has to do.
    assert await runnable(caller, "`outlive policy check` tells: outlive approve x") == (
        f"`{found[1]} policy check` tells: {found[1]} approve x"
    )
    assert await runnable(caller, "outlive needs Linux.") == "outlive needs Linux."
    await say(toolbox, "stop", caller, ids=["p1"])
