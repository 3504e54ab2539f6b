"""What is said to people and programs outside, about a process (`ProcessNotice`) or the disk (`DiskNotice`): as JSON and as two lines. Pure.

A notice has no environment and no output, but for the last line where the operator wants that. The command is the record's, in
which secrets are redacted already.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from outlive.core.command import NotifyEvent
from outlive.core.identity import short_name
from outlive.core.process import ProcessRecord, status_of

_MAX_TEXT = 1000  # characters of a command or a line: for a look, not for a record
_CONTROLS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessNotice:
    """One thing to say about one process; `at` is aware UTC.

    `id` is the same however often this is said: a receiver drops what it knows already. `last_line` is None where it is not shown.
    """

    event: NotifyEvent
    record: ProcessRecord
    at: datetime
    last_line: str | None = None

    @property
    def id(self) -> str:
        """The end of a process happens once; a question or a silence is known by where in the output it is."""
        if self.settles:
            return f"{self.record.process_id}.end"
        # The same prompt again, after an answer, stands further on in the output, and is news.
        return f"{self.record.process_id}.{self.event}.{self.record.cursor}"

    @property
    def settles(self) -> bool:
        """Whether nothing is owed for the process any more once this is delivered."""
        return self.event in {"end", "failure"}

    def payload(self) -> Mapping[str, object]:
        """Return it as webhooks get it."""
        record = self.record
        return {
            "id": self.id,
            "event": self.event,
            "at": self.at.isoformat(),
            "process_id": record.process_id,
            "command": record.command[:_MAX_TEXT],
            "state": record.state,
            "exit_code": record.wire_exit_code,
            "error": record.error,
            "seconds": _seconds(record, self.at),
            "cwd": record.cwd,
            "tags": dict(record.tags),
            "waiting": record.waiting if self.event == "question" else "no",
            **({} if self.last_line is None else {"last_line": self.last_line}),
        }

    def lines(self) -> tuple[str, str]:
        """Return a title and a text for a person."""
        record = self.record
        command = plain_line(record.command)[:200]
        if self.event == "question":
            what = "a password" if record.waiting == "password" else "input"
            return f"Waits for {what}: {command}", f"Answer it: outlive answer {record.process_id}"
        if self.event == "silence":
            return f"Silent: {command}", self.last_line or f"Look at it: outlive logs {record.process_id}"
        seconds = f"after {_seconds(record, self.at):.0f} s"
        if self.event == "end":
            return f"Done {seconds}: {command}", self.last_line or record.process_id
        why = record.error or f"Exit code {record.wire_exit_code}."
        return f"Failed {seconds}: {command}", self.last_line or why

    def without_command(self) -> tuple[str, str]:
        """Return the same without the command: for a channel that others may read."""
        record = self.record
        name = record.name or short_name(record.process_id)
        begin = self.lines()[0].partition(":")[0]
        if self.event == "question":
            return f"{begin}: {name}", f"outlive answer {record.process_id}"
        how = f"Exit code {record.wire_exit_code}. " if record.wire_exit_code is not None else ""
        return f"{begin}: {name}", self.last_line or f"{how}outlive logs {record.process_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskNotice:
    """Less than `limit_bytes` is free on the state folder's file system, since `since` (aware UTC)."""

    since: datetime
    free_bytes: int
    limit_bytes: int
    last_line: str | None = None
    event: Literal["disk"] = "disk"

    @property
    def id(self) -> str:
        """The same from when it became low until there was room again."""
        return f"disk.{self.since:%Y%m%dT%H%M%SZ}"

    @property
    def settles(self) -> bool:
        """Of no process."""
        return False

    def payload(self) -> Mapping[str, object]:
        """Return it as webhooks get it."""
        return {
            "id": self.id,
            "event": self.event,
            "at": self.since.isoformat(),
            "free_bytes": self.free_bytes,
            "limit_bytes": self.limit_bytes,
        }

    def lines(self) -> tuple[str, str]:
        """Return a title and a text for a person."""
        free, limit = (f"{count / (1 << 30):.1f} GiB" for count in (self.free_bytes, self.limit_bytes))
        return f"Disk low: {free} free", f"Less than {limit}: `outlive df` shows what takes it."

    def without_command(self) -> tuple[str, str]:
        """Return the same: there is none."""
        return self.lines()


Notice = ProcessNotice | DiskNotice


def event_of(record: ProcessRecord, wanted: frozenset[NotifyEvent]) -> NotifyEvent | None:
    """Return which event the end of a process is, or None when it is not wanted: a failure is an end, too."""
    if status_of(record) != "completed":
        return "failure" if wanted & {"failure", "end"} else None
    return "end" if "end" in wanted else None


def plain_line(text: str) -> str:
    """Return the last line of a text that says something, without what controls a terminal."""
    lines = (_CONTROLS.sub("", line).strip() for line in reversed(re.split(r"[\r\n]+", text)))
    return next(filter(None, lines), "")[:_MAX_TEXT]


def _seconds(record: ProcessRecord, now: datetime) -> float:
    return round(((record.ended_at or now) - (record.started_at or record.created_at)).total_seconds(), 3)
