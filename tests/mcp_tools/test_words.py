"""What a model is told to do next names tools and arguments that it is offered, and no others."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, get_args

import msgspec
import pytest

from outlive.config import Settings
from outlive.core.errors import SLUGS
from outlive.core.hints import Door, worded
from outlive.engine import Engine
from outlive.frontends.mcp.tools import Toolbox
from outlive.frontends.mcp.tools.table import TOOL_SETS
from tests.house.sources import ROOT
from tests.mcp_tools.calling import a_caller, answer

_Set = Literal["lean", "documents", "terminals"]
_SETS: tuple[_Set, ...] = ("lean", "documents", "terminals")
_TOOLS = {name: frozenset(tool.name for tool in TOOL_SETS[name]) for name in _SETS}
_ARGUMENTS = {
    name: frozenset(
        field.encode_name for tool in TOOL_SETS[name] for field in msgspec.structs.fields(tool.arguments)
    )
    for name in _SETS
}
# Names that are no English words: they are meant wherever they stand. All others are meant in code alone:
# `list`, list(…, cwd=….
_PLAIN = frozenset("cwd env pty tty workdir argv chars umask eof ids".split())  # noqa: SIM905 -- a table of words
# What no call of a tool raises: hints of other callers' words, of terminals, and of the raw output that
# administrators read.
_ELSEWHERE = re.compile(r"terminal_|extension_|no_terminal|foreign_|stdin_lost|audit_unavailable|stdin_full")


def _named(text: str, names: frozenset[str]) -> set[str]:
    """Return which of some names a text means."""
    in_code = set(re.findall(r"`(\w+)[`(]|\b(\w+)\(|\b(\w+)=", text))
    words = {word for found in in_code for word in found if word}
    distinct = {name for name in names if "_" in name or name in _PLAIN or not name.islower()}
    return (words & names) | {name for name in distinct if re.search(rf"\b{re.escape(name)}\b", text)}


def _foreign(text: str, offered: _Set) -> set[str]:
    """Return the tools and arguments that a text names, and that a set does not offer."""
    tools = _named(text, frozenset[str]().union(*_TOOLS.values())) - _TOOLS[offered]
    arguments = _named(text, frozenset[str]().union(*_ARGUMENTS.values())) - _ARGUMENTS[offered]
    return tools | (arguments - _TOOLS[offered])


@pytest.mark.promise("S4.13.words")
@pytest.mark.parametrize("offered", _SETS)
def test_the_hint_of_every_error_names_what_the_set_offers(offered: _Set) -> None:
    assert offered in get_args(Door)
    wrong = {
        slug: found
        for slug, (_, hint) in SLUGS.items()
        if not (_ELSEWHERE.match(slug) and offered != "terminals")
        and (found := _foreign(worded(slug, hint, offered), offered))
    }
    assert not wrong
    assert _foreign("`list` shows them: list(all=true), and pass pty.", "documents") == {"list", "all", "pty"}


def _hints(path: Path) -> Iterator[str]:
    """Yield the texts of the hints that a module gives to single errors."""
    for node in ast.walk(ast.parse(path.read_text())):
        values: list[ast.expr] = []
        if (isinstance(node, ast.keyword) and node.arg == "hint") or (
            isinstance(node, ast.Assign) and any("hint" in ast.unparse(one).lower() for one in node.targets)
        ):
            values = [node.value]
        for value in values:
            for part in ast.walk(value):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


@pytest.mark.promise("S4.13.words")
def test_hints_that_all_sets_share_name_no_tool() -> None:
    """The engine and what lies below it know no frontend.

    What only workspaces and terminals raise is for their sets.
    """
    shared = ("engine", "policy", "store", "backends", "operations")
    tools = frozenset[str]().union(*_TOOLS.values())
    wrong: dict[str, set[str]] = {}
    for folder in shared:
        for path in sorted((ROOT / "src" / "outlive" / folder).rglob("*.py")):
            for hint in _hints(path):
                # `env` is named to the caller that has sent it.
                found = _named(hint, tools)
                found |= _named(hint, _PLAIN - {"env"}) if "orkspace" not in hint else set()
                if found and not {"terminals", "terminal_requests.py"} & {*path.parts}:
                    wrong[f"{path.name}: {hint}"] = found
    assert not wrong


_CALLS: Mapping[_Set, list[tuple[str, dict[str, object]]]] = {
    "lean": [
        ("read", {"id": "p99"}),
        ("control", {"id": "p99", "action": "pause"}),
        ("send", {"id": "p99", "text": "x"}),
        ("send", {"id": "p1", "text": "x"}),
        ("control", {"id": "p1", "action": "pause"}),
        ("control", {"id": "p99", "action": "explode"}),
        ("wait", {"ids": ["p99"]}),
        ("stop", {"ids": ["p99"]}),
        ("read", {"id": "p1", "unfiltered": True}),
        ("read", {"id": "p1", "cursor": "x"}),
        ("run", {"command": "true", "cwd": "/does/not/exist"}),
        ("run", {"argv": ["/does/not/exist"]}),
        ("run", {"command": "x", "argv": ["x"]}),
        ("run", {"comand": "x"}),
        ("run", {"command": "x", "timeout": 900_000}),
        ("list", {"limit": 0}),
    ],
    "documents": [
        ("command_get_status", {"command_id": []}),
        ("command_execute", {"command": "true", "cwd": "/does/not/exist"}),
        ("command_execute", {}),
        ("execute_linux_shell_command", {"cmd": "true", "cwd": "/does/not/exist"}),
        ("execute_linux_shell_command", {"cmd": ""}),
        ("terminate_process", {"pid": 1}),
        ("terminate_process", {}),
    ],
    "terminals": [
        ("terminal_read", {"terminal_id": "none"}),
        ("terminal_close", {"terminal_id": "none"}),
        ("terminal_create", {"cwd": "/does/not/exist"}),
        ("terminal_create", {"target": "vscode"}),
        ("terminal_execute", {"command": "echo \x1b"}),
    ],
}
_FIRST: Mapping[_Set, tuple[str, str]] = {
    "lean": ("run", "command"),
    "documents": ("command_execute", "command"),
    "terminals": ("terminal_list", ""),
}


@pytest.mark.promise("S4.13.words")
@pytest.mark.parametrize("offered", _SETS)
async def test_every_refusal_names_what_the_set_offers(engine: Engine, offered: _Set) -> None:
    toolbox, caller = Toolbox(engine, Settings(mcp_tools=offered)), a_caller()
    tool, argument = _FIRST[offered]
    await answer(toolbox, tool, caller, {argument: "exit 0"} if argument else {})
    for name, arguments in _CALLS[offered]:
        outcome = await answer(toolbox, name, caller, arguments)
        assert outcome.is_error, (name, arguments, outcome.text)
        # The caller's own words come back in it.
        said = _foreign(outcome.text, offered) - set(arguments)
        assert not said, (name, arguments, outcome.text)
