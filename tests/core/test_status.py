"""The shared words for a process's state, and how it was ended."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import get_args

import pytest

from outlive.core.errors import InvalidRequest
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import NOT_ENDED, Cause, State, signal_number
from outlive.core.process import Owner, ProcessRecord, Status, status_of, termination_signal

_RUNNING = ProcessRecord(
    process_id=ProcessId("0" * 26),
    command="true",
    shell=None,
    cwd="/",
    state=State.RUNNING,
    owner=Owner(principal="me"),
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)
_ENDED = replace(_RUNNING, state=State.EXITED, exit_code=0)


@pytest.mark.promise("W.state.rest")
@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("cause", list(Cause))
@pytest.mark.parametrize("code", [0, 1, None])
def test_every_state_has_exactly_one_of_the_five_words(state: State, cause: Cause, code: int | None) -> None:
    word = status_of(replace(_RUNNING, state=state, cause=cause, exit_code=code))
    assert word in get_args(Status)
    assert (word == "running") == (state in NOT_ENDED)
    assert (word == "completed") <= (code == 0)


@pytest.mark.promise("W.state.rest")
@pytest.mark.parametrize(
    ("record", "word", "signal"),
    [
        (replace(_RUNNING, state=State.PAUSED), "running", None),
        (_ENDED, "completed", None),
        (replace(_ENDED, exit_code=3), "failed", None),
        (replace(_ENDED, state=State.SIGNALED, exit_code=None, exit_signal=9), "failed", None),
        (replace(_ENDED, state=State.LOST, exit_code=None), "failed", None),
        (replace(_ENDED, cause=Cause.TIMEOUT), "timeout", "SIGTERM"),
        (replace(_ENDED, cause=Cause.CANCEL), "terminated", "SIGTERM"),
        (replace(_ENDED, cause=Cause.CANCEL, exit_code=None, exit_signal=9), "terminated", "SIGKILL"),
        (replace(_ENDED, cause=Cause.OUTPUT_LIMIT, exit_code=None, exit_signal=15), "failed", "SIGTERM"),
        (replace(_RUNNING, cause=Cause.CANCEL), "running", None),
    ],
)
def test_the_word_says_how_it_ended(record: ProcessRecord, word: str, signal: str | None) -> None:
    assert (status_of(record), termination_signal(record)) == (word, signal)


@pytest.mark.parametrize("wanted", [2, "INT", "SIGINT", "int"])
def test_a_signal_has_names_and_a_number(wanted: int | str) -> None:
    assert signal_number(wanted) == 2


@pytest.mark.parametrize("wanted", [0, 65, -1, "", "SIG", "2", "SIG_IGN"])
def test_what_is_no_signal_is_refused(wanted: int | str) -> None:
    with pytest.raises(InvalidRequest):
        signal_number(wanted)
