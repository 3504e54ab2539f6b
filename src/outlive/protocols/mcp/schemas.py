"""The output schemas of the MCP tools, as data (promises S1.2, S1.6, S3.6, S4.5; MCP 2025-11-25, "Tools").

Pure.

A tool without a schema here answers in text alone. What produces the answers is `results`, and
`server.terminal_calls`.
"""

from collections.abc import Iterable, Mapping

Schema = dict[str, object]

# The JSON types that occur often.
_STRING: Schema = {"type": "string"}
_BOOLEAN: Schema = {"type": "boolean"}
_NUMBER: Schema = {"type": "number"}
_WHOLE: Schema = {"type": "integer"}
_CLOSED: Schema = {"additionalProperties": False}


def _or_null(schema: Schema) -> Schema:
    """Allow null, too; a list in `type` would say the same, and is refused by some hosts (Gemini, OpenAI)."""
    return {"anyOf": [schema, {"type": "null"}]}


_NULLABLE = _or_null(_STRING)
_WHOLE_OR_NULL = _or_null(_WHOLE)


def _described(schema: Mapping[str, object], description: str) -> Schema:
    return {**schema, "description": description}


def _flag(description: str, *, value: bool) -> Schema:
    return {"const": value, "type": "boolean", "description": description}


def _object(properties: Schema, required: Iterable[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list_of(item: Schema) -> Schema:
    return {"type": "array", "items": item}


_STATUS: Schema = {
    "id": _described(_STRING, "Name of the command: cmd_<unix seconds>_<counter>."),
    "command": _STRING,
    "success": _described(_BOOLEAN, "Whether it ended by itself with exit code 0."),
    "stdout": _STRING,
    "stderr": _STRING,
    "return_code": _described(
        _WHOLE_OR_NULL, "Exit code, minus the signal after a kill, null while it runs."
    ),
    "error": _described(_NULLABLE, "Why it did not end by itself."),
    "completed": _described(_BOOLEAN, "False while it runs and when it was ended."),
    "start_time": _described(_STRING, "Local time, ISO."),
    "duration": _described(_NUMBER, "Seconds."),
    "timeout": _WHOLE_OR_NULL,
    "shell": _BOOLEAN,
    "cwd": _NULLABLE,
}
_REACHABLE = _flag("There while its node is away: the state is what it was.", value=False)
_REDACTED = _described(_WHOLE, "How many secrets are stars in it.")
# Further keys, each present where it applies.
_MORE: Schema = {
    "reachable": _REACHABLE,
    "running": _flag("There when the command still runs.", value=True),
    "output_lost": _flag("There when some of its output is lost.", value=True),
    "redacted": _REDACTED,
}
# Further keys of a call that is answered before the command's end (promise S1.10).
_UNFINISHED: Schema = {
    **_MORE,
    "success": _described(
        _or_null(_BOOLEAN),
        "Whether it ended by itself with exit code 0; null: the command still runs.",
    ),
    "message": _described(_STRING, "What to do about a command that still runs."),
}


def _or_refusal(properties: Schema) -> Schema:
    """Allow all of these keys, or a refusal: MCP requires one object schema for every answer of a tool."""
    return {
        "type": "object",
        "properties": {**properties, **_UNFINISHED},
        # A refusal has these two keys, and the command if there is one.
        "anyOf": [{"required": list(properties)}, {"required": ["success", "error"], "maxProperties": 3}],
        **_CLOSED,
    }


EXECUTED = _or_refusal(_STATUS)
SCRIPT_EXECUTED = _or_refusal({**_STATUS, "script_path": _STRING, "interpreter": _STRING})
COMMAND_STATUS: Schema = {
    **_object(
        {
            "found": _BOOLEAN,
            "status": {**_object({**_STATUS, **_MORE}, _STATUS), **_CLOSED},
            "error": _STRING,
        },
        ["found"],
    ),
    **_CLOSED,
}
_HISTORY_ROW: Schema = {"id": _STRING, "command": _STRING, "start_time": _STRING, "cwd": _NULLABLE}
HISTORY = _object(
    {"count": _WHOLE, "history": _list_of(_object({**_HISTORY_ROW, "redacted": _WHOLE}, _HISTORY_ROW))},
    ["count", "history"],
)
_PROCESS_ROW: Schema = {
    "pid": _WHOLE_OR_NULL,
    "request_id": _STRING,
    "command": _STRING,
    "status": _STRING,
    "started_at": _STRING,
    "process_id": _STRING,
}
PROCESSES = _object(
    {
        "processes": _list_of(
            _object({**_PROCESS_ROW, "redacted": _WHOLE, "reachable": _REACHABLE}, _PROCESS_ROW)
        ),
        "count": _WHOLE,
        "degraded": _described(
            _STRING, "Why nothing can be started now: the disk is full, read-only or gone."
        ),
    },
    ["processes", "count"],
)


def _terminal_answer(**properties: Schema) -> Schema:
    """Return the schema of a terminal tool's answer; MCP applies it to errors, too, which have no member:
    none is required.
    """
    return {"type": "object", "properties": properties, **_CLOSED}


_STATE: Schema = {"enum": ["ready", "busy", "closed", "unknown"]}
_WAITING: Schema = {"enum": ["none", "input", "password"], "description": "What it waits for to be typed."}
TERMINAL = _terminal_answer(
    terminal_id=_STRING,
    terminal_name=_STRING,
    target={"enum": ["engine", "vscode"]},
    state=_STATE,
    process_id=_NULLABLE,
    cwd=_NULLABLE,
)
TERMINALS = _terminal_answer(terminals=_list_of(TERMINAL))
TERMINAL_EXECUTED = _terminal_answer(
    terminal_id=_STRING,
    output=_STRING,
    exit_code=_WHOLE_OR_NULL,
    cursor=_NULLABLE,
    is_complete=_BOOLEAN,
    waiting=_WAITING,
    is_closed=_BOOLEAN,
    redacted=_REDACTED,
)
TERMINAL_TEXT = _terminal_answer(
    terminal_id=_STRING,
    text=_STRING,
    form=_STRING,
    cursor=_STRING,
    state=_STATE,
    waiting=_WAITING,
    exit_code=_WHOLE_OR_NULL,
    has_more=_BOOLEAN,
    has_gap=_BOOLEAN,
    redacted=_REDACTED,
)
TERMINAL_WRITTEN = _terminal_answer(terminal_id=_STRING, written=_WHOLE)
TERMINAL_SIZE = _terminal_answer(terminal_id=_STRING, rows=_WHOLE, cols=_WHOLE)
TERMINAL_CLOSED = _terminal_answer(terminal_id=_STRING, closed=_BOOLEAN)
