"""Terminals on a node: the same seven calls, and a shell that stays there."""

import pytest

from tests.extensions.fleet.pairs import Pair
from tests.terminals.doors import Refused, caller_of

_FAR = "far"


@pytest.mark.parametrize("shell", [None, "bash"])
async def test_a_shell_on_a_node_keeps_its_state_and_tells_each_commands_end(
    pair: Pair, shell: str | None
) -> None:
    caller = caller_of("rest", pair.near)
    terminal = await caller.create(backend=_FAR, shell=shell, rows=10, cols=50)
    ended = await caller.run(terminal, "cd /tmp; WORD=kept\nfor i in 1 2; do\n echo $i\ndone")
    assert (ended["output"], ended["exit_code"]) == ("1\n2\n", 0)
    ended = await caller.run(terminal, "echo $WORD $PWD; stty size; (exit 7)")
    assert (ended["output"], ended["exit_code"]) == ("kept /tmp\n10 50\n", 7)
    await caller.call("resize", terminal_id=terminal, rows=20, cols=70)
    assert (await caller.run(terminal, "stty size"))["output"] == "20 70\n"
    assert "kept /tmp" in (await caller.call("read", terminal_id=terminal, form="clean"))["text"]
    await caller.call("close", terminal_id=terminal)


async def test_a_question_is_answered_by_writing(pair: Pair) -> None:
    caller = caller_of("jsonrpc", pair.near)
    terminal = await caller.create(backend=_FAR)
    asked = await caller.run(terminal, "read word; echo got $word", wait_s=1)
    assert not asked["is_complete"]
    await caller.call("write", terminal_id=terminal, text="this\n")
    await caller.ready(terminal)
    assert "got this" in (await caller.call("read", terminal_id=terminal))["text"]
    await caller.call("close", terminal_id=terminal)


async def test_a_shell_that_the_node_does_not_have_is_refused(pair: Pair) -> None:
    caller = caller_of("rest", pair.near)
    with pytest.raises(Refused, match="not_found"):
        await caller.call("create", backend=_FAR, shell="/nowhere/shell")  # noqa: S604 - a parameter's name
    with pytest.raises(Refused, match="backend"):
        await caller.create(backend="nowhere")
