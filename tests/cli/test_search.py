"""`outlive search`, from outside: a text in the output of all processes."""

import json
import os
import pty
import re
import select
import signal
import subprocess
from pathlib import Path

import pytest

from outlive.client import Client
from tests.cli.launching import environment
from tests.support.server import OutliveServer, outlive_command, run_outlive


@pytest.mark.thorough
@pytest.mark.promise("C.search")
def test_a_text_is_found_in_every_output_with_what_its_process_is_called(
    served: OutliveServer, client: Client, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    project = str(tmp_path)
    named = client.start("echo needle one; echo other; echo needle two >&2", name="web", project=project)
    short = client.start("printf 'no newline: NEEDLE \\033[31m'", project=project)
    elsewhere = client.start("seq 1 30000; echo needle at the end", group="g")
    for process in (named, short, elsewhere):
        process.wait(20, until="closed")

    def found(*words: str) -> tuple[int, list[str]]:
        done = run_outlive("search", *words, state_dir=served.state_dir, cwd=tmp_path)
        return done.returncode, done.stdout.splitlines()

    end = elsewhere.process_id[-6:]
    assert found("needle") == (0, [f"{end}: needle at the end", "web: needle one", "web: needle two"])
    assert found("-i", "needle", "--project")[1][0] == "p2: no newline: NEEDLE "
    assert found("needle", "-n", "1", "web") == (0, ["web: needle one"])
    assert found("needle", "--group", "g") == (0, [f"{end}: needle at the end"])
    assert found("no such text") == (1, [])
    code, lines = found("--json", "needle two")
    assert (code, json.loads(lines[0])["process_id"]) == (0, named.process_id)


@pytest.mark.thorough
@pytest.mark.promise("C.search")
@pytest.mark.usefixtures("stays_stopped")
def test_a_long_search_shows_at_a_terminal_that_it_goes_on_and_its_lines_go_to_stdout(
    own_server: OutliveServer,
) -> None:
    """The bar is on stderr alone: the lines reach a pipe, though stderr is a terminal."""
    with Client(own_server.state_dir, start_server=False) as client:
        client.start("echo straw", name="hay").wait(20, until="closed")
    master, slave = pty.openpty()
    os.kill(own_server.pid, signal.SIGSTOP)  # so that it takes longer than a second
    try:
        process = subprocess.Popen(
            [*outlive_command(), "search", "straw", "--state-dir", str(own_server.state_dir)],
            env=environment({"TERM": "xterm"}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=slave,
        )
        shown = ""
        while "searching" not in shown:
            assert select.select([master], [], [], 20)[0], shown
            shown += os.read(master, 65536).decode()
    finally:
        os.kill(own_server.pid, signal.SIGCONT)
    out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, b"hay: straw\n")
    os.close(slave)
    os.close(master)
    assert run_outlive("search", "straw", state_dir=own_server.state_dir).stderr == ""


@pytest.mark.thorough
@pytest.mark.promise("C.search")
def test_a_search_that_is_stopped_says_how_much_was_searched(own_server: OutliveServer) -> None:
    """The newest output has a match, which is shown at once.

    The gigabyte behind it takes seconds, as no text has to be in it.
    """
    with Client(state_dir=own_server.state_dir) as client:
        client.start("yes | head -c 1000000000", output_limit=1_500_000_000).wait(120, until="closed")
        client.start("echo zqx").wait(20, until="closed")
    words = [
        *outlive_command(),
        "search",
        "--regex",
        "[z][q][x]|[w][v]",
        "--state-dir",
        str(own_server.state_dir),
    ]
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().endswith(": zqx\n")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode in {130, -signal.SIGINT}
    assert re.fullmatch(
        r"outlive: stopped after \d+(\.\d)?[BKM] of 953\.7M, the newest output first\n", said
    ), said
