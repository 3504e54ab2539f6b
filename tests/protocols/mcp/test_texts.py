"""The first line of a lean answer: what has become of a process, in as few words as a model needs."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.command import ApprovalState, Profile, Sandbox
from outlive.core.hints import elapsed
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import Cause, State
from outlive.core.location import Location
from outlive.core.process import Owner, ProcessRecord
from outlive.protocols.mcp.texts import STOPPED_NOTE, Circumstances, header

_RECORD = ProcessRecord(  # noqa: S604 -- the record only says so
    process_id=ProcessId("x"),
    command="c",
    shell="/bin/sh",
    cwd="/",
    state=State.RUNNING,
    owner=Owner(principal="me"),
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    timeout_s=2.5,
    number=7,
)
_RUNS = Circumstances(duration_s=1.25)
_DONE = Circumstances(duration_s=1.25, shows_id=False)


def _ended(code: int | None = None, signal: int | None = None, **members: Any) -> ProcessRecord:  # noqa: ANN401 -- members of a record
    state = State.EXITED if signal is None else State.SIGNALED
    members = {"state": state, "exit_code": code, "exit_signal": signal, "is_complete": True, **members}
    return replace(_RECORD, **members)


@pytest.mark.promise("S4.13.answers")
@pytest.mark.parametrize(
    ("record", "now", "line"),
    [
        (_ended(0), _DONE, "[exit 0]"),
        (_ended(3), _DONE, "[exit 3]"),
        (_ended(0), _RUNS, "[p7 exit 0]"),
        (_ended(0, cwd="/elsewhere", stdout_bytes=9), _DONE, "[exit 0]"),
        (_RECORD, _RUNS, "[p7 running, 1.2 s]"),
        (replace(_RECORD, number=None), _RUNS, "[x running, 1.2 s]"),
        (replace(_RECORD, state=State.PAUSED), _RUNS, "[p7 paused]"),
        (replace(_RECORD, state=State.STOPPING), _RUNS, "[p7 is being stopped]"),
        (_RECORD, replace(_RUNS, waiting="input"), "[p7 waiting for input]"),
        (_RECORD, replace(_RUNS, waiting="password"), "[p7 waiting for a password]"),
        (_RECORD, replace(_RUNS, ports=(80, 8080)), "[p7 running, 1.2 s, listens on 80, 8080]"),
        (
            _RECORD,
            replace(_RUNS, ports=(1, 2, 3, 4, 5, 6)),
            "[p7 running, 1.2 s, listens on 1, 2, 3, 4, 5]",
        ),
        (_ended(0, descendants=2), _RUNS, "[p7 exit 0, 2 of its processes still run]"),
        (_ended(0), replace(_DONE, remark="ran 3 h ago"), "[exit 0, ran 3 h ago]"),
        (_ended(0), replace(_DONE, workspace="w:/usr"), "[exit 0, workspace w:/usr]"),
        (_ended(0), replace(_DONE, redacted=1), "[exit 0, 1 secret hidden]"),
        (_ended(0), replace(_DONE, redacted=2), "[exit 0, 2 secrets hidden]"),
        (_ended(0, output_lost=True), _DONE, "[exit 0, output lost]"),
        (_ended(0, output_lost=True, lost_bytes=12), _DONE, "[exit 0, 12 bytes of output lost]"),
        (_ended(0, sandbox=Sandbox(profile=Profile.SEALED)), _DONE, "[exit 0, sandbox sealed]"),
        (_ended(0, location=Location(kind="node", backend="far")), _DONE, "[exit 0, on far]"),
    ],
)
def test_a_header_says_what_a_model_acts_on_and_no_more(
    record: ProcessRecord, now: Circumstances, line: str
) -> None:
    assert header(record, now) == line


@pytest.mark.promise("S4.13.answers")
@pytest.mark.parametrize(
    ("record", "line"),
    [
        (_ended(signal=15, cause=Cause.CANCEL, error=STOPPED_NOTE), "[stopped by you]"),
        (_ended(0, cause=Cause.CANCEL, error=STOPPED_NOTE), "[stopped by you]"),
        (_ended(signal=15, cause=Cause.CANCEL, error="Cancelled by the client."), "[the user cancelled]"),
        (_ended(signal=9, cause=Cause.CANCEL, error="Cancelled by the client: why"), "[the user cancelled]"),
        (_ended(signal=15, cause=Cause.CANCEL, error="by ann."), "[stopped: by ann]"),
        (_ended(signal=9, cause=Cause.TIMEOUT, error="late"), "[timed out after 2.5 s, killed]"),
        (_ended(0, cause=Cause.TIMEOUT, error="late"), "[timed out after 2.5 s, killed]"),
        (_ended(3, cause=Cause.TIMEOUT, error="late"), "[timed out after 2.5 s, killed (exit 3)]"),
        (_ended(signal=9, cause=Cause.OOM, error="why"), "[killed: out of memory]"),
        (_ended(signal=9, cause=Cause.OUTPUT_LIMIT, error="why"), "[killed: more output than its limit]"),
        (_ended(signal=11), "[killed by SIGSEGV]"),
        (_ended(signal=40), "[killed by signal 40]"),
        (_ended(state=State.LOST, error="Its end is not known."), "[Its end is not known]"),
        (_ended(state=State.FAILED_TO_START, error="No such program."), "[No such program]"),
    ],
)
def test_a_failure_names_the_hand_that_ended_it(record: ProcessRecord, line: str) -> None:
    assert header(record, _DONE) == line


@pytest.mark.promise("S4.13.answers")
def test_output_that_is_not_whole_is_a_running_process() -> None:
    """S1.5: an ended process whose pipes are not drained still counts as running."""
    draining = replace(_RECORD, state=State.EXITED, exit_code=0)
    assert header(draining, _RUNS) == "[p7 running, 1.2 s]"


@pytest.mark.promise("S4.13.answers")
def test_a_start_that_waits_for_a_person_says_what_the_person_does() -> None:
    queued = replace(_RECORD, state=State.QUEUED)
    assert header(queued, _RUNS) == "[p7 waits for its turn in its group]"
    asked = ApprovalState(reason="why", expires_at=datetime(2026, 1, 2, tzinfo=UTC))
    first, second = header(replace(queued, approval=asked), _RUNS).splitlines()
    assert first == "[p7 waits for a person's approval]"
    assert "outlive approve x" in second


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (9.94, "9.9 s"),
        (9.97, "10 s"),
        (45, "45 s"),
        (179, "179 s"),
        (180, "3 min"),
        (7199, "120 min"),
        (7200, "2 h"),
        (172_800, "2 days"),
    ],
)
def test_times_are_said_as_people_say_them(seconds: float, text: str) -> None:
    """S4.13.answers."""
    assert elapsed(seconds) == text


@given(st.sampled_from(State), st.sampled_from(Cause), st.booleans(), st.integers(0, 255), st.integers(1, 64))
def test_every_record_has_a_header_of_one_line(
    state: State, cause: Cause, is_complete: bool, code: int, signal: int
) -> None:
    """S4.13.answers."""
    record = replace(
        _RECORD,
        state=state,
        cause=cause,
        is_complete=is_complete,
        exit_code=code if state is State.EXITED else None,
        exit_signal=signal if state is State.SIGNALED else None,
    )
    text = header(record, _RUNS)
    assert text.startswith("[p7 ")
    assert text.endswith("]")
    assert "\n" not in text
    assert "None" not in text
