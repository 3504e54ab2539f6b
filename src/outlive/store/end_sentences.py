"""The sentences that say why a process ended or what of its output is lost.

The same for live and for reread processes.

Output is lost when it was written, or is known to have been, and is not in the log any more. That can happen
in two ways. A shim and the supervisor died at the same instant and took a pipe's content with them (the
keeper records that in `done`). Or a log was cut after the end, by a crash of the machine or by hand.

Which state a process is in is decided elsewhere (`folder`, `engine`); this module only words it.
"""

import os

from outlive.core.cursor import Cursor
from outlive.core.layout import STREAM_FILES
from outlive.core.lifecycle import Cause, State
from outlive.core.process import ProcessRecord
from outlive.core.values import replace
from outlive.store.rows import StoredProcess

NEVER_RAN = "The command was never started: server and keeper ended before they could."
WAS_COPIED = (
    "It was running, or waited, when this state folder was copied or backed up: what became of it is "
    "known where the original lies."
)


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

    `note` names the caller that asked for a cancel. The timeout's text is promise S1.7. `loss`: the sentence
    of a natural end whose output is incomplete (`loss_sentence`).
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
        case Cause.APPROVAL_DENIED | Cause.APPROVAL_EXPIRED:  # of a command that never ran: its state says so
            return note or "It was not approved."


def loss_sentence(lost_bytes: int | None) -> str:
    """Return the sentence about a process whose output is not complete."""
    if lost_bytes is None:
        return (
            "Some of its output may be lost: its shim and the supervisor died at the same instant, or "
            "its log was cut."
        )
    return (
        f"{lost_bytes} bytes of its output are lost: the log is shorter than it was when the command ended."
    )


def missing_bytes(folder: str, complete: Cursor) -> int:
    """Return by how many bytes the logs are shorter than at completion; 0 for a folder that was removed.

    Blocks.
    """
    missing = 0
    for name, wanted in zip(STREAM_FILES, (complete.stdout, complete.stderr), strict=True):
        if not wanted:
            continue  # the stream was empty: its file may never have been made
        try:
            missing += max(0, wanted - os.stat(f"{folder}/{name}").st_size)
        except FileNotFoundError:
            if not os.path.isdir(folder):
                return 0
            missing += wanted
        except OSError:
            continue  # unreadable: nothing is known
    return missing


def with_loss(record: ProcessRecord, lost_bytes: int | None) -> ProcessRecord:
    """Return the record of a process whose output is not complete, with a sentence that says so."""
    loss = loss_sentence(lost_bytes)
    error = record.error or ended_sentence(record.state, record.cause, loss=loss)
    return replace(record, output_lost=True, lost_bytes=lost_bytes, error=error)


def with_missing(stored: StoredProcess, folder: str) -> StoredProcess:
    """Return a process as it is now: its log may have been cut since its row was written. Blocks."""
    if stored.complete is None or not (missing := missing_bytes(folder, stored.complete)):
        return stored
    return replace(stored, record=with_loss(stored.record, missing))
