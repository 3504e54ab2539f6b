"""Responses and notifications as UTF-8 JSON (JSON-RPC 2.0, section 5).

Messages that carry output are in `output`; the members of each message are declared in `members`.

`ERROR_NUMBERS` is the one table from error slugs (`core.errors.SLUGS`) to JSON-RPC numbers, promise S0.11.

A test fails when a slug is missing here. Numbers from -32000 to -32099 are the server's own (JSON-RPC 2.0,
section 5.1).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Literal, get_args

import orjson

from outlive.core.errors import OutliveError
from outlive.core.lifecycle import State
from outlive.core.process import ProcessRecord
from outlive.core.values import dataclass
from outlive.protocols.jsonrpc.output import STREAM_NAMES
from outlive.protocols.jsonrpc.views import process_view

# Our own numbers, which clients of S0 know.
_CONNECTION_LIMIT = -32001
_NOT_ALLOWED = -32002
_NO_PROCESS = -32003
_STREAM_TIMEOUT = -32004
# Those of the specification.
_INVALID_REQUEST = -32600
_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602
_FAILED = -32603
_PARSE_ERROR = -32700

ERROR_NUMBERS: Mapping[str, int] = MappingProxyType(
    {
        # Access and policy: the caller may not do this.
        "command_not_allowed": _NOT_ALLOWED,
        "command_opaque": _NOT_ALLOWED,
        "foreign_origin": _NOT_ALLOWED,
        "foreign_host": _NOT_ALLOWED,
        "foreign_user": _NOT_ALLOWED,
        "key_missing": _NOT_ALLOWED,
        "token_missing": _NOT_ALLOWED,
        "token_invalid": _NOT_ALLOWED,
        "inside_process": _NOT_ALLOWED,
        "caller_undetermined": _FAILED,
        "token_not_found": _NO_PROCESS,
        "not_owner": _NOT_ALLOWED,
        "scope_missing": _NOT_ALLOWED,
        # The request itself makes no sense, or names a process that is not there.
        "invalid_params": _INVALID_PARAMS,
        "invalid_cursor": _INVALID_PARAMS,
        "no_unfiltered": _NO_PROCESS,
        "key_taken": _INVALID_PARAMS,
        "name_invalid": _INVALID_PARAMS,
        "name_taken": _INVALID_PARAMS,
        "process_ambiguous": _INVALID_PARAMS,
        "process_running": _INVALID_PARAMS,
        "process_not_found": _NO_PROCESS,
        "no_process": _NO_PROCESS,
        "terminal_busy": _INVALID_PARAMS,
        "terminal_not_found": _NO_PROCESS,
        "terminal_not_ours": _INVALID_PARAMS,
        "no_terminal_host": _INVALID_PARAMS,
        "command_incomplete": _INVALID_PARAMS,
        "process_ended": _NO_PROCESS,
        "process_queued": _NO_PROCESS,
        # Approvals.
        "command_denied": _NOT_ALLOWED,
        "approval_denied": _NOT_ALLOWED,
        "approval_expired": _NOT_ALLOWED,
        "approval_changed": _NO_PROCESS,
        "approval_settled": _NO_PROCESS,
        "not_in_line": _NO_PROCESS,
        "approval_limit": _FAILED,
        # The process or its terminal does not allow it.
        "stdin_closed": _INVALID_PARAMS,
        "line_too_long": _INVALID_PARAMS,
        "stdin_full": _FAILED,
        "stdin_lost": _FAILED,
        "secrets_lost": _FAILED,
        "sandbox_unavailable": _FAILED,
        "profile_too_weak": _NOT_ALLOWED,
        "no_terminal": _INVALID_PARAMS,
        "not_holder": _FAILED,
        "terminal_limit": _FAILED,
        "extension_away": _FAILED,
        "extension_lost": _FAILED,
        "extension_failed": _FAILED,
        # The start failed: program, folder, container.
        "cwd_missing": _FAILED,
        "not_found": _FAILED,
        "permission_denied": _FAILED,
        "argument_too_long": _FAILED,
        "start_failed": _FAILED,
        "docker_unavailable": _FAILED,
        "docker_timeout": _FAILED,
        "image_missing": _FAILED,
        "container_failed": _FAILED,
        "mount_failed": _FAILED,
        "mount_refused": _NOT_ALLOWED,
        # Limits of the server and of the machine.
        "connection_limit": _CONNECTION_LIMIT,
        "rate_limited": _FAILED,
        "node_busy": _FAILED,
        "path_refused": _NOT_ALLOWED,
        "file_missing": _FAILED,
        "file_failed": _FAILED,
        "file_changed": _FAILED,
        "copy_unknown": _FAILED,
        "batch_limit": _FAILED,
        "copy_limit": _FAILED,
        "no_room": _FAILED,
        "process_limit": _FAILED,
        "audit_unavailable": _FAILED,
        "disk_full": _FAILED,
        "disk_silent": _FAILED,
        "read_only": _FAILED,
        "folder_gone": _FAILED,
        # A part that has to answer did not: keeper, node, server.
        "keeper_unavailable": _FAILED,
        "node_unavailable": _FAILED,
        "keeper_restarted": _FAILED,
        "start_unanswered": _FAILED,
        "server_lost": _FAILED,
        "server_unavailable": _FAILED,
        "timeout": _FAILED,
        "stream_timeout": _STREAM_TIMEOUT,
        # The message is not what the protocol allows.
        "parse_error": _PARSE_ERROR,
        "invalid_request": _INVALID_REQUEST,
        "method_not_found": _METHOD_NOT_FOUND,
        "binary_frame": _INVALID_REQUEST,
        # What is stored, and the configuration.
        "cursor_expired": _INVALID_PARAMS,
        "store_corrupt": _FAILED,
        "config_invalid": _FAILED,
        "protocol_mismatch": _FAILED,
        "state_folder": _FAILED,
        "state_format": _FAILED,
        "port_taken": _FAILED,
        "server_running": _FAILED,
        "unsupported_platform": _FAILED,
        "internal_error": _FAILED,
    }
)


def encode_result(request_id: bytes, result: Mapping[str, object]) -> bytes:
    """Return a success; `request_id` is the JSON text of the request's id, repeated as it came."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request_id, orjson.dumps(result))


