"""What the lean tools say of a wait: what it was for and did not come, what came, and what to do when nothing
is new.
"""

import asyncio
import re
import socket
from dataclasses import replace

import pytest

from outlive.frontends.mcp.tools import Toolbox
from tests.mcp_tools.calling import a_caller, say, short_id
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
    assert re.fullmatch(r"\[p1 running, [^,]+\]\nready", await call)
    await say(toolbox, "stop", caller, ids=["p1"])


@pytest.mark.promise("S4.13.waits")
async def test_no_news_sends_away_for_longer_and_names_what_wakes_the_host(toolbox: Toolbox) -> None:
    """The way to be woken is what ends the asking: it must not be lost where the asking has begun."""
    caller = replace(a_caller(), client="claude-code")
    await say(toolbox, "run", caller, command="sleep 300", wait_s=0)
    texts = [await say(toolbox, "wait", caller, ids=["p1"], wait_s=0.01) for _ in range(3)]
    for text, minutes in zip(texts, (1, 2, 4), strict=True):
        assert f"check again in {minutes} min" in text
    assert all("run `outlive wait " in text for text in texts)
    await say(toolbox, "stop", caller, ids=["p1"])
