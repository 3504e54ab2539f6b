"""Desktop notices: what `notify-send` is told, and why there are none where there is no desktop."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from outlive.client import AsyncClient
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import State
from outlive.core.process import Owner, ProcessRecord
from outlive.observability.notify.desktop import Desktop, why_no_desktop
from outlive.observability.notify.notice import ProcessNotice, plain_line
from tests.notify.endpoints import PATIENCE_S
from tests.support.fixtures import ServerFactory

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_RECORD = ProcessRecord(
    process_id=ProcessId("01m81ds7h140vms3gn2qew5vw4"),
    command="-x\n make <b>all</b>",
    shell=None,
    cwd="/",
    state=State.EXITED,
    owner=Owner(principal="me"),
    exit_code=0,
    created_at=_NOW,
    ended_at=_NOW,
)


def _stand_in(folder: Path, *, fails: bool = False) -> dict[str, str]:
    """Put a program `notify-send` into a folder that writes down its words; return an environment with it."""
    program = folder / "notify-send"
    end = "echo no daemon >&2; exit 1" if fails else "mv $0.new $0.words"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" "$DBUS_SESSION_BUS_ADDRESS" >"$0.new"; {end}\n')
    program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere"}


async def test_a_notice_reaches_the_program_as_words_and_not_as_flags_or_markup(tmp_path: Path) -> None:
    notice = ProcessNotice(event="end", record=_RECORD, at=_NOW, last_line="<i>done</i>")
    assert (await Desktop(_stand_in(tmp_path)).deliver(notice)).verdict == "sent"
    words = (tmp_path / "notify-send.words").read_text().split("\n")
    assert words[:3] == ["--app-name=outlive", "--urgency=normal", "--"]
    assert words[3] == "Done after 0 s: make <b>all</b>"
    assert words[4] == "&lt;i&gt;done&lt;/i&gt;"
    assert words[5] == "unix:path=/nowhere"


async def test_the_program_gets_nothing_of_the_environment_but_what_leads_to_the_desktop(
    tmp_path: Path,
) -> None:
    """The server's own has keys and tokens in it."""
    environment = _stand_in(tmp_path)
    (tmp_path / "notify-send").write_text('#!/bin/sh\nenv >"$0.env"\n')
    desktop = {"DISPLAY": ":0", "WAYLAND_DISPLAY": "w", "XDG_RUNTIME_DIR": "/r", "HOME": "/h", "LANG": "C"}
    secrets = {
        "MCP_API_KEY": "k",
        "OUTLIVE_NOTIFY_WEBHOOK": "https://token",
        "AWS_SECRET": "s",
        "LD_PRELOAD": "",
    }
    notice = ProcessNotice(event="end", record=_RECORD, at=_NOW)
    assert (await Desktop({**environment, **desktop, **secrets}).deliver(notice)).verdict == "sent"
    own = {"PWD", "SHLVL", "_", "OLDPWD"}  # the shell's
    got = dict(line.split("=", 1) for line in (tmp_path / "notify-send.env").read_text().splitlines())
    assert {name: value for name, value in got.items() if name not in own} == {**environment, **desktop}


async def test_a_desktop_that_takes_nothing_is_not_asked_again(tmp_path: Path) -> None:
    notice = ProcessNotice(event="failure", record=_RECORD, at=_NOW)
    failed = await Desktop(_stand_in(tmp_path, fails=True)).deliver(notice)
    assert (failed.verdict, failed.detail) == ("refused", "notify-send: no daemon")


async def test_the_server_shows_what_it_was_told_to(serve: ServerFactory, tmp_path: Path) -> None:
    server = await asyncio.to_thread(lambda: serve("--notify-desktop", **_stand_in(tmp_path)))
    async with AsyncClient(server.state_dir, start_server=False) as client:
        process = await client.start("read -p 'Name? ' name", pty=True, notify=["question"])
        said = tmp_path / "notify-send.words"
        async with asyncio.timeout(PATIENCE_S):
            while not said.exists():  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(0.02)
        await process.cancel(0.5)
    words = said.read_text().split("\n")
    assert words[3] == "Waits for input: read -p 'Name? ' name"
    assert words[4] == f"Answer it: outlive answer {process.process_id}"


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    assert "not installed" in (why_no_desktop({"PATH": str(tmp_path)}) or "")
    environment = _stand_in(tmp_path)
    assert why_no_desktop(environment) is None
    lonely = {"PATH": environment["PATH"], "XDG_RUNTIME_DIR": str(tmp_path)}
    assert "session bus" in (why_no_desktop(lonely) or "")
    (tmp_path / "bus").touch()
    assert why_no_desktop(lonely) is None


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
