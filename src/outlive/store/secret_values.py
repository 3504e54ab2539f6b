"""Secrets of processes when no server is asked: their values while a process runs, and what of its log is redacted.

For the command line, which reads files. Which bytes are a secret is decided in `policy.redaction`.
"""

import contextlib
import os
from collections.abc import Iterable

from outlive.core.identity import ProcessId
from outlive.core.layout import Layout
from outlive.policy.extra_patterns import ExtraPattern, parse_pattern
from outlive.policy.redaction import Redactor
from outlive.store.folder import read_folder
from outlive.store.log_mask import Hiding


def read_values(pid: int, names: Iterable[str]) -> dict[str, str]:
    """Return variables of a running process (proc_pid_environ(5)); none if it has ended. Blocking."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:  # the process has ended meanwhile
        return {}
    found = dict(word.partition(b"=")[::2] for word in words)
    return {name: os.fsdecode(found[os.fsencode(name)]) for name in names if os.fsencode(name) in found}


def hiding_of_folder(layout: Layout, process_id: str) -> Hiding:
    """Return what of a process's log is redacted for a program that reads its files. Blocking."""
    folder = layout.process(process_id)
    extra = _noted_patterns(layout)

    def is_over() -> bool:
        return os.path.exists(f"{folder}/done")

    read = read_folder(folder, ProcessId(process_id), is_live=True)
    # A folder without a spec: it is not known whether there are secrets, so everything is redacted.
    if read is None:
        return Hiding(redactor=Redactor(extra=extra), needs_masks=True, is_over=is_over)
    record = read[0].record
    values: dict[str, str] = {}
    if record.secret_names and record.pid is not None and not is_over():
        values = read_values(record.pid, record.secret_names)
    # With a single value missing, redacting the others would give a false sense of safety.
    is_known = all(name in values for name in record.secret_names)
    redactor = Redactor(values=map(os.fsencode, values.values()) if is_known else (), extra=extra)
    return Hiding(redactor=redactor, needs_masks=not is_known, is_over=is_over)


def _noted_patterns(layout: Layout) -> list[ExtraPattern]:
    """Return the patterns of the server that ran last, without those that another version knows and this one does not."""
    try:
        with open(layout.extra_patterns, encoding="utf-8") as file:
            texts = file.read().splitlines()
    except (OSError, ValueError):
        return []
    found = []
    for text in texts:
        with contextlib.suppress(ValueError):
            found.append(parse_pattern(text))
    return found
