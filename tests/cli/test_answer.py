"""`outlive answer`: a person answers what a process asks, unseen where that is a password."""

import subprocess

import pytest

from outlive.client import Client, Process
from tests.cli.launching import environment
from tests.cli.terminals import on_a_terminal
from tests.support.server import OutliveServer, outlive_command, run_outlive


def _stop(process: Process) -> None:
    process.cancel(0.2)
    process.wait(20)


_ASKS = "read -s -p 'Password: ' secret; echo; echo got ${#secret}; read -p 'Sure? ' sure; echo $sure"


@pytest.mark.thorough
@pytest.mark.promise("N.answer")
def test_a_password_is_typed_unseen_and_is_nowhere(served: OutliveServer, client: Client) -> None:
    process = client.start(_ASKS, pty=True)
    with on_a_terminal("answer", process.process_id, state_dir=served.state_dir) as screen:
        screen.until("Password: ", times=2)  # the question, and ours
        screen.type("hunter2\r")
        shown = screen.until("\n", times=2)
        assert screen.end() == 0
    assert "hunter2" not in shown
    assert process.wait(20, until="input").waiting == "input"
    code, _, _ = _answered(served, process, b"yes\n")
    assert code == 0
    assert process.wait(20).exit_code == 0
    out = b"".join(item.data for item in process.tail().items if hasattr(item, "data"))
    assert b"got 7" in out
    assert b"hunter2" not in out
    for file in served.state_dir.rglob("*"):
        if file.is_file() and "reserve" not in file.parts:
            assert b"hunter2" not in file.read_bytes(), file
    assert "hunter2" not in served.stderr


def _answered(served: OutliveServer, process: Process, text: bytes, *words: str) -> tuple[int, str, str]:
    words = ("answer", process.process_id, "--stdin", *words, "--state-dir", str(served.state_dir))
    done = subprocess.run(
        [*outlive_command(), *words],
        input=text,
        env=environment(),
        capture_output=True,
        check=False,
        timeout=30,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.thorough
@pytest.mark.promise("N.answer")
def test_a_process_that_asks_nothing_gets_nothing(served: OutliveServer, client: Client) -> None:
    process = client.start("sleep 1000", pty=True)
    code, _, err = _answered(served, process, b"yes\n")
    assert (code, "does not wait for input" in err) == (1, True)
    assert process.info().cursor.stdout == 0  # a terminal would have shown it
    code, _, _ = _answered(served, process, b"yes\n", "--force")
    assert code == 0
    _stop(process)
    code, _, err = _answered(served, process, b"yes\n")
    assert (code, "has ended" in err) == (1, True)


def test_what_waits_is_said_first_in_the_list(served: OutliveServer, client: Client) -> None:
    process = client.start("read -s -p 'Password: ' p", pty=True)
    process.wait(20, until="input")
    newer = client.start("sleep 1000")
    _, first, *_ = run_outlive("ps", state_dir=served.state_dir).stdout.splitlines()
    assert first.startswith(process.process_id[-6:])
    assert "asks for password" in first
    _stop(process)
    _stop(newer)
