"""The documents' tools as MCP Tool objects, as data (promises S1.1, S1.2, S4.2; MCP 2025-11-25, "Tools")."""

from collections.abc import Mapping, Sequence
from typing import get_args

from outlive.core.command import UMASK_PATTERN
from outlive.core.location import Isolation
from outlive.core.sandbox import MIN_CPUS, Profile

Schema = dict[str, object]

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
    """Return one MCP Tool object; what runs commands may change anything and reach anywhere, so it says so."""
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


_OPTIONS: Schema = {
    "cwd": _described(_NULLABLE, "Working directory; null is the server's default."),
    "env": {
        "type": "object",
        "additionalProperties": _NULLABLE,
        "description": "Variables added to the environment; null removes one.",
    },
    "env_secrets": {
        "type": "object",
        "additionalProperties": _STRING,
        "description": "Variables whose values are written nowhere.",
    },
    "profile": {
        "enum": [profile.value for profile in Profile],
        "description": "The sandbox: the server's default, or a stronger one.",
    },
    "limits": {
        "type": "object",
        "properties": {
            "cpu": _described(_WHOLE, "Seconds of processor time of each process.", minimum=1),
            "cpus": _described(
                _NUMBER, "Processors that it may keep busy with all that it starts.", minimum=MIN_CPUS
            ),
            "memory": _described(_WHOLE, "Bytes.", minimum=1),
            "files": _described(_WHOLE, "Open files of each process.", minimum=1),
            "processes": _described(_WHOLE, "With itself.", minimum=1),
        },
        "additionalProperties": False,
        "description": "Bounds of what it may take, below the server's own.",
    },
    "backend": _described(_STRING, "Where it runs: local, docker, or the name of a node."),
    "image": _described(_STRING, "The image of its container, where it gets one."),
    "isolation": {
        "enum": list(get_args(Isolation)),
        "description": "session: a container that others share; strict: one of its own.",
    },
    "umask": {
        "type": "string",
        "pattern": UMASK_PATTERN,
        "description": "Permissions that its new files do not get, as 022; those of the server's start else.",
    },
    "wait_s": _described(
        _NUMBER, "Seconds this call waits for the end before it answers that the command goes on.", minimum=0
    ),
    "background": _described(_BOOLEAN, "Answer at once; the same as wait_s 0.", default=False),
    "grace": _described(_NUMBER, "Seconds between TERM and KILL when the command is ended.", minimum=0),
    "tags": {
        "type": "object",
        "additionalProperties": _STRING,
        "description": "Labels to find the command by.",
    },
    "group": _described(_STRING, "A name that several commands share."),
    "group_limit": {
        "type": "integer",
        "minimum": 1,
        "description": "How many of the group run at once from now on; one more waits for its turn.",
    },
}
_TIMEOUT: Schema = {
    "type": "integer",
    "minimum": 1,
    "description": "Seconds after which the whole process tree is ended.",
}

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
# Beside them where it applies.
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
# Beside both where a call is answered before the command's end (promise S1.10).
_UNFINISHED_PROPERTIES: Schema = {
    **_MORE_PROPERTIES,
    "success": {
        "type": ["boolean", "null"],
        "description": "Whether it ended by itself with exit code 0; null: the command still runs.",
    },
    "message": _described(_STRING, "What to do about a command that still runs."),
}
_SCRIPT_PROPERTIES: Schema = {"script_path": _STRING, "interpreter": _STRING}
_REFUSAL: Schema = {
    "required": ["success", "error"],
    "maxProperties": 3,
}  # and the command, where there is one


def _or_refusal(properties: Schema) -> Schema:
    """Allow all of these keys, or a refusal: MCP wants one object schema for all that a tool may answer."""
    return {
        "type": "object",
        "properties": {**properties, **_UNFINISHED_PROPERTIES},
        "anyOf": [{"required": list(properties)}, _REFUSAL],
        "additionalProperties": False,
    }


_EXECUTED = _or_refusal(_STATUS_PROPERTIES)
_SCRIPT_EXECUTED = _or_refusal({**_STATUS_PROPERTIES, **_SCRIPT_PROPERTIES})

COMMAND_TOOLS: tuple[Schema, ...] = (
    describe_tool(
        "command_execute",
        "Execute a command",
        description="Run a command and return its output and exit code. A call that is answered "
        "before the end says running: true: ask command_get_status for the rest.",
        arguments=_object(
            {
                "command": _described(_STRING, "The command line."),
                "timeout": _TIMEOUT,
                "shell": _described(_BOOLEAN, "Run it in a shell, or as plain words.", default=True),
                "workspace": _described(
                    _STRING,
                    "A name: folder and exported variables go on from its last command that exited with 0.",
                    pattern=r"^[\w.-]{1,100}$",
                ),
                **_OPTIONS,
            },
            ["command"],
        ),
        result=_EXECUTED,
        destroys=True,
    ),
    describe_tool(
        "command_execute_script",
        "Execute a script",
        description="Run a script with an interpreter and return its output and exit code.",
        arguments=_object(
            {
                "script_content": _described(_STRING, "The script's text, of any length."),
                "interpreter": _described(_STRING, "Program that runs it.", default="/bin/bash"),
                "timeout": _TIMEOUT,
                **_OPTIONS,
            },
            ["script_content"],
        ),
        result=_SCRIPT_EXECUTED,
        destroys=True,
    ),
    describe_tool(
        "command_get_status",
        "Get a command's status",
        description="Return state and output so far of a running or finished command.",
        arguments=_object({"command_id": _described(_STRING, "The id of its result.")}, ["command_id"]),
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
        arguments=_object({"limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10}}),
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

_SHELL_ARGUMENTS = _object(
    {
        "cmd": _described(_STRING, "The command line."),
        "timeout": _described(_NUMBER, "Seconds after which the whole process tree is ended.", minimum=0),
        **_OPTIONS,
    },
    ["cmd"],
)
_PID: Schema = {"type": ["integer", "null"]}

PROCESS_TOOLS: tuple[Schema, ...] = (
    describe_tool(
        "execute_linux_shell_command",
        "Execute a shell command",
        description="Run a shell command and return its output. What takes longer than wait_s goes on in the "
        "background.",
        arguments=_SHELL_ARGUMENTS,
        destroys=True,
    ),
    describe_tool(
        "execute_background_linux_shell_command",
        "Start a shell command in the background",
        description="Start a shell command that goes on after this call; it ends by itself, by its timeout, or by "
        "terminate_process.",
        arguments=_SHELL_ARGUMENTS,
        destroys=True,
    ),
    describe_tool(
        "terminate_process",
        "Terminate a process",
        description="End a process and everything it started (TERM, then KILL) by PID (only processes started by "
        "this server).",
        arguments=_object(
            {"pid": {"type": "integer", "description": "As list_processes shows it."}}, ["pid"]
        ),
        destroys=True,
    ),
    describe_tool(
        "list_processes",
        "List background processes",
        description="List all running processes started by this server.",
        arguments=_object({}),
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
