"""What makes such tools hang or lose output elsewhere: floods, daemons, readers without input, scripts of
megabytes.
"""

import asyncio
import re

import pytest

from outlive.engine import Engine
from outlive.frontends.mcp.tools import Outcome, Toolbox
from tests.engine.engines import output_of
from tests.mcp_tools.calling import a_caller, answer, ask, newest_process
from tests.support.processes import Marker, wait_dead, wait_for

# The three ways to run a line and wait for it.
_TOOLS = pytest.mark.parametrize(
    ("name", "argument"),
    [("execute_linux_shell_command", "cmd"), ("command_execute", "command"), ("run", "command")],
)


def _numbers(count: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(1, count + 1))


@pytest.mark.promise("S1.9", "W.wait-tools")
async def test_a_command_that_is_too_slow_is_ended_and_keeps_what_it_said(
    toolbox: Toolbox, marker: Marker
) -> None:
    grace_s = 5
    async with asyncio.timeout(1 + grace_s):
        result = await ask(
            toolbox,
            "command_execute",
            a_caller(),
            command=f"echo hi; {marker.sleep}",
            timeout=1,
            grace=grace_s,
        )
    assert (result["stdout"], result["error"]) == ("hi\n", "Command timed out after 1 seconds")
    assert (result["completed"], result["success"], result["return_code"]) == (False, False, -15)
    assert marker.pids() == []


@_TOOLS
@pytest.mark.promise("S1.2", "S4.2", "S4.13")
async def test_thirty_thousand_lines_of_stderr_block_nobody(
    toolbox: Toolbox, engine: Engine, name: str, argument: str
) -> None:
    """More than a pipe holds, while nothing comes on stdout."""
    caller = a_caller()
    asked = {} if name == "run" else {"max_output": 1 << 20}
    outcome = await answer(toolbox, name, caller, {argument: "seq 30000 >&2; echo end", **asked})
    assert not outcome.is_error
    assert await output_of(await newest_process(engine, caller)) == (b"end\n", _numbers(30000))
    if name == "execute_linux_shell_command":
        assert outcome.text == f"end\n\nSTDERR:\n{_numbers(30000).decode().rstrip()}"


@_TOOLS
@pytest.mark.promise("S1.8.output", "S4.2", "S4.13.answers")
async def test_a_hundred_megabytes_are_kept_and_shown_by_their_ends(
    toolbox: Toolbox, engine: Engine, name: str, argument: str
) -> None:
    caller = a_caller()
    line = "echo first; yes 0123456789abcde | head -c 104857600; echo last"
    asked = {} if name == "run" else {"max_output": 1 << 20}
    outcome = await answer(toolbox, name, caller, {argument: line, **asked})
    process = await newest_process(engine, caller)
    assert (process.record.exit_code, process.log.size(0)) == (0, 104857600 + 11)
    assert len(outcome.text) < 3 * 1024 * 1024
    assert "omitted" in outcome.text
    assert "first" in outcome.text[:2000]
    assert "last" in outcome.text[-2000:]
    assert process.log.pread(0, 22, 0) == b"first\n0123456789abcde\n"
    assert process.log.pread(0, 21, 104857600 - 10) == b"0123456789abcde\nlast\n"


def _says(outcome: Outcome, word: str) -> bool:
    return re.search(rf"(^|\n|\"stdout\":\"){word}", outcome.text) is not None


@_TOOLS
@pytest.mark.promise("S1.10", "S4.2", "S4.13")
async def test_a_daemon_that_holds_the_pipe_holds_no_call(
    toolbox: Toolbox, engine: Engine, marker: Marker, name: str, argument: str
) -> None:
    caller = a_caller()
    line = f"{marker.sleep} & echo started"
    outcome = await answer(toolbox, name, caller, {argument: line})
    assert not outcome.is_error
    assert _says(outcome, "started")
    pids = await wait_for(marker, 1)
    await answer(
        toolbox, "terminate_process", caller, {"pid": (await newest_process(engine, caller)).record.pid}
    )
    await wait_dead(*pids)


@_TOOLS
@pytest.mark.promise("S4.2", "S4.13")
async def test_a_reader_without_input_reads_its_end(
    toolbox: Toolbox, engine: Engine, name: str, argument: str
) -> None:
    caller = a_caller()
    outcome = await answer(toolbox, name, caller, {argument: "cat; echo end"})
    assert not outcome.is_error
    assert _says(outcome, "end")
    assert (await newest_process(engine, caller)).record.exit_code == 0


@pytest.mark.thorough
@pytest.mark.promise("S1.4", "S4.13")
async def test_a_script_of_three_megabytes_runs_whole(toolbox: Toolbox) -> None:
    script = "".join(f": line {number:060d}\n" for number in range(45_000)) + "echo whole; exit 7\n"
    assert len(script) > 3_000_000
    result = await ask(toolbox, "command_execute_script", a_caller(), script_content=script)
    assert (result["return_code"], result["stdout"]) == (7, "whole\n")
    outcome = await answer(toolbox, "run", a_caller(), {"script": script})
    assert outcome.text == "[exit 7]\nwhole"
    outcome = await answer(toolbox, "run", a_caller(), {"command": script})
    assert outcome.text == "[exit 7]\nwhole"
