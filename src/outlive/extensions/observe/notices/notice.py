"""What is said outside about a process (`ProcessNotice`) or the disk (`DiskNotice`), as JSON. Pure.

What delivers one is a `NoticeChannel`, whose `Attempt` says what became of it.
A notice has no environment and no output, but for the last line where the operator wants that. The command is
the record's, in which secrets are redacted already.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Literal, Protocol

from outlive.core.command import NotifyEvent
from outlive.core.identity import short_name
from outlive.core.process import ProcessRecord, status_of
from outlive.core.values import dataclass

_MAX_TEXT = 1000  # characters of a command or a line: for a look, not for a record
_CONTROLS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessNotice:
    """One thing to say about one process; `at` is aware UTC.

    `id` is the same however often this is said: a receiver drops what it knows already. `last_line` is None
    where it is not shown.
    """

    event: NotifyEvent
    record: ProcessRecord
    at: datetime
    last_line: str | None = None

    @property
    def id(self) -> str:
        """The end of a process happens once.

        A question or a silence is known by where in the output it is.
        """
        if self.settles:
            return f"{self.record.process_id}.end"
        # The same prompt again, after an answer, stands further on in the output, and is news.
        return f"{self.record.process_id}.{self.event}.{self.record.cursor}"

    @property
    def settles(self) -> bool:
        """Whether nothing is owed for the process any more once this is delivered."""
        return self.event in {"end", "failure"}

    def payload(self) -> Mapping[str, object]:
        """Return it as receivers get it."""
        record = self.record
        return {
            **_for_all(self),
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

    @property
    def title(self) -> str:
        """For a person. It has the process's name or short id, not its command: others may read it."""
        record = self.record
        seconds = f"after {_seconds(record, self.at):.0f} s"
        begin = {
            "end": f"Done {seconds}",
            "failure": f"Failed {seconds}",
            "question": f"Waits for {'a password' if record.waiting == 'password' else 'input'}",
            "silence": "Silent",
        }
        return f"{begin[self.event]}: {record.name or short_name(record.process_id)}"

    @property
    def text(self) -> str:
        """For a person, without the command as well: how it is, or its last line, and what shows more."""
        record = self.record
        if self.event == "question":
            return f"outlive answer {record.process_id}"
        how = f"Exit code {record.wire_exit_code}. " if record.wire_exit_code is not None else ""
        return self.last_line or f"{how}outlive logs {record.process_id}"


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
        """Return it as receivers get it."""
        return {
            **_for_all(self),
            "at": self.since.isoformat(),
            "free_bytes": self.free_bytes,
            "limit_bytes": self.limit_bytes,
        }

    @property
    def title(self) -> str:
        """For a person."""
        return f"Disk low: {self.free_bytes / (1 << 30):.1f} GiB free"

    @property
    def text(self) -> str:
        """For a person."""
        return f"Less than {self.limit_bytes / (1 << 30):.1f} GiB: `outlive df` shows what takes it."


Notice = ProcessNotice | DiskNotice

# By event, what ntfy and its like take (docs.ntfy.sh/publish): a priority (1 to 5; 3 is its default, from 4
# on a phone makes itself heard), and the short code of an emoji.
_PRIORITY_AND_EMOJI = {
    "end": (3, "white_check_mark"),
    "failure": (4, "x"),
    "question": (4, "question"),
    "silence": (4, "zzz"),
    "disk": (5, "floppy_disk"),
}


def _for_all(notice: Notice) -> dict[str, object]:
    """Return the members that every notice has."""
    priority, emoji = _PRIORITY_AND_EMOJI[notice.event]
    return {
        "id": notice.id,
        "event": notice.event,
        "title": notice.title,
        "text": notice.text,
        "priority": priority,
        "emoji": emoji,
    }


# Of one attempt: GitHub's own for receivers of its webhooks. A receiver should answer first and work then.
DEADLINE_S = 10.0

# "again": it may work later. "refused": it never will, and `detail` says why.
Verdict = Literal["sent", "again", "refused"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of one attempt; `detail` is for the log and holds nothing of the operator's URL."""

    verdict: Verdict
    detail: str = ""


class NoticeChannel(Protocol):
    """One way to notify."""

    @property
    def name(self) -> str:
        """What it is called in the log: the operator's URL or command may hold a token."""

    async def deliver(self, notice: Notice) -> Attempt:
        """Try once, for `DEADLINE_S` at most; never raises for what the other side does."""


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
