"""Output that is lost: what was written, or known to be written, and is not in the log any more.

Two ways lead there: a shim and the supervisor that died at the same instant took a pipe's content with them (the
keeper says so in `done`), and a log can be cut after the end, by a crash of the machine or by somebody's hand.
"""

import os
from dataclasses import replace

from outlive.core.cursor import Cursor
from outlive.core.layout import STREAM_FILES
from outlive.core.process import ProcessRecord
from outlive.store.end_sentences import ended_sentence, loss_sentence
from outlive.store.rows import StoredProcess


def missing_bytes(folder: str, complete: Cursor) -> int:
    """Return by how many bytes the logs are shorter than they were at completion; 0 of a folder that was removed. Blocks."""
    missing = 0
    for name, wanted in zip(STREAM_FILES, (complete.stdout, complete.stderr), strict=True):
        if not wanted:
            continue  # its file may never have been made
        try:
            missing += max(0, wanted - os.stat(f"{folder}/{name}").st_size)
        except FileNotFoundError:
            if not os.path.isdir(folder):
                return 0
            missing += wanted
        except OSError:
            continue  # nothing is known
    return missing


def with_loss(record: ProcessRecord, lost_bytes: int | None) -> ProcessRecord:
    """Return the record of a process whose output is not whole."""
    loss = loss_sentence(lost_bytes)
    error = record.error or ended_sentence(record.state, record.cause, loss=loss)
    return replace(record, output_lost=True, lost_bytes=lost_bytes, error=error)


def with_missing(stored: StoredProcess, folder: str) -> StoredProcess:
    """Return a process as it is now: its log may have been cut since its row was written. Blocks."""
    if stored.complete is None or not (missing := missing_bytes(folder, stored.complete)):
        return stored
    return replace(stored, record=with_loss(stored.record, missing))
