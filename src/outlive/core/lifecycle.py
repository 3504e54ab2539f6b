"""The life of a process: its states, the causes of its end, and the one table of transitions.

And signals as callers write them.

`queued -> starting -> running <-> paused -> stopping -> exited | signaled`; `queued | starting ->
failed_to_start`; any active state `-> lost`. An exit code is never invented: `lost` has none.
"""

import signal
from enum import StrEnum

from outlive.core.errors import InvalidRequest, InvalidState


class State(StrEnum):
    """Where a process is in its life."""

    QUEUED = "queued"  # it waits for a person's approval, or for its turn because its group is full
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    EXITED = "exited"
    SIGNALED = "signaled"
    FAILED_TO_START = "failed_to_start"
    LOST = "lost"


class Trigger(StrEnum):
    """What moves a process from one state to the next."""

    ADMIT = "admit"
    SPAWNED = "spawned"
    SPAWN_FAILED = "spawn_failed"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    EXIT = "exit"
    SIGNAL = "signal"
    LOSE = "lose"


class Cause(StrEnum):
    """Why a process ended; `none` is a natural end."""

    NONE = "none"
    CANCEL = "cancel"
    TIMEOUT = "timeout"
    OUTPUT_LIMIT = "output_limit"
    OOM = "oom"
    SHUTDOWN = "shutdown"
    APPROVAL_DENIED = "approval_denied"
    APPROVAL_EXPIRED = "approval_expired"


ACTIVE = frozenset({State.STARTING, State.RUNNING, State.PAUSED, State.STOPPING})
NOT_ENDED = ACTIVE | {State.QUEUED}
ENDED = frozenset({State.EXITED, State.SIGNALED, State.FAILED_TO_START, State.LOST})

_TABLE: dict[tuple[State, Trigger], State] = {
    (State.QUEUED, Trigger.ADMIT): State.STARTING,
    (State.QUEUED, Trigger.SPAWN_FAILED): State.FAILED_TO_START,
    (State.QUEUED, Trigger.STOP): State.FAILED_TO_START,  # cancelled before its turn: it never runs
    (State.STARTING, Trigger.SPAWNED): State.RUNNING,
    (State.STARTING, Trigger.SPAWN_FAILED): State.FAILED_TO_START,
    (State.STARTING, Trigger.STOP): State.STOPPING,
    (State.RUNNING, Trigger.PAUSE): State.PAUSED,
    (State.RUNNING, Trigger.RESUME): State.RUNNING,  # repeating a control is a success (S0.10)
    (State.PAUSED, Trigger.PAUSE): State.PAUSED,
    (State.PAUSED, Trigger.RESUME): State.RUNNING,
    (State.RUNNING, Trigger.STOP): State.STOPPING,
    (State.PAUSED, Trigger.STOP): State.STOPPING,
    (State.STOPPING, Trigger.STOP): State.STOPPING,
    (State.STOPPING, Trigger.SPAWNED): State.STOPPING,
    (State.STOPPING, Trigger.SPAWN_FAILED): State.FAILED_TO_START,
    **{(state, Trigger.EXIT): State.EXITED for state in ACTIVE},
    **{(state, Trigger.SIGNAL): State.SIGNALED for state in ACTIVE},
    **{(state, Trigger.LOSE): State.LOST for state in ACTIVE},
}


def advance(state: State, trigger: Trigger) -> State:
    """Return the state that follows.

    Raises:
        InvalidState: The table has no such transition (an ended process stays ended, a stopping one is not
            paused, a queued one can only be cancelled).
    """
    following = _TABLE.get((state, trigger))
    if following is None and state is State.QUEUED:
        raise InvalidState(
            "process_queued", f"The process waits for its turn: {trigger} is not possible yet."
        )
    if following is None:
        raise InvalidState("process_ended", f"The process is {state}: {trigger} is not possible any more.")
    return following


def signal_number(wanted: int | str) -> int:
    """Return the number of a signal: 2, "INT" or "SIGINT", in upper or lower case.

    Raises:
        InvalidRequest: This system has no such signal.
    """
    name = str(wanted).upper()
    number = next(
        (known for known in signal.valid_signals() if known == wanted),
        signal.Signals.__members__.get(name if name.startswith("SIG") else f"SIG{name}"),
    )
    if number is None:
        text = f"signal: {str(wanted)[:40]!r} is no signal of this system."
        hint = "For example INT, HUP, USR1."
        raise InvalidRequest("invalid_params", text, hint=hint, details={"parameter": "signal"})
    return int(number)


def signal_name(number: int | None) -> str:
    """Return the name of a signal: "SIGTERM"; a real-time one has its number alone: "signal 40"."""
    return signal.Signals(number).name if number in _SIGNALS else f"signal {number}"


_SIGNALS = frozenset(signal.Signals)
