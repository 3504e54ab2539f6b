"""Output that cannot be written is a failure, and nothing is lost of what a person has to know."""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from outlive.client import Client
from tests.support.processes import PATIENCE_S
from tests.support.server import OutliveServer

_FULL = "outlive: output cannot be written: No space left on device"


def _told(server: OutliveServer, words: Sequence[str], *, behind: str) -> "subprocess.CompletedProcess[str]":
    """Type a verb in a shell with a redirection behind it."""
    line = f'exec "$0" -m outlive "$@" {behind}'
    return subprocess.run(
        ["sh", "-c", line, sys.executable, *words],
        env={"OUTLIVE_STATE_DIR": str(server.state_dir), "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["ps", "--all"],
        ["ps", "--all", "--json"],
        ["logs", "ID"],
        ["logs", "--grep", "hi", "ID"],
        ["logs", "--follow", "ID"],
        ["search", "hi", "ID"],
        ["inspect", "ID"],
        ["attach", "ID"],
        ["run", "--", "echo", "hi"],
        ["config", "show"],
    ],
    ids=" ".join,
)
def test_a_full_disk_under_stdout_is_said_in_one_sentence(
    served: OutliveServer, client: Client, words: list[str]
) -> None:
    process = client.start("echo hi")
    process.wait(PATIENCE_S)
    typed = [process.process_id if word == "ID" else word for word in words]
    told = _told(served, typed, behind=">/dev/full")
    lines = told.stderr.splitlines()
    assert (told.returncode, lines.count(_FULL)) == (125, 1), told.stderr
    assert "fault of outlive" not in told.stderr


@pytest.mark.parametrize("behind", [">/dev/full", ">&-"])
def test_what_runs_on_is_named_where_its_id_cannot_be_printed(
    served: OutliveServer, client: Client, behind: str
) -> None:
    told = _told(served, ["run", "-d", "--", "sleep", "60"], behind=behind)
    assert told.returncode == 125
    named = re.search(r"^outlive: (\w{26}) was started, and goes on$", told.stderr, re.MULTILINE)
    assert named is not None, told.stderr
    process = client.get(named[1])
    assert process.info().state == "running"
    process.cancel()


def test_a_command_whose_output_cannot_be_written_has_not_succeeded(
    served: OutliveServer, tmp_path: Path
) -> None:
    """Its own exit code would be 0: it learns of no full disk."""
    told = _told(served, ["run", "-c", f"echo hi; touch {tmp_path}/after; exit 0"], behind=">/dev/full")
    assert told.returncode == 125
    assert told.stderr.splitlines() == [_FULL]
