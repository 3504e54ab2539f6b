"""docs/errors.md and docs/messages.md, made from code; `python -m tests.docs.references` writes them anew."""

import contextlib
import io
import json
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from outlive.cli.foreground.signals import failed_start
from outlive.core.errors import SLUGS, error_from_slug
from outlive.core.hints import MEANINGS
from outlive.frontends.jsonrpc.methods import methods
from outlive.frontends.mcp.tools.table import COMMAND_TOOLS, LEAN_TOOLS, PROCESS_TOOLS, TERMINAL_TOOLS
from outlive.frontends.rest.problems import HTTP_SLUGS
from outlive.operations.answers import Chunk, GapView
from outlive.operations.schemas import member_names
from outlive.operations.table import all_operations
from outlive.protocols.jsonrpc.answers import ERROR_NUMBERS
from outlive.protocols.jsonrpc.members import NOTIFICATIONS, ProcessMembers
from outlive.server.error_formats import STATUS
from tests.docs.pages import ROOT, table

ALL_TOOLS = [tool.definition() for tool in (*LEAN_TOOLS, *COMMAND_TOOLS, *PROCESS_TOOLS, *TERMINAL_TOOLS)]

_ERRORS = """# Errors

Every error has a stable slug, a sentence that may be shown, and a hint that says what to do next: as `data.reason`, `message` and
`data.hint` in JSON-RPC, as `slug`, `detail` and `hint` over HTTP (application/problem+json), as `code`, `message` and `hint` of an
`OutliveError` in Python, on stderr at the command line. The hint here is the one where no better one is known.

Every verb of the command line ends with 1 when something was refused or failed, except that `outlive run` ends with the code that
stands here: the smaller ones belong to commands. What is wrong with the command line itself ends with 2.

This page is made from the code: `python -m tests.docs.references`.

"""  # noqa: E501 -- lines of a table, or of another language
_HTTP = """
## Only over HTTP

"""
_MESSAGES = """# Messages

Every method with its result and every notification of the JSON-RPC door with their members, and what MCP tools answer; `docs/jsonrpc.md` says what they mean and in which order
they come. A parameter without a default is needed, or one of several (`command` or `argv`); unknown ones are ignored. Times are
seconds, sizes bytes.

This page is made from the code: `python -m tests.docs.references`.

## Methods
"""  # noqa: E501 -- lines of a table, or of another language
_A_PROCESS = "The result is the process (below).\n"
_PROCESS = """
## A process

What `get` answers, and what stands for a process in other results and in notifications; `docs/jsonrpc.md` says what its members
mean.

"""  # noqa: E501 -- lines of a table, or of another language
_TOOLS = """
## What MCP tools answer

The members of `structuredContent`, from each tool's own output schema. A tool that is not here answers in text alone.
`docs/mcp.md` says what they mean.
"""  # noqa: E501 -- lines of a table, or of another language
_NOTIFICATIONS = """
## Notifications

Every one is `{"jsonrpc": "2.0", "method": …, "params": {…}}`. A *process* is what `get` answers.
"""


def _errors() -> str:
    rows = [
        [
            f"`{slug}`",
            MEANINGS[slug],
            hint,
            str(ERROR_NUMBERS[slug]),
            str(STATUS[slug]),
            str(_exit_code(slug)),
        ]
        for slug, (_, hint) in sorted(SLUGS.items())
    ]
    only_http = [[f"`{slug}`", hint, str(status)] for slug, (status, hint) in sorted(HTTP_SLUGS.items())]
    return (
        _ERRORS
        + table(["slug", "meaning", "hint", "JSON-RPC", "HTTP", "`outlive run`"], rows)
        + _HTTP
        + table(["slug", "hint", "HTTP"], only_http)
    )


def _exit_code(slug: str) -> int:
    with contextlib.redirect_stderr(io.StringIO()):
        return failed_start(error_from_slug(slug, "It failed."), "program")


def _messages() -> str:
    parts = [_MESSAGES]
    for name, method in methods().items():
        parts.append(f"\n### `{name}`\n\n{all_operations()[name].help}\n\n{_parameters(method.shape)}")
        is_process = method.result is ProcessMembers
        rows = [] if is_process else _member_rows(result_members(name))
        parts.append(
            f"\n{_A_PROCESS if is_process else table(['member of the result', 'type', 'meaning'], rows)}"
        )
    process = _member_rows(sent_members(ProcessMembers))
    parts.append(f"{_PROCESS}{table(['member', 'type', 'meaning'], process)}")
    parts.append(_NOTIFICATIONS)
    for name, declared in NOTIFICATIONS.items():
        rows = _member_rows(sent_members(declared))
        parts.append(f"\n### `{name}`\n\n{table(['member', 'type', 'meaning'], rows)}")
    parts.append(_TOOLS)
    for tool in ALL_TOOLS:
        rows = [[f"`{member}`"] for member in tool_members(tool)]
        if rows:
            parts.append(f"\n### `{tool['name']}`, as a tool\n\n{table(['member'], rows)}")
    return "".join(parts)


