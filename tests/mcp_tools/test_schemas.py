"""The schemas of all tools in a form that every host takes, and the numbers and nulls that hosts send."""

import math
from collections.abc import Iterator
from typing import Any

import msgspec
import orjson
import pytest

from outlive.core.errors import InvalidRequest
from outlive.frontends.mcp.tools.table import TOOL_SETS, Tool
from outlive.operations.schemas import arguments_schema
from outlive.protocols.mcp.arguments import read_arguments

_TOOLS = {tool.name: tool for tools in TOOL_SETS.values() for tool in tools}
_OPTIONS = ("profile", "backend", "image", "isolation")  # shown where a server is configured for them
# What each tool needs: nothing, where it is not named here.
_NEEDED: dict[str, dict[str, object]] = {
    "command_execute": {"command": "true"},
    "command_execute_script": {"script_content": "true"},
    "command_get_status": {"command_id": "cmd_1_1"},
    "execute_linux_shell_command": {"cmd": "true"},
    "execute_background_linux_shell_command": {"cmd": "true"},
    "terminate_process": {"pid": 1},
    "run": {"command": "true"},
    "wait": {"ids": ["p1"]},
    "send": {"id": "p1", "text": "x"},
    "stop": {"ids": ["p1"]},
    "control": {"id": "p1", "action": "pause"},
    "read": {"id": "p1"},
    "terminal_execute": {"terminal_id": "t", "command": "true"},
    "terminal_read": {"terminal_id": "t"},
    "terminal_write": {"terminal_id": "t", "text": "x"},
    "terminal_resize": {"terminal_id": "t", "rows": 2, "cols": 2},
    "terminal_close": {"terminal_id": "t"},
}
_Path = tuple[str | int, ...]


def _schemas(schema: object, path: _Path = ()) -> Iterator[tuple[_Path, dict[str, Any]]]:
    """Yield every schema in one, with its place."""
    if isinstance(schema, dict):
        yield path, schema
    parts = (
        schema.items() if isinstance(schema, dict) else enumerate(schema) if isinstance(schema, list) else ()
    )
    for name, part in parts:
        yield from _schemas(part, (*path, name))


@pytest.mark.promise("S4.13.schemas")
@pytest.mark.parametrize("tool", _TOOLS.values(), ids=_TOOLS.keys())
def test_no_schema_has_a_list_of_types(tool: Tool) -> None:
    """Gemini and validators of OpenAI refuse the whole tool for it."""
    shown = tool.definition(_OPTIONS)
    found = list(_schemas(shown["inputSchema"])) + list(_schemas(shown.get("outputSchema")))
    assert found
    assert [path for path, schema in found if isinstance(schema.get("type"), list)] == []


@pytest.mark.promise("S1.1.size")
def test_the_documents_tools_cost_twelve_kilobytes() -> None:
    """They show what the documents name, and what an official client needs besides."""
    tools = [tool.definition() for tool in TOOL_SETS["documents"]]
    assert len(orjson.dumps(tools)) <= 12_000
    waits = ["wait_s", "background", "max_output"]
    shown = {str(tool["name"]): list(tool["inputSchema"]["properties"]) for tool in tools}  # type: ignore[index] # a schema
    assert shown["command_execute"] == ["command", "timeout", "shell", "cwd", *waits]
    assert shown["command_execute_script"] == ["script_content", "interpreter", "timeout", "cwd", *waits]
    assert shown["execute_linux_shell_command"] == ["cmd", "timeout", "cwd", *waits]
    assert shown["execute_background_linux_shell_command"] == shown["execute_linux_shell_command"]
    configured = TOOL_SETS["documents"][0].definition(_OPTIONS)["inputSchema"]["properties"]  # type: ignore[index] # a schema
    assert list(configured)[-4:] == list(_OPTIONS)


