"""The documented tools as MCP Tool objects, as data (promises S1.1, S1.2, S4.2; MCP 2025-11-25, "Tools").

`arguments` has the same shapes as structs, which check a call: a new argument goes into both.
"""

from collections.abc import Mapping, Sequence

from outlive.operations.schemas import arguments_schema
from outlive.protocols.mcp.arguments import (
    ExecuteArguments,
    HistoryArguments,
    NoArguments,
    ScriptArguments,
    ShellArguments,
    StatusArguments,
    TerminateArguments,
)

Schema = dict[str, object]

# The JSON types that occur often.
_STRING: Schema = {"type": "string"}
_NULLABLE: Schema = {"type": ["string", "null"]}
_BOOLEAN: Schema = {"type": "boolean"}
_NUMBER: Schema = {"type": "number"}
_WHOLE: Schema = {"type": "integer"}


def _described(schema: Mapping[str, object], description: str, **more: object) -> Schema:
    return {**schema, "description": description, **more}


def _object(properties: Mapping[str, object], required: Sequence[str] = ()) -> Schema:
    schema: Schema = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    return schema


def describe_tool(
    name: str,
    title: str,
    *,
    description: str,
    arguments: Schema,
    result: Schema | None = None,
    reads_only: bool = False,
    destroys: bool = False,
) -> Schema:
    """Return one MCP Tool object; a tool that runs commands may change anything and reach anywhere, and says so."""
    # Clients decide by these hints whether they ask a person before the call.
    tool: Schema = {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": arguments,
        "annotations": {
            "title": title,
            "readOnlyHint": reads_only,
            "destructiveHint": destroys,
            "idempotentHint": reads_only,
            "openWorldHint": destroys,
        },
    }
    if result is not None:
        tool["outputSchema"] = result
    return tool


_STATUS_PROPERTIES: Schema = {
    "id": _described(_STRING, "Name of the command: cmd_<unix seconds>_<counter>."),
    "command": _STRING,
    "success": _described(_BOOLEAN, "Whether it ended by itself with exit code 0."),
    "stdout": _STRING,
    "stderr": _STRING,
    "return_code": {
        "type": ["integer", "null"],
        "description": "Exit code, minus the signal after a kill, null while it runs.",
    },
    "error": _described(_NULLABLE, "Why it did not end by itself."),
    "completed": _described(_BOOLEAN, "False while it runs and when it was ended."),
    "start_time": _described(_STRING, "Local time, ISO."),
    "duration": _described(_NUMBER, "Seconds."),
    "timeout": {"type": ["integer", "null"]},
    "shell": _BOOLEAN,
    "cwd": _NULLABLE,
}
_REACHABLE: Schema = {
    "const": False,
    "type": "boolean",
    "description": "There while its node is away: the state is what it was.",
}
# Further keys, each present where it applies.
_MORE_PROPERTIES: Schema = {
    "reachable": _REACHABLE,
    "running": {"const": True, "type": "boolean", "description": "There when the command still runs."},
    "output_lost": {
        "const": True,
        "type": "boolean",
        "description": "There when some of its output is lost.",
    },
    "redacted": _described(_WHOLE, "How many secrets are stars in it."),
}
# Further keys of a call that is answered before the command's end (promise S1.10).
_UNFINISHED_PROPERTIES: Schema = {
    **_MORE_PROPERTIES,
    "success": {
        "type": ["boolean", "null"],
        "description": "Whether it ended by itself with exit code 0; null: the command still runs.",
    },
    "message": _described(_STRING, "What to do about a command that still runs."),
}
_SCRIPT_PROPERTIES: Schema = {"script_path": _STRING, "interpreter": _STRING}
# A refusal has these two keys, and the command if there is one.
_REFUSAL: Schema = {
    "required": ["success", "error"],
    "maxProperties": 3,
}


def _or_refusal(properties: Schema) -> Schema:
    """Allow all of these keys, or a refusal: MCP requires one object schema for every answer of a tool."""
    return {
        "type": "object",
        "properties": {**properties, **_UNFINISHED_PROPERTIES},
        "anyOf": [{"required": list(properties)}, _REFUSAL],
        "additionalProperties": False,
    }


