"""The terminal tools of promise S3.6 as MCP Tool objects, and their answers in words. Pure.

Their arguments are checked in `protocols.terminal.requests`, for all frontends alike.
"""

from collections.abc import Mapping

from outlive.core.redactions import hidden_words
from outlive.operations.schemas import arguments_schema
from outlive.protocols.mcp.schemas import Schema, describe_tool
from outlive.protocols.terminal.requests import (
    CloseTerminal,
    CreateTerminal,
    ExecuteInTerminal,
    ListTerminals,
    ReadTerminal,
    ResizeTerminal,
    WriteToTerminal,
)

# The JSON types that occur often.
_STRING: Schema = {"type": "string"}
_NULLABLE: Schema = {"type": ["string", "null"]}
_CODE: Schema = {"type": ["integer", "null"]}
_BOOLEAN: Schema = {"type": "boolean"}
_REDACTED: Schema = {"type": "integer", "description": "How many secrets are stars in it."}
_WAITING: Schema = {"enum": ["none", "input", "password"], "description": "What it waits for to be typed."}
_STATE: Schema = {"enum": ["ready", "busy", "closed", "unknown"]}


def _result(**properties: Schema) -> Schema:
    """Return the schema of an answer; MCP applies it to errors, too, which have none of the members: none is required."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


_TERMINAL: Schema = _result(
    terminal_id=_STRING,
    terminal_name=_STRING,
    target={"enum": ["engine", "vscode"]},
    state=_STATE,
    process_id=_NULLABLE,
    cwd=_NULLABLE,
)

# Descriptions are for models: each one names the tool that continues where this one stops.
TERMINAL_TOOLS: tuple[Schema, ...] = (
    describe_tool(
        "terminal_list",
        "List terminals",
        description="List the open terminals.",
        arguments=arguments_schema(ListTerminals),
        result=_result(terminals={"type": "array", "items": _TERMINAL}),
        reads_only=True,
    ),
    describe_tool(
        "terminal_create",
        "Open a terminal",
        description="Open a terminal: a shell that stays, with its folder, variables and jobs. It outlives this session "
        "and the server; close it when it is not needed any more.",
        arguments=arguments_schema(CreateTerminal),
        result=_TERMINAL,
        destroys=True,
    ),
    describe_tool(
        "terminal_execute",
        "Run a command in a terminal",
        description="Run a command of any number of lines at a terminal's prompt and return its output and exit code. What "
        "waits for input or takes longer than wait_s goes on: then use terminal_read and terminal_write.",
        arguments=arguments_schema(ExecuteInTerminal),
        result=_result(
            terminal_id=_STRING,
            output=_STRING,
            exit_code=_CODE,
            cursor=_NULLABLE,
            is_complete=_BOOLEAN,
            waiting=_WAITING,
            is_closed=_BOOLEAN,
            redacted=_REDACTED,
        ),
        destroys=True,
    ),
    describe_tool(
        "terminal_read",
        "Read a terminal",
        description="Return what a terminal shows: the newest output, or that from a cursor on; also after its end.",
        arguments=arguments_schema(ReadTerminal),
        result=_result(
            terminal_id=_STRING,
            text=_STRING,
            form=_STRING,
            cursor=_STRING,
            state=_STATE,
            waiting=_WAITING,
            exit_code=_CODE,
            has_more=_BOOLEAN,
            has_gap=_BOOLEAN,
            redacted=_REDACTED,
        ),
        reads_only=True,
    ),
    describe_tool(
        "terminal_write",
        "Type into a terminal",
        description="Type a text, then keys, whatever runs there: answers, passwords, ctrl-c.",
        arguments=arguments_schema(WriteToTerminal),
        result=_result(terminal_id=_STRING, written={"type": "integer"}),
        destroys=True,
    ),
    describe_tool(
        "terminal_resize",
        "Resize a terminal",
        description="Set a terminal's size.",
        arguments=arguments_schema(ResizeTerminal),
        result=_result(terminal_id=_STRING, rows={"type": "integer"}, cols={"type": "integer"}),
        destroys=True,
    ),
    describe_tool(
        "terminal_close",
        "Close a terminal",
        description="Close a terminal: its shell and what runs in it end.",
        arguments=arguments_schema(CloseTerminal),
        result=_result(terminal_id=_STRING, closed=_BOOLEAN),
        destroys=True,
    ),
)


def executed_text(members: Mapping[str, object]) -> str:
    """Return the result of a command: one line about its end, then its output."""
    # The end first: a model that reads only the beginning learns whether to wait, to answer or to go on.
    if members["is_closed"]:
        first = f"the terminal is closed; exit {members['exit_code']}"
    elif members["is_complete"]:
        code = members["exit_code"]
        first = f"exit {'unknown' if code is None else code}"
    else:
        waits = "" if members["waiting"] == "none" else f", waits for {members['waiting']}"
        first = f"still running{waits}; cursor {members['cursor']}"
    return f"[{'; '.join([first, *_hidden(members)])}]\n{members['output']}"


def read_text(members: Mapping[str, object]) -> str:
    """Return what was read: one line about the terminal, then the text."""
    words = [f"[{members['state']}", f"cursor {members['cursor']}"]
    if members["waiting"] != "none":
        words.append(f"waits for {members['waiting']}")
    if members["exit_code"] is not None:
        words.append(f"last exit {members['exit_code']}")
    if members["has_gap"]:
        words.append("output in between is not kept any more")
    if members["has_more"]:
        words.append("there is more from the cursor on")
    words += _hidden(members)
    return f"{'; '.join(words)}]\n{members['text']}"


def _hidden(members: Mapping[str, object]) -> list[str]:
    redacted = members.get("redacted")
    return [hidden_words(redacted)] if isinstance(redacted, int) else []


def terminals_text(terminals: object) -> str:
    """Return a line for each terminal."""
    rows = [
        f"{one['terminal_id']} {one['state']} {one['target']} {one['terminal_name']!r} {one['cwd'] or ''}".rstrip()
        for one in (terminals if isinstance(terminals, list) else ())
    ]
    return "\n".join(rows) or "[no terminals]"
