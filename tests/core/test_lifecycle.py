"""The life of a process: the one transition table, and what can never happen."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from outlive.core.errors import InvalidState
from outlive.core.lifecycle import ACTIVE, ENDED, NOT_ENDED, State, Trigger, advance

_ENDS = {Trigger.EXIT: State.EXITED, Trigger.SIGNAL: State.SIGNALED, Trigger.LOSE: State.LOST}


def test_every_state_is_queued_active_or_ended() -> None:
    assert set(State) == NOT_ENDED | ENDED
    assert NOT_ENDED.isdisjoint(ENDED)
    assert ACTIVE | {State.QUEUED} == NOT_ENDED


@pytest.mark.parametrize(
    "trigger", sorted(set(Trigger) - {Trigger.ADMIT, Trigger.SPAWN_FAILED, Trigger.STOP})
)
def test_what_waits_for_its_turn_can_only_be_admitted_refused_or_cancelled(trigger: Trigger) -> None:
    with pytest.raises(InvalidState) as refused:
        advance(State.QUEUED, trigger)
    assert refused.value.code == "process_queued"
    assert advance(State.QUEUED, Trigger.ADMIT) is State.STARTING
    assert advance(State.QUEUED, Trigger.STOP) is State.FAILED_TO_START


@pytest.mark.parametrize(
    ("state", "trigger", "following"),
    [
        (State.STARTING, Trigger.SPAWNED, State.RUNNING),
        (State.STARTING, Trigger.SPAWN_FAILED, State.FAILED_TO_START),
        (State.STARTING, Trigger.STOP, State.STOPPING),
        (State.RUNNING, Trigger.PAUSE, State.PAUSED),
        (State.PAUSED, Trigger.PAUSE, State.PAUSED),
        (State.PAUSED, Trigger.RESUME, State.RUNNING),
        (State.RUNNING, Trigger.RESUME, State.RUNNING),
        (State.PAUSED, Trigger.STOP, State.STOPPING),
        (State.STOPPING, Trigger.STOP, State.STOPPING),
        (State.STOPPING, Trigger.SPAWNED, State.STOPPING),
    ],
)
def test_the_usual_life(state: State, trigger: Trigger, following: State) -> None:
    assert advance(state, trigger) is following


@pytest.mark.parametrize("state", sorted(ACTIVE))
@pytest.mark.parametrize(("trigger", "following"), _ENDS.items())
def test_whatever_is_active_can_end_or_be_lost(state: State, trigger: Trigger, following: State) -> None:
    assert advance(state, trigger) is following


@pytest.mark.parametrize("state", sorted(ENDED))
@pytest.mark.parametrize("trigger", list(Trigger))
def test_what_has_ended_stays_ended(state: State, trigger: Trigger) -> None:
    with pytest.raises(InvalidState) as refused:
        advance(state, trigger)
    assert refused.value.code == "process_ended"
    assert state.value in refused.value.message


@pytest.mark.parametrize("trigger", [Trigger.PAUSE, Trigger.RESUME])
def test_what_is_being_stopped_is_neither_paused_nor_resumed(trigger: Trigger) -> None:
    with pytest.raises(InvalidState):
        advance(State.STOPPING, trigger)


class AnyLife(RuleBasedStateMachine):
    """Triggers in any order: the invariants of every possible life."""

    def __init__(self) -> None:
        super().__init__()
        self.state = State.STARTING
        self.was_spawned = False
        self.was_stopped = False

    @rule(trigger=st.sampled_from(list(Trigger)))
    def pull(self, trigger: Trigger) -> None:
        before = self.state
        try:
            self.state = advance(before, trigger)
        except InvalidState:
            assert self.state is before
            return
        assert before in NOT_ENDED
        self.was_spawned |= trigger is Trigger.SPAWNED
        self.was_stopped |= trigger is Trigger.STOP

    @invariant()
    def only_a_spawned_process_runs(self) -> None:
        assert self.was_spawned or self.state not in {State.RUNNING, State.PAUSED}

    @invariant()
    def a_stop_is_never_forgotten(self) -> None:
        assert not self.was_stopped or self.state is State.STOPPING or self.state in ENDED


TestAnyLife = AnyLife.TestCase