_EXECUTED = _or_refusal(_STATUS_PROPERTIES)
_SCRIPT_EXECUTED = _or_refusal({**_STATUS_PROPERTIES, **_SCRIPT_PROPERTIES})

# The tools of promise S1.1.
COMMAND_TOOLS: tuple[Schema, ...] = (
    describe_tool(
        "command_execute",
        "Execute a command",
        description="Run a command and return its output and exit code. A call that is answered "
        "before the end says running: true: ask command_get_status for the rest.",
        arguments=arguments_schema(ExecuteArguments),
        result=_EXECUTED,
        destroys=True,
    ),
    describe_tool(
        "command_execute_script",
        "Execute a script",
        description="Run a script with an interpreter and return its output and exit code.",
        arguments=arguments_schema(ScriptArguments),
        result=_SCRIPT_EXECUTED,
        destroys=True,
    ),
    describe_tool(
        "command_get_status",
        "Get a command's status",
        description="Return state and output so far of a running or finished command.",
        arguments=arguments_schema(StatusArguments),
        result={
            **_object(
                {
                    "found": _BOOLEAN,
                    "status": {
                        **_object({**_STATUS_PROPERTIES, **_MORE_PROPERTIES}, list(_STATUS_PROPERTIES)),
                        "additionalProperties": False,
                    },
                    "error": _STRING,
                },
                ["found"],
            ),
            "additionalProperties": False,
        },
        reads_only=True,
    ),
    describe_tool(
        "command_list_history",
        "List executed commands",
        description="Return the newest commands first.",
        arguments=arguments_schema(HistoryArguments),
        result=_object(
            {
                "count": {"type": "integer"},
                "history": {
                    "type": "array",
                    "items": _object(
                        {
                            "id": _STRING,
                            "command": _STRING,
                            "start_time": _STRING,
                            "cwd": _NULLABLE,
                            "redacted": _WHOLE,
                        },
                        ["id", "command", "start_time", "cwd"],
                    ),
                },
            },
            ["count", "history"],
        ),
        reads_only=True,
    ),
)

_PID: Schema = {"type": ["integer", "null"]}

# The tools of promise S4.2.
PROCESS_TOOLS: tuple[Schema, ...] = (
    describe_tool(
        "execute_linux_shell_command",
        "Execute a shell command",
        description="Run a shell command and return its output. What takes longer than wait_s goes on in the "
        "background.",
        arguments=arguments_schema(ShellArguments),
        destroys=True,
    ),
    describe_tool(
        "execute_background_linux_shell_command",
        "Start a shell command in the background",
        description="Start a shell command that goes on after this call; it ends by itself, by its timeout, or by "
        "terminate_process.",
        arguments=arguments_schema(ShellArguments),
        destroys=True,
    ),
    describe_tool(
        "terminate_process",
        "Terminate a process",
        description="End a process and everything it started (TERM, then KILL) by PID (only processes started by "
        "this server).",
        arguments=arguments_schema(TerminateArguments),
        destroys=True,
    ),
    describe_tool(
        "list_processes",
        "List background processes",
        description="List all running processes started by this server.",
        arguments=arguments_schema(NoArguments),
        result=_object(
            {
                "processes": {
                    "type": "array",
                    "items": _object(
                        {
                            "pid": _PID,
                            "request_id": _STRING,
                            "command": _STRING,
                            "status": _STRING,
                            "started_at": _STRING,
                            "process_id": _STRING,
                            "redacted": _WHOLE,
                            "reachable": _REACHABLE,
                        },
                        ["pid", "request_id", "command", "status", "started_at", "process_id"],
                    ),
                },
                "count": {"type": "integer"},
                "degraded": {
                    "type": "string",
                    "description": "Why nothing can be started now: the disk is full, read-only or gone.",
                },
            },
            ["processes", "count"],
        ),
        reads_only=True,
    ),
)
