"""Every notification and its members with their JSON types: for the documentation, and for the test that compares.

They are made in `answers`, `output` and `happenings`; a test has the frontend send each one and compares.

What happens to processes, as `events` reports it: the names, the notification, and which of them a client wants. Pure.

The engine makes the events; the frontend subscribes, and sends what `EventFilter` lets pass.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Literal, get_args

from outlive.core.lifecycle import State
from outlive.core.process import ProcessRecord
from outlive.protocols.jsonrpc.answers import encode_notification
from outlive.protocols.jsonrpc.views import process_view

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


EventName = Literal[
    "queued",
    "approval_requested",
    "approval_decided",
    "started",
    "recovered",
    "paused",
    "resumed",
    "stopping",
    "ended",
    "closed",
    "removed",
    "rejected",
    "keeper_connected",
    "keeper_disconnected",
    "node_connected",
    "node_away",
    "missed",
]
EVENT_NAMES: tuple[EventName, ...] = get_args(EventName)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events a client wants; None is no condition. An event about no process passes only without conditions."""

    events: frozenset[str] | None = None
    process_ids: frozenset[str] | None = None
    group: str | None = None
    tags: Mapping[str, str] | None = None
    states: frozenset[State] | None = None

    def matches(self, event: EventName, record: ProcessRecord | None) -> bool:
        """Return whether the client wants an event."""
        if self.events is not None and event not in self.events:
            return False
        # An event about the keeper or a node has no process that conditions could be about.
        if record is None:
            return self.process_ids is None and self.group is None and not self.tags and self.states is None
        return (
            (self.process_ids is None or record.process_id in self.process_ids)
            and (self.group is None or record.group == self.group)
            and (self.states is None or record.state in self.states)
            and all(record.tags.get(name) == value for name, value in (self.tags or {}).items())
        )


def encode_event(
    event: EventName,
    record: ProcessRecord | None,
    *,
    at: datetime,
    reason: str | None = None,
    missed: int = 0,
    node: str | None = None,
) -> bytes:
    """Return the notification `event`; each one has the same members, null where they do not apply."""
    params = {
        "event": event,
        "at": at,
        "process_id": None if record is None else record.process_id,
        "process": None if record is None else process_view(record),
        "reason": reason,
        "missed": missed,
        "node": node,
    }
    return encode_notification("event", params)
