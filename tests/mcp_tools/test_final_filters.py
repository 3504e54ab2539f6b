"""What the agents' tools say of a line that ends in a filter: the exit code before it, how to read the rest, or a hint."""

from collections.abc import AsyncIterator

import pytest

from outlive.engine import Engine
from outlive.frontends.mcp.tools import Toolbox, ToolSettings
from outlive.operations.tool_sets import ToolSet
from tests.engine.engines import an_engine
from tests.keeper.house import House, shim_program
from tests.mcp_tools.calling import a_caller, newest_process, say

pytestmark = pytest.mark.skipif(shim_program() == "off", reason="no compiler makes the native program here")

_FAILS = "bash -c 'seq 5000; echo error: no such thing; seq 900; exit 2' | tail -2"
_HINT = "`| tail -2` hides the exit code and the rest of the output before it: leave it out"


@pytest.fixture
async def keeping(shared_house: House) -> AsyncIterator[Engine]:
    """An engine that has the native program."""
    async with an_engine(shared_house.state_dir, runner=shim_program()) as opened:
        yield opened


def _toolbox(engine: Engine, tools: ToolSet) -> Toolbox:
    return Toolbox(engine, ToolSettings(mcp_tools=tools))


@pytest.mark.thorough
@pytest.mark.promise("S4.13.filters")
async def test_what_is_read_of_a_filters_input_has_the_exit_code_before_it(keeping: Engine) -> None:
    """A model that reads the input of `tail` sees a failed build: `exit 0` above it would say the opposite."""
    toolbox, caller = _toolbox(keeping, "lean"), a_caller()
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
    toolbox, caller = _toolbox(keeping, "lean"), a_caller()
    text = await say(toolbox, "run", caller, **{"command": "seq 3 | tail -2", **options})
    lines = text.splitlines()
    assert lines[1:3] == ["2", "3"]
    assert lines[-1].startswith(f"[{_HINT}")
    # It is said with the end, not with every look at it.
    assert "hides" not in await say(toolbox, "read", caller, id="p1")
    assert "hides" not in await say(toolbox, "run", caller, command="seq 3 | tail -2")


@pytest.mark.promise("S4.13.filters", "S4.13.shells")
async def test_bash_names_the_failure_before_a_filter_and_the_search_that_finds_it(keeping: Engine) -> None:
    toolbox, caller = _toolbox(keeping, "claude"), a_caller()
    text = await say(toolbox, "Bash", caller, command=_FAILS)
    first, *shown = text.splitlines()
    assert shown == ["899", "900"]
    assert first.startswith("Exit code 0, but exit 2 before the last |, all ")
    assert first.endswith(' bytes before it: BashOutput(bash_id="p1", filter="REGEX")')
    # All of the output is shown: the search is for what the filter has left out.
    assert "error: no such thing" in await say(toolbox, "BashOutput", caller, bash_id="p1", filter="error")
    assert await say(toolbox, "Bash", caller, command="seq 9 | tail -2") == "8\n9"
    await say(toolbox, "Bash", caller, command=_FAILS, run_in_background=True)
    process = await newest_process(keeping, caller)
    await keeping.queries.wait(process)
    text = await say(toolbox, "BashOutput", caller, bash_id="p3")
    assert "<exit_code>0, but exit 2 before the last |, all " in text


@pytest.mark.promise("S4.13.filters", "S4.13.shells")
async def test_bash_hints_at_a_filter_where_its_folder_may_change(keeping: Engine) -> None:
    toolbox, caller = _toolbox(keeping, "claude"), a_caller()
    text = await say(toolbox, "Bash", caller, command="cd / && seq 3 | tail -2")
    assert text.startswith(f"2\n3\n[{_HINT}")
    assert "hides" not in await say(toolbox, "BashOutput", caller, bash_id="p1")
    await say(toolbox, "Bash", caller, command="cd / && seq 3 | tail -2", run_in_background=True)
    await keeping.queries.wait(await newest_process(keeping, caller))
    assert _HINT in await say(toolbox, "BashOutput", caller, bash_id="p2")


@pytest.mark.promise("S4.13.filters", "S4.13.shells")
async def test_exec_command_names_the_failure_before_a_filter_or_hints_at_it(keeping: Engine) -> None:
    toolbox, caller = _toolbox(keeping, "codex"), a_caller()
    lines = (await say(toolbox, "exec_command", caller, cmd=_FAILS)).splitlines()
    assert lines[1:] == [
        "Process exited with code 0",
        "but exit 2 before the last |",
        "Output:",
        "899",
        "900",
    ]
    for more in ({"tty": True}, {"login": True}):
        text = await say(toolbox, "exec_command", caller, cmd="seq 3 | tail -2", **more)
        assert text.splitlines()[2].startswith(_HINT), text
    assert "hides" not in await say(toolbox, "write_stdin", caller, session_id=2, yield_time_ms=1)