def encode_error(request_id: bytes, error: OutliveError) -> bytes:
    """Return a failure: number, sentence, and in `data` the slug as `reason`, the hint and the details."""
    # Details first: they must not replace the members that every error has.
    data = {**error.details, "reason": error.code, "hint": error.hint}
    body = {"code": ERROR_NUMBERS[error.code], "message": error.message, "data": data}
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (request_id, orjson.dumps(body, default=str))


def encode_batch(answers: Sequence[bytes]) -> bytes:
    """Return the one array that answers a batch."""
    return b"[%b]" % b",".join(answers)


def encode_notification(method: str, params: Mapping[str, object]) -> bytes:
    """Return a notification."""
    return orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params})


def encode_process_notification(word: str, record: ProcessRecord, *, cursor: str) -> bytes:
    """Return `process.<word>`: started, paused, resumed, cancelled or completed (promises S0.5, S0.8, S0.10).

    All have the same members; `status` is the word itself, except that a process is "completed" only with
    exit code 0 and complete output, and otherwise "failed". Only a completion has an exit code, an error, or
    `output_lost`.
    """
    status, exit_code, error = word, None, None
    if word == "completed":
        exit_code, error = record.wire_exit_code, record.error
        status = "completed" if exit_code == 0 and not record.output_lost else "failed"
    params: dict[str, object] = {
        "status": status,
        "pid": record.pid,
        "pgid": record.pid,  # every command leads a POSIX session and group of its own (promise S0.3)
        "exit_code": exit_code,
        "error": error,
        "process_id": record.process_id,
        "cursor": cursor,
    }
    if word == "completed" and record.output_lost:
        params["output_lost"] = True
    return encode_notification(f"process.{word}", params)


def encode_queued(record: ProcessRecord) -> bytes:
    """Return `process.queued`: what a process waits for before it starts, and what has to be done for
    that.
    """
    params: dict[str, object] = {
        "status": "queued",
        "process_id": record.process_id,
        "waits_for": record.waits_for,
        "hint": record.hint,
    }
    return encode_notification("process.queued", params)


def encode_gap(process_id: str, stream: int, first: int, last: int, *, cursor: str) -> bytes:
    """Return `process.gap`: the log no longer holds bytes `first` to `last` of a stream (promise S0.20)."""
    params: dict[str, object] = {
        "process_id": process_id,
        "type": STREAM_NAMES[stream],
        "from": first,
        "to": last,
        "cursor": cursor,
    }
    return encode_notification("process.gap", params)


# -- what happens to processes, as `events` reports it

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
    "relabeled",
    "session_ended",
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
    """Which events a client wants; None is no condition.

    An event about no process passes only without conditions.

    `is_distinct`: no `closed` where `ended` has shown the process closed already.
    """

    events: frozenset[str] | None = None
    process_ids: frozenset[str] | None = None
    group: str | None = None
    tags: Mapping[str, str] | None = None
    states: frozenset[State] | None = None
    is_distinct: bool = False

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
    """Return the notification `event`."""
    params: dict[str, object] = {
        "event": event,
        "at": at,
        "process_id": None if record is None else record.process_id,
        "process": None if record is None else process_view(record),
        "reason": reason,
        "missed": missed,
        "node": node,
    }
    return encode_notification("event", params)
