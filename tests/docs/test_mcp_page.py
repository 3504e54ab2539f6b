"""docs/mcp.md names every tool with every argument, and the keys of a result."""

import json
import re

import pytest

from outlive.frontends.mcp.tools.table import COMMAND_TOOLS, LEAN_TOOLS, PROCESS_TOOLS, TERMINAL_TOOLS, Tool
from tests.cli.launching import run
from tests.docs.pages import generated, page, section, table_rows, words
from tests.docs.tables import MCP_PAGE, mcp_parts
from tests.mcp_tools.calling import KEYS

_PAGE = page(MCP_PAGE)


def _arguments(tool: Tool) -> set[str]:
    schema = tool.definition()["inputSchema"]
    assert isinstance(schema, dict)
    return set(schema["properties"])


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
