"""The five words for a process's state that the process tools, the registry and REST share (promise W.state.rest)."""

from typing import Literal

from outlive.core.lifecycle import Cause
from outlive.core.process import ProcessRecord

Status = Literal["running", "completed", "failed", "timeout", "terminated"]

_KILL = 9
_WAS_ENDED = frozenset({Cause.CANCEL, Cause.TIMEOUT, Cause.SHUTDOWN, Cause.OUTPUT_LIMIT})


def status_of(record: ProcessRecord) -> Status:
    """Return the word: a paused process is still running, one that is lost or has lost output has failed."""
    if not record.is_ended:
        return "running"
    if record.cause is Cause.TIMEOUT:
        return "timeout"
    if record.cause in {Cause.CANCEL, Cause.SHUTDOWN}:
        return "terminated"
    return "completed" if record.exit_code == 0 and not record.output_lost else "failed"


def termination_signal(record: ProcessRecord) -> Literal["SIGTERM", "SIGKILL"] | None:
    """Return the signal by which we ended a process; None while it runs and when it ended without us.

    One that took TERM as a wish and exited by itself was ended by SIGTERM.
    """
    if not record.is_ended or record.cause not in _WAS_ENDED:
        return None
    return "SIGKILL" if record.exit_signal == _KILL else "SIGTERM"
