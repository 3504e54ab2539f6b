"""docs/mcp.md names every tool with every argument, and the keys of a result.

Its transcript is what a host really gets.
"""

import ast
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from outlive.frontends.mcp.tools.table import (
    COMMAND_TOOLS,
    LEAN_TOOLS,
    PROCESS_TOOLS,
    TERMINAL_TOOLS,
    TOOL_SETS,
    Tool,
)
from tests.cli.launching import run
from tests.docs.pages import blocks, generated, page, section, table_rows, words
from tests.docs.tables import MCP_PAGE, mcp_parts
from tests.mcp_stdio.hosting import hosting
from tests.mcp_tools.calling import KEYS
from tests.support.server import OutliveServer

_PAGE = page(MCP_PAGE)


def _arguments(tool: Tool) -> set[str]:
    """Return all that a tool takes; of the lean tools, schemas show a part only."""
    return {field.encode_name for field in msgspec.structs.fields(tool.arguments)}


@pytest.mark.parametrize(
    ("heading", "tools"),
    [
        ("## The lean tools", LEAN_TOOLS),
        ("## The command tools", COMMAND_TOOLS),
        ("## The process tools", PROCESS_TOOLS),
        ("## The terminal tools", TERMINAL_TOOLS),
    ],
)
def test_every_tool_and_argument_is_described(heading: str, tools: tuple[Tool, ...]) -> None:
    rows = table_rows(section(_PAGE, heading), "tool")
    described = {words(row[0])[0]: set(words(row[1])) for row in rows}
    assert described == {tool.name: _arguments(tool) for tool in tools}


def test_every_tool_set_is_described() -> None:
    rows = list(table_rows(section(_PAGE, "## Choosing the tools"), "set"))
    assert {words(row[0])[0] for row in rows} == set(TOOL_SETS)
    (row,) = (row for row in rows if words(row[0]) == ["lean"])
    assert words(row[2]) == [tool.name for tool in LEAN_TOOLS]


_MAKEFILE = """all:
\t@for i in $$(seq 3000); do echo cc -c file$$i.c; done
\t@echo 'main.c:12:5: error: unknown type name foo'
\t@for i in $$(seq 3000); do echo cc -c test$$i.c; done; exit 2
"""
_VARYING = re.compile(r"(?<=running, )[\d.]+ s|(?<=listens on )\d+|(?<=port )\d+|(?<=127\.0\.0\.1:)\d+")


def _transcript() -> Iterator[tuple[str, dict[str, object], str]]:
    """Yield (tool, arguments, answer) for each call of the page's transcript."""
    (block,) = blocks(_PAGE, "transcript")
    for part in ("\n" + block).split("\n> ")[1:]:
        typed, _, answer = part.partition("\n")
        call = ast.parse(typed, mode="eval").body
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Name)
        arguments = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        yield call.func.id, arguments, answer


def _comparable(answer: str) -> str:
    """Return an answer without times and ports, and without blanks at the ends of lines, which no page
    keeps.
    """
    return _VARYING.sub("N", "\n".join(line.rstrip() for line in answer.strip().splitlines()))


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")
def test_the_transcript_is_what_a_host_gets(server: OutliveServer, tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(_MAKEFILE)
    env = {"MAKEFLAGS": "", "MAKELEVEL": "", "LC_ALL": "C.UTF-8"}
    with hosting(server.state_dir, env, folder=tmp_path, options=("--mcp-tools", "lean")) as host:
        host.begin()
        calls = list(_transcript())
        assert len(calls) == 5
        for tool, arguments, answer in calls:
            assert _comparable(host.ask(tool, **arguments)) == _comparable(answer), tool


def test_every_key_of_a_result_is_described() -> None:
    """S1.2."""
    rows = table_rows(section(_PAGE, "## The command tools"), "key")
    where_it_applies = ["running", "reachable", "output_lost"]
    assert [name for row in rows for name in words(row[0])] == [*KEYS, *where_it_applies]


def test_the_hosts_configuration_names_a_verb_that_is_there() -> None:
    shown = re.search(r"```json\n(.*?)```", section(_PAGE, "## Standard input and output"), re.DOTALL)
    assert shown is not None
    program = json.loads(shown[1])["mcpServers"]["outlive"]
    assert program["command"] == "outlive"
    assert run(*program["args"], "--help").returncode == 0


@pytest.mark.parametrize("name", sorted(mcp_parts()))
def test_generated_tables_are_up_to_date(name: str) -> None:
    """The table of hosts is made from `protocols/mcp/hosts`."""
    assert generated(_PAGE, name) == mcp_parts()[name], "run `python -m tests.docs.tables`"
