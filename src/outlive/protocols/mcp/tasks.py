"""Tasks as the MCP extension `io.modelcontextprotocol/tasks` shows them (its specification of 2026-07-28).

A task is a process, observed by polling. This module owns the shapes of tasks, decides which status a record
has, and stores the few facts about the call that its result needs later. Pure; which caller owns a task and
what its output says is decided in `frontends.mcp.tools.toolbox`.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from outlive.core.documents import checked_json
from outlive.core.lifecycle import Cause, State
from outlive.core.process import ProcessRecord
from outlive.core.values import dataclass
from outlive.protocols.mcp.results import error_sentence

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
# `data` of the error -32021 (Missing Required Client Capability).
REQUIRED_CAPABILITY: Mapping[str, object] = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]
TaskTool = Literal["command_execute", "command_execute_script", "execute_linux_shell_command", "run"]
_Object = dict[str, object]

_INTERNAL_ERROR = -32603
# A client that polls again after a tenth of the time so far learns of the end at most a tenth late.
_POLLS_PER_AGE = 10
_SHORTEST_POLL_S, _LONGEST_POLL_S = 0.5, 5.0


class TaskCall(msgspec.Struct, kw_only=True, frozen=True):
    """The call that became a task, as far as its result depends on it; the rest is in the process's record.

    `has_cwd`: the call named a folder. `limit_bytes`: what its result shows of each stream; 0 for the
    server's limit. `budget` and `raw` are those of `run`.
    """

    tool: TaskTool
    has_cwd: bool = False
    limit_bytes: int = 0
    interpreter: str | None = None
    budget: int = 0
    raw: bool = False

    def encode(self) -> bytes:
        """Return the content of the file in which it is stored."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, content: bytes) -> "TaskCall | None":
        """Return the call that a file holds; None when the file is torn, or of a version with other tools."""
        try:
            return msgspec.json.decode(checked_json(content), type=cls)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task at one moment. Times are aware UTC.

    `ttl_ms` counts from the creation; None means without end. Of `result` (a CallToolResult), `error` (a
    JSON-RPC error) and `input_requests` (by key) only the one that fits the status is set.
    """

    task_id: str
    status: TaskStatus
    created_at: datetime
    updated_at: datetime
    message: str = ""
    ttl_ms: int | None = None
    poll_interval_ms: int | None = None
    result: Mapping[str, object] | None = None
    error: Mapping[str, object] | None = None
    input_requests: Mapping[str, object] | None = None

    def to_created(self) -> _Object:
        """Return the CreateTaskResult: the task without its outcome."""
        return {"resultType": "task", **self._head()}

    def to_detailed(self) -> _Object:
        """Return the DetailedTask, as the answer to tasks/get and in notifications/tasks."""
        payload = {"result": self.result, "error": self.error, "inputRequests": self.input_requests}
        return self._head() | {name: dict(value) for name, value in payload.items() if value is not None}

    def _head(self) -> _Object:
        head: _Object = {
            "taskId": self.task_id,
            "status": self.status,
            "createdAt": _iso(self.created_at),
            "lastUpdatedAt": _iso(self.updated_at),
            "ttlMs": self.ttl_ms,
        }
        if self.message:
            head["statusMessage"] = self.message
        if self.poll_interval_ms is not None:
            head["pollIntervalMs"] = self.poll_interval_ms
        return head


def task_of(
    record: ProcessRecord,
    *,
    now: datetime,
    kept_s: float | None,
    result: Mapping[str, object] | None = None,
) -> Task:
    """Return a process as a task.

    Args:
        record: The process.
        now: The time, aware.
        kept_s: How long a process is kept after its end; None for ever.
        result: The tool's answer for it, used only once it is completed.
    """
    # A task's life is the process's: nothing of it is stored but the call (`TaskCall`).
    status = _status(record)
    message = _message(record)
    is_working = status == "working"
    return Task(
        task_id=record.process_id,
        status=status,
        created_at=record.created_at,
        updated_at=record.ended_at or record.started_at or record.created_at,
        message=message,
        # A running process is kept, and how long it will run is not known.
        ttl_ms=None if is_working or kept_s is None else _ttl_ms(record, kept_s),
        poll_interval_ms=_poll_interval_ms(now - record.created_at) if is_working else None,
        result=result if status == "completed" else None,
        error={"code": _INTERNAL_ERROR, "message": message} if status == "failed" else None,
    )


def _status(record: ProcessRecord) -> TaskStatus:
    """Return a task's status: a command that failed is a result; `failed` is left for outcomes that cannot be
    known.
    """
    if not record.is_complete:
        return "working"
    if record.cause in {Cause.CANCEL, Cause.SHUTDOWN}:
        return "cancelled"
    return "failed" if record.state in {State.LOST, State.FAILED_TO_START} else "completed"


def _message(record: ProcessRecord) -> str:
    if record.is_complete:
        return error_sentence(record) or f"The command exited with code {record.exit_code}."
    size = record.stdout_bytes + record.stderr_bytes
    match record.state:
        case State.QUEUED:
            return error_sentence(record) or f"The command waits for its turn: {record.held_up_by}."
        case State.PAUSED:
            return f"The command is paused; {size} bytes of output so far."
        case State.STOPPING:
            return f"The command is being ended; {size} bytes of output so far."
        case _:
            return f"The command runs; {size} bytes of output so far."


def _ttl_ms(record: ProcessRecord, kept_s: float) -> int:
    # Counted from the creation, as the specification has it, while retention counts from the end.
    end = (record.ended_at or record.created_at) + timedelta(seconds=kept_s)
    return max(1, (end - record.created_at) // timedelta(milliseconds=1))


def _poll_interval_ms(age: timedelta) -> int:
    wanted_s = min(_LONGEST_POLL_S, max(_SHORTEST_POLL_S, age.total_seconds() / _POLLS_PER_AGE))
    return round(wanted_s * 1000)


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def call_result(text: str, structured: Mapping[str, object] | None, *, is_error: bool) -> _Object:
    """Return a CallToolResult (MCP revision 2025-11-25, "Tools")."""
    result: _Object = {"content": [{"type": "text", "text": text}], "isError": is_error}
    if structured is not None:
        result["structuredContent"] = dict(structured)
    return result


def tool_result(text: str, structured: Mapping[str, object] | None, *, is_error: bool) -> _Object:
    """Return one of 2026-07-28, the answer that the call itself would have had."""
    return {"resultType": "complete", **call_result(text, structured, is_error=is_error)}