class SentMember(typing.NamedTuple):
    """A member of what JSON-RPC sends: its type in words, whether it is always there, and what else is said
    of it.
    """

    kind: str
    is_always: bool
    note: str


def sent_members(declared: type[msgspec.Struct]) -> dict[str, SentMember]:
    """Return the members of a declared answer or notification, in its order."""
    # Pieces of output are named by reference only, so msgspec does not find them by itself.
    _, definitions = msgspec.json.schema_components((declared, Chunk, GapView), ref_template="#/$defs/{name}")
    schema = definitions[declared.__name__]
    return _sent(schema, definitions, [*schema["properties"]], frozenset(schema.get("required", ())))


def result_members(method: str) -> dict[str, SentMember]:
    """Return the members of a method's result."""
    return sent_members(methods()[method].result)


def _sent(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], names: list[str], required: frozenset[str]
) -> dict[str, SentMember]:
    return {
        name: SentMember(
            # One that need not be there is left out rather than null.
            _kind(told := schema["properties"][name], definitions).removesuffix(
                "" if name in required else " or null"
            ),
            name in required,
            _note(told),
        )
        for name in sorted(names, key=lambda one: one not in required)
    }


def _note(told: Mapping[str, Any]) -> str:
    return next((one["description"] for one in (told, *told.get("anyOf", ())) if "description" in one), "")


def _member_rows(members: Mapping[str, SentMember]) -> list[list[str]]:
    return [
        [f"`{name}`", one.kind, one.note if one.is_always else f"Where it applies. {one.note}".rstrip()]
        for name, one in members.items()
    ]


def tool_members(tool: Mapping[str, Any]) -> list[str]:
    """Return the paths of what a tool's structured answer may have, in the schema's order."""
    return list(dict.fromkeys(_paths(tool.get("outputSchema", {}))))


def _paths(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for one in (*schema.get("oneOf", ()), *schema.get("anyOf", ()), *schema.get("allOf", ())):
        yield from _paths(one, path)
    if "items" in schema:
        yield from _paths(schema["items"], path)
    for name, told in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here
        yield from _paths(told, here)


def _parameters(shape: type[msgspec.Struct]) -> str:
    schema = msgspec.json.schema(shape)
    definitions = schema["$defs"]
    properties = definitions[shape.__name__]["properties"]
    rows = [
        [
            f"`{name}`",
            _kind(told := properties[name], definitions),
            _default(told),
            told.get("description", ""),
        ]
        for name in member_names(shape)
    ]
    return table(["parameter", "type", "default", "meaning"], rows)


def _default(told: Mapping[str, Any]) -> str:
    return f"`{json.dumps(told['default'])}`" if "default" in told else ""


def _kind(told: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    if told.get("$ref", "").endswith("/ProcessMembers"):
        return "process"
    if "$ref" in told:
        told = definitions[told["$ref"].rpartition("/")[2]]
    if "anyOf" in told:
        return " or ".join(_kind(one, definitions) for one in told["anyOf"])
    if "enum" in told:
        return " or ".join(f"`{json.dumps(word)}`" for word in told["enum"])
    if isinstance(told["type"], list):
        return " or ".join(told["type"])
    kind = str(told["type"])
    if kind == "array":
        return f"array of ({_kind(told['items'], definitions)})"
    if kind == "object" and "properties" in told:
        members = (f"`{name}`: {_kind(one, definitions)}" for name, one in told["properties"].items())
        return f"object with ({', '.join(members)})"
    if kind == "object":
        return f"object of ({_kind(told['additionalProperties'], definitions)})"
    bounds = [
        f"{sign} {told[key]}"
        for key, sign in (("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="))
        if key in told
    ]
    if "maxLength" in told:
        bounds.append(f"{told.get('minLength', 0)} to {told['maxLength']} characters")
    return f"{kind} ({', '.join(bounds)})" if bounds else kind


PAGES = {"docs/errors.md": _errors, "docs/messages.md": _messages}

if __name__ == "__main__":
    for path, render in PAGES.items():
        (ROOT / path).write_text(render(), encoding="utf-8")
