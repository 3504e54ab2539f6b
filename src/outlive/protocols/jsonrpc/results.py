"""Every method's result and its members with their JSON types: for the documentation, and for the test that compares.

They are made in `views` and in the methods themselves; a test makes the calls over a socket and compares.
"""

from collections.abc import Mapping
from types import MappingProxyType

from outlive.protocols.jsonrpc.notifications import DEGRADED

# The JSON types that occur often, in the words of the documentation.
_TEXT, _MAYBE_TEXT = "string", "string or null"
_COUNT, _MAYBE_COUNT = "integer", "integer or null"
_TIME = "string (ISO 8601, UTC)"
_SANDBOX = "object with (`profile`: string, `features`: array of (string))"

# What `get` answers; it also stands for "the process" in other results and in notifications.
PROCESS: Mapping[str, str] = MappingProxyType(
    {
        "process_id": _TEXT,
        "status": '`"queued"`, `"started"`, `"paused"`, `"completed"` or `"failed"`',
        "state": _TEXT,
        "waits_for": '`"approval"`, `"group"` or null',
        "hint": _MAYBE_TEXT,
        "pid": _MAYBE_COUNT,
        "pgid": _MAYBE_COUNT,
        "command": _TEXT,
        "shell": _MAYBE_TEXT,
        "cwd": _TEXT,
        "exit_code": _MAYBE_COUNT,
        "error": _MAYBE_TEXT,
        "cause": _MAYBE_TEXT,
        "completed": "boolean",
        "streams": '`"open"` or `"closed"`',
        "cursor": _TEXT,
        "stdout_bytes": _COUNT,
        "stderr_bytes": _COUNT,
        "created_at": _TIME,
        "started_at": f"{_TIME} or null",
        "ended_at": f"{_TIME} or null",
        "stdio": '`"pipes"`, `"merge"` or `"pty"`',
        "stdin": '`"none"`, `"pipe"` or `"lent"`',
        "detached": "boolean",
        "descendants": _COUNT,
        "stalled": "boolean",
        "gaps": "boolean",
        "output_lost": "boolean",
        "lost_bytes": _MAYBE_COUNT,
        "timeout": "number or null",
        "grace": "number",
        "tags": "object of (string)",
        "group": _MAYBE_TEXT,
        "sandbox": _SANDBOX,
        "env_secrets": "array of (string)",
        "session_id": _MAYBE_TEXT,
    }
)
# Members of a process that are present only where they apply.
OPTIONAL_OF_A_PROCESS: Mapping[str, str] = MappingProxyType(
    {
        "location": "object with (`backend`: string, `image`: string, `container`: string)",
        "unknown": "true",
        "redacted": _COUNT,
        "reachable": "false",
        "timed_out": "boolean, of `wait`",
        "stats": "object with (`pids`: array of (integer), `threads`: integer, `cpu`: number, `memory_bytes`: integer, "
        "`ports`: array of (integer), `waiting`: string or null), of `get`",
    }
)

_THE_PROCESS: Mapping[str, str] = MappingProxyType({})  # the members of `PROCESS`
_STATUS = {"status": _TEXT}
_TERMINAL = {
    "terminal_id": _TEXT,
    "terminal_name": _TEXT,
    "target": '`"engine"` or `"vscode"`',
    "state": '`"ready"`, `"busy"`, `"closed"` or `"unknown"`',
    "process_id": _MAYBE_TEXT,
    "cwd": _MAYBE_TEXT,
}
_WAITING = '`"none"`, `"input"` or `"password"`'
_CHUNK = "`type`, `data`, `end`, where it applies `redacted`; `type`, `gap`, `from`, `to`, `end` for output that was released"
_APPROVAL = (
    "`process_id`, `digest`, `command`, `argv`, `script`, `script_bytes`, `cwd`, `variables`, `env`, `profile`, `location`, "
    "`reason`, `principal`, `since`, `expires_at`, `tags`, `group`, where it applies `redacted`"
)

# By method: members of the result that are present only where they apply.
OPTIONAL_RESULTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "list": {"degraded": DEGRADED},
        "read": {"redacted": _COUNT},
        "terminal_execute": {"redacted": _COUNT},
        "terminal_read": {"redacted": _COUNT},
    }
)

# By method; one without members of its own returns the process.
RESULTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "execute": {
            "status": '`"started"`, or `"queued"` until its turn comes',
            "pid": _MAYBE_COUNT,
            "pgid": _MAYBE_COUNT,
            "process_id": _TEXT,
            "shell": _MAYBE_TEXT,
            "sandbox": _SANDBOX,
        },
        "control": _STATUS,
        "attach": _THE_PROCESS,
        "list": {"processes": "array of processes", "more": "boolean"},
        "nodes": {
            "nodes": "array of (`name`, `address`, `state`, `since`, `reason`, `hint`, `processes`)",
        },
        "get": _THE_PROCESS,
        "read": {
            "process_id": _TEXT,
            "chunks": f"array of ({_CHUNK})",
            "cursor": _TEXT,
            "more": "boolean",
            "completed": "boolean",
        },
        "write": {"written": _COUNT},
        "close_stdin": _STATUS,
        "close_output": _STATUS,
        "release": _STATUS,
        "resize": {"rows": _COUNT, "cols": _COUNT},
        "signal": {**_STATUS, "signal": _COUNT},
        "terminal_list": {"terminals": f"array of ({', '.join(f'`{name}`' for name in _TERMINAL)})"},
        "terminal_create": _TERMINAL,
        "terminal_execute": {
            "terminal_id": _TEXT,
            "output": _TEXT,
            "exit_code": _MAYBE_COUNT,
            "cursor": _MAYBE_TEXT,
            "is_complete": "boolean",
            "waiting": _WAITING,
            "is_closed": "boolean",
        },
        "terminal_read": {
            "terminal_id": _TEXT,
            "text": _TEXT,
            "form": '`"raw"`, `"clean"` or `"screen"`',
            "cursor": _TEXT,
            "state": _TERMINAL["state"],
            "waiting": _WAITING,
            "exit_code": _MAYBE_COUNT,
            "has_more": "boolean",
            "has_gap": "boolean",
        },
        "terminal_write": {"terminal_id": _TEXT, "written": _COUNT},
        "terminal_resize": {"terminal_id": _TEXT, "rows": _COUNT, "cols": _COUNT},
        "terminal_close": {"terminal_id": _TEXT, "closed": "true"},
        "wait": _THE_PROCESS,
        "relabel": _THE_PROCESS,
        "remove": {"process_id": _TEXT, "removed": "true"},
        "approvals": {"approvals": f"array of ({_APPROVAL})"},
        "approve": _THE_PROCESS,
        "deny": _THE_PROCESS,
        "events": _STATUS,
    }
)
