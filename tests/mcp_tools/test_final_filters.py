"""What the agents' tools say of a line that ends in a filter: the exit code before it, how to read the rest,
or a hint.
"""

from collections.abc import AsyncIterator

import pytest

from outlive.config import Settings
from outlive.engine import Engine
from outlive.frontends.mcp.tools import Toolbox
from tests.engine.engines import an_engine
from tests.keeper.house import House, shim_program
from tests.mcp_tools.calling import a_caller, say

_FAILS = "bash -c 'seq 5000; echo error: no such thing; seq 900; exit 2' | tail -2"
_HINT = "`| tail -2` hides the exit code and the rest of the output before it: leave it out"


@pytest.fixture
async def keeping(shared_house: House) -> AsyncIterator[Engine]:
    """An engine that has the native program."""
    async with an_engine(shared_house.state_dir, runner=shim_program()) as opened:
        yield opened


def _toolbox(engine: Engine) -> Toolbox:
    return Toolbox(engine, Settings(mcp_tools="lean"))


@pytest.mark.thorough
@pytest.mark.promise("S4.13.filters")
async def test_what_is_read_of_a_filters_input_has_the_exit_code_before_it(keeping: Engine) -> None:
    """A model that reads the input of `tail` sees a failed build: `exit 0` above it would say the
    opposite.
    """
    toolbox, caller = _toolbox(keeping), a_caller()
    first = await say(toolbox, "run", caller, command=_FAILS)
    assert first.startswith("[p1 exit 0, but exit 2 before the last |, all ")
    looks: list[dict[str, object]] = [{}, {"grep": "error"}, {"tail": 3}]
    for look in looks:
        text = await say(toolbox, "read", caller, id="p1", unfiltered=True, **look)
        assert ("error: no such thing" in text) == (look != {"tail": 3})
        assert text.splitlines()[0] in {"[exit 2 before the last |]", "[p1 exit 2 before the last |]"}, text


@pytest.mark.promise("S4.13.filters")
@pytest.mark.parametrize(
    "options",
    [{"pty": True}, {"workspace": "w"}, {"command": "for i in 1 2 3; do echo $i; done | tail -2"}],
    ids=["pty", "workspace", "a line that is not certain"],
)
async def test_where_nothing_can_be_kept_a_hint_says_what_the_filter_hides(
    keeping: Engine, options: dict[str, object]
) -> None:
    toolbox, caller = _toolbox(keeping), a_caller()
    text = await say(toolbox, "run", caller, **{"command": "seq 3 | tail -2", **options})
    lines = text.splitlines()
    assert lines[1:3] == ["2", "3"]
    assert lines[-1].startswith(f"[{_HINT}")
    # It is said with the end, not with every look at it.
    assert "hides" not in await say(toolbox, "read", caller, id="p1")
    assert "hides" not in await say(toolbox, "run", caller, command="seq 3 | tail -2")


@pytest.mark.promise("S4.13.filters")
async def test_of_a_success_that_shows_something_a_filter_hides_nothing_worth_a_word(
    keeping: Engine,
) -> None:
    toolbox, caller = _toolbox(keeping), a_caller()
    assert await say(toolbox, "run", caller, command="seq 300 | tail -1") == "[exit 0]\n300"
    text = await say(toolbox, "run", caller, command="seq 300 | grep nothing")
    assert "bytes before it: read(" in text
