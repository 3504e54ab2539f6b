"""Every notification and its members with their JSON types: for the documentation, and for the test that compares.

They are made in `answers`, `output` and `happenings`; a test has the frontend send each one and compares.
"""

from collections.abc import Mapping
from types import MappingProxyType

DEGRADED = '"disk_full", "read_only" or "folder_gone"'

# The members of every notification about a change of a process's state.
_STATUS: Mapping[str, str] = {
    "status": "string",
    "pid": "integer or null",
    "pgid": "integer or null",
    "exit_code": "integer or null",
    "error": "string or null",
    "process_id": "string",
    "cursor": "string",
}

# Members that are present only where they apply.
OPTIONAL_MEMBERS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "connected": {"degraded": DEGRADED},
        "process.output": {"partial": "true", "length": "integer", "redacted": "integer"},
        "process.completed": {"output_lost": "true"},
    }
)

NOTIFICATIONS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "connected": {
            "session_id": "string",
            "version": "string",
            "capabilities": "object with (`methods`: array of (string), `output`: array of (string), `input`: array of (string), "
            "`max_line_bytes`: integer, `max_message_bytes`: integer, `reconnect_grace`: number, `backend`: string)",
            "resumed": "boolean",
            "processes": "array of processes",
        },
        "process.queued": {
            "status": "string",
            "process_id": "string",
            "waits_for": '"approval" or "group"',
            "hint": "string or null",
        },
        "process.started": _STATUS,
        "process.output": {
            "type": '"stdout" or "stderr"',
            "data": "string",
            "truncated": "boolean",
            "process_id": "string",
            "end": "integer",
        },
        "process.paused": _STATUS,
        "process.resumed": _STATUS,
        "process.cancelled": _STATUS,
        "process.completed": _STATUS,
        "process.closed": {"process_id": "string", "cursor": "string"},
        "process.gap": {
            "process_id": "string",
            "type": '"stdout" or "stderr"',
            "from": "integer",
            "to": "integer",
            "cursor": "string",
        },
        "event": {
            "event": "string",
            "at": "string",
            "process_id": "string or null",
            "process": "process or null",
            "reason": "string or null",
            "missed": "integer",
            "node": "string or null",
        },
    }
)
