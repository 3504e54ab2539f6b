"""The sentences that tell why a process ended: written once, used for live and for reread processes."""

import os

from outlive.core.lifecycle import Cause, State

NEVER_RAN = "The command was never started: server and keeper ended before they could."
WAS_COPIED = "It was running, or waited, when this state folder was copied: what became of it is known where the original lies."


def ended_sentence(
    state: State,
    cause: Cause,
    *,
    note: str = "",
    timeout_s: float | None = None,
    output_limit: int | None = None,
    errno: int = 0,
    loss: str | None = None,
) -> str | None:
    """Return the sentence for `ProcessRecord.error`; None for a natural end and for what still runs.

    `note` says who asked for a cancel. The timeout's text is promise S1.7. `loss`: what a natural end says instead of
    nothing (`loss_sentence`).
    """
    if state is State.LOST:
        return note or "How it ended cannot be known: the machine or the keeper was lost while it ran."
    if state is State.FAILED_TO_START:
        return note or f"The command could not be started: {os.strerror(errno)}."
    if state not in (State.EXITED, State.SIGNALED):
        return None
    match cause:
        case Cause.NONE:
            return loss
        case Cause.CANCEL:
            return note or "Cancelled by the client."
        case Cause.TIMEOUT:
            return f"Command timed out after {timeout_s or 0:g} seconds"
        case Cause.OUTPUT_LIMIT:
            return f"Ended because its output passed the limit of {output_limit or 0} bytes."
        case Cause.OOM:
            return "Ended by the kernel: the machine or its group ran out of memory."
        case Cause.SHUTDOWN:
            return note or "Ended because the server was told to stop its processes."
        case Cause.APPROVAL_DENIED | Cause.APPROVAL_EXPIRED:  # of what never ran: told by its state
            return note or "It was not approved."


def loss_sentence(lost_bytes: int | None) -> str:
    """Return what is said of a process whose output is not whole."""
    if lost_bytes is None:
        return "Some of its output may be lost: its shim and the supervisor died at the same instant, or its log was cut."
    return (
        f"{lost_bytes} bytes of its output are lost: the log is shorter than it was when the command ended."
    )
