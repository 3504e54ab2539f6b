"""`outlive wait` against a real server, as agents' hosts use it."""

import json
import re

import pytest

from outlive.cli.verbs.wait import parse_wish
from outlive.client import Client, InvalidRequest, Process
from tests.support.server import OutliveServer, free_port, run_outlive

_TIMEOUT = ("--timeout", "30")


def _outlive(served: OutliveServer, *words: str) -> tuple[int, str, str]:
    done = run_outlive(*words, state_dir=served.state_dir)
    return done.returncode, done.stdout, done.stderr


def _stop(process: Process) -> None:
    process.cancel(0.2)
    process.wait(20)


@pytest.mark.promise("N.wait")
def test_each_end_is_a_line_with_its_last_words(served: OutliveServer, client: Client) -> None:
    first = client.start("echo one; printf 'x\\r\\033[31mlast words\\033[0m\\n\\n'; exit 4")
    second = client.start("true")
    code, out, _ = _outlive(served, "wait", first.process_id, second.process_id, *_TIMEOUT)
    assert code == 4
    lines = sorted(out.splitlines())
    assert re.fullmatch(rf"{first.process_id}  failed \(exit 4\) after \d+\.\d s: last words", lines[0])
    assert re.fullmatch(rf"{second.process_id}  finished after \d+\.\d s", lines[1])


@pytest.mark.promise("N.wait")
def test_any_returns_with_the_first(served: OutliveServer, client: Client) -> None:
    slow, quick = client.start("sleep 1000"), client.start("exit 7")
    code, out, _ = _outlive(served, "wait", "--any", slow.process_id, quick.process_id, *_TIMEOUT)
    assert (code, out.split("  ")[0], out.count("\n")) == (7, quick.process_id, 1)
    _stop(slow)


@pytest.mark.promise("N.wait")
@pytest.mark.parametrize(
    ("line", "pty", "wish", "code", "said"),
    [
        (
            "echo booting; echo ready now; sleep 1000",
            False,
            "text=ready",
            0,
            "has printed 'ready': ready now",
        ),
        ("echo at the end", False, "text=the end", 0, "has printed 'the end': at the end"),
        ("echo never", False, "text=ready", 1, "finished after"),
        ("exit 5", False, "text=ready", 5, "failed (exit 5) after"),
        ("echo once; sleep 1000", False, "idle=0.4", 0, "printed nothing for 0.4 s: once"),
        ("read -s -p 'Password: ' p; sleep 1000", True, "question", 3, "asks for password: Password:"),
        ("read -p 'Sure? ' p; sleep 1000", True, "question", 3, "asks for input: Sure?"),
        ("exit 6", True, "question", 6, "failed (exit 6) after"),
    ],
)
def test_a_wish_that_comes_before_the_end_returns(
    served: OutliveServer, client: Client, line: str, *, pty: bool, wish: str, code: int, said: str
) -> None:
    process = client.start(line, pty=pty)
    ended, out, _ = _outlive(served, "wait", process.process_id, "--for", wish, *_TIMEOUT)
    assert said in out
    assert (ended, out.count("\n")) == (code, 1)
    if not process.info().is_complete:
        _stop(process)


@pytest.mark.promise("N.wait")
def test_a_port_that_opens_returns(served: OutliveServer, client: Client) -> None:
    port = free_port()
    process = client.start(f"exec python3 -m http.server {port} --bind 127.0.0.1")
    code, out, _ = _outlive(served, "wait", process.process_id, "--for", f"port={port}", *_TIMEOUT)
    assert (code, f"listens on port {port}" in out) == (0, True)
    _stop(process)


def test_the_time_that_is_up_says_so_and_what_came_is_printed(served: OutliveServer, client: Client) -> None:
    slow, quick = client.start("sleep 1000"), client.start("exit 7")
    quick.wait(20)
    code, out, err = _outlive(served, "wait", slow.process_id, quick.process_id, "--timeout", "0")
    assert (code, out.startswith(quick.process_id)) == (124, True)
    assert "time is up" in err
    code, out, _ = _outlive(served, "wait", slow.process_id, quick.process_id, "--timeout", "0", "--json")
    assert [one["event"] for one in json.loads(out)["processes"]] == [None, "end"]
    _stop(slow)


@pytest.mark.parametrize(
    "word", ["text=", "port=x", "port=70000", "idle=0", "idle=x", "end", "question=1", ""]
)
def test_a_wish_that_makes_no_sense_is_refused(word: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_wish(word)