@pytest.mark.promise("S4.13.schemas")
def test_null_stands_in_no_input_schema() -> None:
    """It says something for a variable of an environment alone, which it removes."""
    shown = [tool.definition(_OPTIONS)["inputSchema"] for tool in _TOOLS.values()]
    assert [path for path, schema in _schemas(shown) if schema.get("type") == "null"] == []
    places = {
        path[:2]
        for path, schema in _schemas(arguments_schema(_TOOLS["command_execute"].arguments))
        if schema.get("type") == "null"
    }
    assert places == {("properties", "env")}


@pytest.mark.promise("S4.13.schemas")
@pytest.mark.parametrize("tool", _TOOLS.values(), ids=_TOOLS.keys())
def test_null_is_what_leaving_an_argument_out_means(tool: Tool) -> None:
    needed = _NEEDED.get(tool.name, {})
    nulls = dict.fromkeys(set(arguments_schema(tool.arguments)["properties"]) - set(needed))
    left_out = read_arguments(needed, tool.arguments, listed=tool.listed)
    assert read_arguments({**nulls, **needed}, tool.arguments, listed=tool.listed) == left_out


def _whole(schema: dict[str, Any], path: _Path = ()) -> Iterator[tuple[_Path, int]]:
    """Yield the places of whole numbers in arguments, each with one that is allowed there."""
    if schema.get("type") == "integer":
        yield path, max(min(5, schema.get("maximum", 5)), schema.get("minimum", 5))
    for one in schema.get("anyOf", ()):
        yield from _whole(one, path)
    for name, one in schema.get("properties", {}).items():
        yield from _whole(one, (*path, name))
    if isinstance(more := schema.get("additionalProperties"), dict):
        yield from _whole(more, (*path, "any"))
    if isinstance(items := schema.get("items"), dict):
        yield from _whole(items, (*path, 0))


def _with(value: object, path: _Path) -> Any:  # noqa: ANN401 -- JSON
    for step in reversed(path):
        value = [value] if step == 0 else {step: value}
    return value


def _at(value: Any, path: _Path) -> object:  # noqa: ANN401 -- JSON
    for step in path:
        value = value[step]
    found: object = value
    return found


_WHOLE = {
    ".".join(map(str, (tool.name, *path))): (tool, path, number)
    for tool in _TOOLS.values()
    for path, number in _whole(arguments_schema(tool.arguments))
}


@pytest.mark.promise("S4.13.schemas")
@pytest.mark.parametrize(("tool", "path", "number"), _WHOLE.values(), ids=_WHOLE.keys())
def test_a_whole_number_is_an_integer_however_it_is_written(tool: Tool, path: _Path, number: int) -> None:
    """JSON does not tell 5.0 from 5, and hosts send either."""

    def read(value: object) -> object:
        sent = {**_NEEDED.get(tool.name, {}), **_with(value, path)}
        asked = read_arguments(sent, tool.arguments, listed=tool.listed)
        return _at(msgspec.to_builtins(asked), path)

    assert read(number) == number
    found = read(float(number))
    assert (found, type(found)) == (read(number), int)
    for wrong in (number + 0.5, math.nan, math.inf):
        with pytest.raises(InvalidRequest, match=str(path[0])):
            read(wrong)


def test_the_whole_numbers_of_every_kind_of_tool_are_tried() -> None:
    assert {
        "command_execute.timeout",
        "command_execute.limits.files",
        "command_list_history.limit",
        "terminate_process.pid",
        "run.budget",
        "run.group_limit",
        "read.tail",
        "terminal_resize.rows",
    } <= set(_WHOLE)


def test_numbers_of_an_environment_stay_as_they_were_written() -> None:
    run = _TOOLS["run"]
    asked = read_arguments({"command": "x", "env": {"V": 3.0, "W": 3}}, run.arguments, listed=run.listed)
    assert msgspec.to_builtins(asked)["env"] == {"V": "3.0", "W": "3"}


def test_a_model_is_shown_one_way_to_end_a_process() -> None:
    """S4.13."""
    (control,) = [tool.definition() for tool in TOOL_SETS["lean"] if tool.name == "control"]
    assert "cancel" not in str(control)
    assert all(word in str(control) for word in ("pause", "resume", "signal"))
