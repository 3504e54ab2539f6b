"""Doorbells in any order never undo an end, never shrink the output, and complete a process once."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from outlive.core.lifecycle import ENDED, Cause, State
from outlive.engine.processes.process import Process
from outlive.engine.processes.process_state import Change
from outlive.protocols.keeper import CauseCode, Flags, Phase
from outlive.store.rows import StoredProcess, to_ns
from tests.store.rows import START, a_row, stored_processes

KINDS = (Flags(0), Flags.SIGNALED, Flags.FAILED, Flags.LOST)
OPEN = (Flags(0), Flags.OUT_OPEN, Flags.ERR_OPEN, Flags.OUT_OPEN | Flags.ERR_OPEN)
BELL = st.tuples(
    st.integers(0, 50),
    st.integers(0, 50),
    st.sampled_from([0, 77]),
    st.integers(0, 255),
    st.sampled_from(Phase).map(int),
    st.integers(0, 5),
    st.builds(
        lambda kind, is_open, other: int(kind | is_open | other),
        st.sampled_from(KINDS),
        st.sampled_from(OPEN),
        st.sampled_from([Flags(0), Flags.GAPS, Flags.STALLED, Flags.BLOCKED]),
    ),
    st.integers(0, 3),
)


def a_new_process() -> Process:
    """Return a process whose start was not acknowledged yet."""
    fields = {"is_complete": False, "is_closed": False, "ended_at": None, "exit_code": None}
    return Process(a_row(1, state=State.STARTING, **fields).record, "/nowhere", output_limit=None)


@given(bells=st.lists(BELL))
def test_an_end_is_final_and_told_once(
    bells: list[tuple[int, int, int, int, int, int, int, int]],
) -> None:
    process, told, sizes = a_new_process(), 0, (0, 0)
    ended = complete = None
    for bell in bells:
        changes = process.status.absorb(*bell, now_ns=to_ns(START))
        record = process.record
        told |= changes & (Change.COMPLETED | told)
        assert not (changes & Change.COMPLETED and complete), "completed twice"
        assert (process.status.stdout_bytes, process.status.stderr_bytes) >= sizes or sizes == (0, 0)
        assert process.status.stdout_bytes >= sizes[0]
        assert process.status.stderr_bytes >= sizes[1]
        sizes = process.status.stdout_bytes, process.status.stderr_bytes
        assert record.is_ended == (record.state in ENDED)
        if ended:
            assert record.is_ended
            assert not changes & Change.NOTHING
        if complete:
            assert (process.status.complete_stdout_bytes, process.status.complete_stderr_bytes) == complete
        known = record.state in {State.EXITED, State.SIGNALED}
        assert (record.exit_code is not None) + (record.exit_signal is not None) == known
        assert (record.error is None) or record.is_ended
        assert not record.is_closed or record.is_complete
        assert not record.is_complete or record.is_ended
        ended = record.is_ended
        if process.status.is_complete:
            complete = (process.status.complete_stdout_bytes, process.status.complete_stderr_bytes)
            assert complete != (None, None)


@given(bell=BELL)
def test_a_repeated_doorbell_changes_nothing(bell: tuple[int, int, int, int, int, int, int, int]) -> None:
    process = a_new_process()
    process.status.absorb(*bell)
    before = process.record
    assert process.status.absorb(*bell) == 0
    assert process.record == before


@given(stored=stored_processes)
def test_a_loaded_process_tells_what_was_stored(stored: StoredProcess) -> None:
    """What is consistent comes back unchanged from the registry."""
    record = stored.record
    is_ended = record.state in ENDED
    record = replace(
        record,
        exit_code=record.exit_code or 0 if record.state is State.EXITED else None,
        exit_signal=record.exit_signal or 9 if record.state is State.SIGNALED else None,
        ended_at=record.ended_at if is_ended else None,
        is_complete=record.is_complete and is_ended,
        is_closed=record.is_closed and record.is_complete and is_ended,
        error=record.error or ("why" if is_ended else None),
    )
    stored = replace(stored, record=record)
    process = Process.from_stored(stored, "/nowhere")
    assert process.stored == replace(stored, record=record)


def test_what_the_files_tell_settles_a_process() -> None:
    process = a_new_process()
    process.status.confirm_start(7, to_ns(START))
    assert process.status.state is State.RUNNING
    changes = process.end_as(a_row(1, exit_code=4, stdout_bytes=9, pid=7))
    assert changes & Change.COMPLETED
    assert changes & Change.FINISHED
    record = process.record
    assert (record.exit_code, record.stdout_bytes, record.cause) == (4, 9, Cause.NONE)
    assert record.started_at == START
    assert process.end_as(a_row(1, exit_code=5)) == 0


def test_an_end_says_why_it_came_whatever_was_asked_for_before() -> None:
    """A stop may have been lost on its way to a node."""
    process = a_new_process()
    process.status.absorb(0, 0, 7, 0, Phase.RUNNING, int(CauseCode.CANCEL), 0, 0)
    process.status.absorb(0, 0, 7, 4, Phase.DONE, int(CauseCode.NONE), 0, 0)
    record = process.record
    assert (record.exit_code, record.cause, record.error) == (4, Cause.NONE, None)


def test_an_end_that_was_told_keeps_its_moment() -> None:
    """The files have the shim's own moment; a start that was sent twice has them read after the doorbell."""
    process = a_new_process()
    process.status.absorb(0, 0, 7, 4, Phase.DONE, 0, 0, 0, now_ns=to_ns(START) + 5_000_000)
    told = process.record
    assert process.end_as(a_row(1, exit_code=4, pid=7, ended_at=START)) == 0
    assert process.record.ended_at == told.ended_at != START


def test_an_acknowledged_pause_counts_until_the_doorbell_comes() -> None:
    process = a_new_process()
    states = []
    process.status.confirm_pause(is_paused=True)
    states.append(process.status.state)
    process.status.confirm_start(7, 1)
    for is_paused in (True, False):
        process.status.confirm_pause(is_paused=is_paused)
        states.append(process.status.state)
    process.status.absorb(0, 0, 7, 0, Phase.STOPPING, 1, 0, 0)
    process.status.confirm_pause(is_paused=False)
    states.append(process.status.state)
    assert states == [State.STARTING, State.PAUSED, State.RUNNING, State.STOPPING]


def test_subscribers_are_woken_until_they_leave() -> None:
    process, woken = a_new_process(), []
    leave = process.subscribers.add(lambda: woken.append(1))
    process.subscribers.add(lambda: woken.append(2))
    process.subscribers.wake()
    leave()
    leave()
    process.subscribers.wake()
    assert woken == [1, 2, 2]
