"""Processes as tasks: every state has one status, the shapes are the extension's, the kept call survives any
bytes.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.identity import ProcessId
from outlive.core.lifecycle import Cause, State
from outlive.core.process import Owner, ProcessRecord
from outlive.protocols.mcp.tasks import Task, TaskCall, task_of, tool_result

_BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)
_RUNNING = ProcessRecord(
    process_id=ProcessId("p"),
    command="c",
    shell=None,
    cwd="/",
    state=State.RUNNING,
    owner=Owner(principal="me"),
    created_at=_BEGIN,
    started_at=_BEGIN + timedelta(milliseconds=7),
    stdout_bytes=5,
    stderr_bytes=2,
)


def _ended(state: State, cause: Cause = Cause.NONE, **fields: object) -> ProcessRecord:
    known: dict[str, object] = {"ended_at": _BEGIN + timedelta(seconds=2), "is_complete": True, **fields}
    return replace(_RUNNING, state=state, cause=cause, **known)  # type: ignore[arg-type] # fields by name


def _shown(record: ProcessRecord, *, age_s: float = 1.0, kept_s: float | None = 60.0) -> Task:
    result = tool_result("said", None, is_error=True)
    return task_of(record, now=_BEGIN + timedelta(seconds=age_s), kept_s=kept_s, result=result)


@pytest.mark.promise("M.tasks.status")
@pytest.mark.parametrize(
    ("record", "status", "message"),
    [
        (replace(_RUNNING, state=State.STARTING), "working", "The command runs; 7 bytes of output so far."),
        (_RUNNING, "working", "The command runs; 7 bytes of output so far."),
        (
            replace(_RUNNING, state=State.PAUSED),
            "working",
            "The command is paused; 7 bytes of output so far.",
        ),
        (
            replace(_RUNNING, state=State.STOPPING, cause=Cause.CANCEL),
            "working",
            "The command is being ended; 7 bytes of output so far.",
        ),
        # Its main process has ended, its pipes are not drained: the output may not be whole yet.
        (
            _ended(State.EXITED, exit_code=0, is_complete=False),
            "working",
            "The command runs; 7 bytes of output so far.",
        ),
        (_ended(State.EXITED, exit_code=0), "completed", "The command exited with code 0."),
        (_ended(State.EXITED, exit_code=4), "completed", "The command exited with code 4."),
        (_ended(State.SIGNALED, exit_signal=11), "completed", "Command was ended by signal 11 (SIGSEGV)"),
        (_ended(State.SIGNALED, Cause.TIMEOUT, exit_signal=15, error="late"), "completed", "late"),
        (_ended(State.SIGNALED, Cause.OUTPUT_LIMIT, exit_signal=9, error="loud"), "completed", "loud"),
        (_ended(State.SIGNALED, Cause.CANCEL, exit_signal=15, error="you did"), "cancelled", "you did"),
        (_ended(State.EXITED, Cause.SHUTDOWN, exit_code=0, error="stopped"), "cancelled", "stopped"),
        (_ended(State.LOST, ended_at=None, error="nobody knows"), "failed", "nobody knows"),
        (_ended(State.FAILED_TO_START, error="never ran"), "failed", "never ran"),
    ],
)
def test_every_state_has_one_status_and_says_why(record: ProcessRecord, status: str, message: str) -> None:
    task = _shown(record)
    assert (task.status, task.message) == (status, message)
    detailed = task.to_detailed()
    assert {"result", "error", "inputRequests"} & detailed.keys() == {
        "completed": {"result"},
        "failed": {"error"},
    }.get(status, set())
    if status == "failed":
        assert detailed["error"] == {"code": -32603, "message": message}


@pytest.mark.promise("M.tasks.status")
def test_the_shapes_are_those_of_the_extension() -> None:
    running = _shown(_RUNNING).to_created()
    assert running == {
        "resultType": "task",
        "taskId": "p",
        "status": "working",
        "statusMessage": "The command runs; 7 bytes of output so far.",
        "createdAt": "2026-01-01T12:00:00.000Z",
        "lastUpdatedAt": "2026-01-01T12:00:00.007Z",
        "ttlMs": None,
        "pollIntervalMs": 500,
    }
    done = _shown(_ended(State.EXITED, exit_code=0))
    assert done.to_detailed() == {
        "taskId": "p",
        "status": "completed",
        "statusMessage": "The command exited with code 0.",
        "createdAt": "2026-01-01T12:00:00.000Z",
        "lastUpdatedAt": "2026-01-01T12:00:02.000Z",
        "ttlMs": 62_000,
        "result": {
            "resultType": "complete",
            "content": [{"type": "text", "text": "said"}],
            "isError": True,
        },
    }
    assert "result" not in done.to_created()
    asking = replace(done, status="input_required", message="", result=None, input_requests={"k": {}})
    assert asking.to_detailed()["inputRequests"] == {"k": {}}
    assert "statusMessage" not in asking.to_detailed()
    assert tool_result("t", {"a": 1}, is_error=False)["structuredContent"] == {"a": 1}


@pytest.mark.promise("M.tasks.status")
def test_what_runs_is_kept_and_what_has_ended_as_long_as_retention_says() -> None:
    ended = _ended(State.EXITED, exit_code=0)
    assert _shown(_RUNNING).ttl_ms is None
    assert _shown(ended, kept_s=None).ttl_ms is None
    assert _shown(ended, kept_s=0.5).ttl_ms == 2500
    assert _shown(replace(ended, ended_at=_BEGIN), kept_s=0).ttl_ms == 1
    assert _shown(_ended(State.LOST, ended_at=None), kept_s=60).ttl_ms == 60_000


@pytest.mark.promise("M.tasks.status")
@given(st.floats(0, 10 * 86400))
def test_polling_as_suggested_learns_of_the_end_at_most_a_tenth_late(age_s: float) -> None:
    interval_ms = _shown(_RUNNING, age_s=age_s).poll_interval_ms
    assert interval_ms is not None
    assert 500 <= interval_ms <= 5000
    assert interval_ms <= max(500, age_s * 100 + 1)
    assert _shown(_ended(State.EXITED, exit_code=0), age_s=age_s).poll_interval_ms is None


@given(
    st.builds(
        TaskCall,
        tool=st.sampled_from(["command_execute", "run"]),
        has_cwd=st.booleans(),
        interpreter=st.none() | st.text(max_size=9),
        budget=st.integers(0, 1_000_000),
        raw=st.booleans(),
    )
)
def test_a_kept_call_comes_back(call: TaskCall) -> None:
    assert TaskCall.decode(call.encode()) == call


@given(st.binary(max_size=60))
def test_no_bytes_of_a_file_are_an_accident(content: bytes) -> None:
    assert TaskCall.decode(content) is None


def test_a_call_of_a_tool_that_is_not_known_here_is_no_call() -> None:
    assert TaskCall.decode(b'{"tool": "run_twice"}') is None
    assert TaskCall.decode(b'{"tool": "run", "budget": "\xff"}') is None
