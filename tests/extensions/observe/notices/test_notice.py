"""What a notice says, without a server."""

from datetime import UTC, datetime
from typing import Any

import pytest

from outlive.core.command import NotifyEvent
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import State
from outlive.core.process import Owner, ProcessRecord
from outlive.extensions.observe.notices.notice import DiskNotice, ProcessNotice, plain_line

NOW = datetime(2026, 1, 1, tzinfo=UTC)
_ID = "01m81ds7h140vms3gn2qew5vw4"


def a_notice(
    event: NotifyEvent = "end",
    *,
    last_line: str | None = None,
    **members: Any,  # noqa: ANN401 -- members of the record
) -> ProcessNotice:
    """Return a notice of a process that has ended, or is otherwise as `members` say."""
    record = ProcessRecord(
        **{
            "process_id": ProcessId(_ID),
            "command": "make a-secret-target",
            "shell": None,
            "cwd": "/",
            "state": State.EXITED,
            "owner": Owner(principal="me"),
            "exit_code": 0,
            "created_at": NOW,
            "ended_at": NOW,
            **members,
        }
    )
    return ProcessNotice(event=event, record=record, at=NOW, last_line=last_line)


_RUNNING: dict[str, Any] = {"state": State.RUNNING, "exit_code": None, "ended_at": None}
_FAILED: dict[str, Any] = {"event": "failure", "exit_code": 3}
_ASKS: dict[str, Any] = {"event": "question", **_RUNNING}


@pytest.mark.parametrize(
    ("of", "title", "text", "priority", "emoji"),
    [
        ({}, "Done after 0 s: ew5vw4", f"Exit code 0. outlive logs {_ID}", 3, "white_check_mark"),
        ({**_FAILED, "name": "web"}, "Failed after 0 s: web", f"Exit code 3. outlive logs {_ID}", 4, "x"),
        ({**_FAILED, "last_line": "why"}, "Failed after 0 s: ew5vw4", "why", 4, "x"),
        ({**_ASKS, "waiting": "input"}, "Waits for input: ew5vw4", f"outlive answer {_ID}", 4, "question"),
        (
            {**_ASKS, "waiting": "password", "last_line": "Password:"},
            "Waits for a password: ew5vw4",
            f"outlive answer {_ID}",
            4,
            "question",
        ),
        ({"event": "silence", **_RUNNING}, "Silent: ew5vw4", f"outlive logs {_ID}", 4, "zzz"),
    ],
)
def test_title_and_text_are_for_a_person_and_name_no_command(
    of: dict[str, Any], title: str, text: str, priority: int, emoji: str
) -> None:
    said = a_notice(**of).payload()
    assert (said["title"], said["text"], said["priority"], said["emoji"]) == (title, text, priority, emoji)
    assert "a-secret-target" not in title + text


def test_a_notice_of_the_disk_has_the_members_that_every_notice_has() -> None:
    said = DiskNotice(since=NOW, free_bytes=1 << 29, limit_bytes=1 << 30).payload()
    shared = {"id", "event", "title", "text", "priority", "emoji", "at"}
    assert {*a_notice().payload()} & {*said} == shared
    assert (said["title"], said["priority"]) == ("Disk low: 0.5 GiB free", 5)
    assert said["text"] == "Less than 1.0 GiB: `outlive df` shows what takes it."


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb\n", "b"),
        ("50%\r100%\r\n\n", "100%"),
        ("\x1b]0;t\x07\x1b[1mName?\x1b[0m ", "Name?"),
        ("\n\n", ""),
        ("", ""),
        ("x" * 5000, "x" * 1000),
    ],
)
def test_the_last_line_is_the_last_that_says_something(text: str, line: str) -> None:
    assert plain_line(text) == line
