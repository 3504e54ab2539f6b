"""Records as the documents' tools show them: each state has one word and one truth."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from outlive.core.identity import ProcessId
from outlive.core.lifecycle import Cause, State
from outlive.core.process import Owner, ProcessRecord
from outlive.protocols.mcp.results import command_status, error_sentence, status_word

_RECORD = ProcessRecord(  # noqa: S604 -- the record only says so
    process_id=ProcessId("x"),
    command="c",
    shell="/bin/sh",
    cwd="/",
    state=State.RUNNING,
    owner=Owner(principal="me"),
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    timeout_s=2.5,
)


def _ended(state: State, code: int | None = None, cause: Cause = Cause.NONE) -> ProcessRecord:
    field = "exit_signal" if state is State.SIGNALED else "exit_code"
    error = None if cause is Cause.NONE and state is not State.LOST else "why"
    return replace(_RECORD, state=state, cause=cause, error=error, is_complete=True, **{field: code})  # type: ignore[arg-type] # one of two fields by name


@pytest.mark.promise("W.state.tools")
@pytest.mark.parametrize(
    ("record", "word", "completed", "success", "error"),
    [
        (_RECORD, "running", False, False, None),
        (replace(_RECORD, state=State.PAUSED), "running (paused)", False, False, None),
        (replace(_RECORD, state=State.STOPPING, cause=Cause.CANCEL), "running", False, False, None),
        (_ended(State.EXITED, 0), "completed", True, True, None),
        (_ended(State.EXITED, 1), "failed", True, False, None),
        (_ended(State.EXITED, 0, Cause.TIMEOUT), "timeout", False, False, "why"),
        (_ended(State.SIGNALED, 15, Cause.TIMEOUT), "timeout", False, False, "why"),
        (_ended(State.SIGNALED, 15, Cause.CANCEL), "terminated", False, False, "why"),
        (_ended(State.EXITED, 0, Cause.SHUTDOWN), "terminated", False, False, "why"),
        (_ended(State.SIGNALED, 9, Cause.OOM), "failed", False, False, "why"),
        (_ended(State.LOST), "failed", False, False, "why"),
        (
            _ended(State.SIGNALED, 11),
            "failed",
            False,
            False,
            "Command was ended by signal 11 (SIGSEGV)",
        ),
        (_ended(State.SIGNALED, 40), "failed", False, False, "Command was ended by signal 40 (unknown)"),
    ],
)
def test_each_state_has_one_word(
    record: ProcessRecord, word: str, completed: bool, success: bool, error: str | None
) -> None:
    assert status_word(record) == word
    shape = command_status(record, stdout="", stderr="", start_time="", duration_s=1.23456789, cwd=None)
    assert (shape["completed"], shape["success"], shape["error"]) == (completed, success, error)
    assert shape["return_code"] == record.wire_exit_code
    assert shape["duration"] == 1.234568
    assert shape["timeout"] == 2


def test_output_that_is_not_whole_is_not_a_completed_command() -> None:
    """S1.5: an ended process whose pipes are not drained still counts as running."""
    record = replace(_RECORD, state=State.EXITED, exit_code=0, timeout_s=None)
    shape = command_status(record, stdout="", stderr="", start_time="", duration_s=0, cwd=None)
    assert (shape["completed"], shape["success"], shape["return_code"]) == (False, False, None)
    assert shape["timeout"] is None


def test_a_timeout_is_told_while_the_grace_runs() -> None:
    """S1.9."""
    record = replace(_RECORD, state=State.STOPPING, cause=Cause.TIMEOUT)
    assert error_sentence(record) == "Command timed out after 2.5 seconds"
