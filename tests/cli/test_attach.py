"""Leaving a command that is in the foreground, and coming back to it: `--detach-keys` and `outlive
attach`.
"""

import subprocess
from pathlib import Path

import pytest

from outlive.cli.foreground.keyboard import DetachKeys
from outlive.client import Client, InvalidRequest, Process
from tests.cli.screens import Screen, Stages, needs
from tests.cli.terminals import on_a_terminal
from tests.support.processes import Gate
from tests.support.server import OutliveServer, outlive_command

_NEEDS_TMUX = needs("tmux")


@pytest.fixture
def stages(served: OutliveServer, tmp_path: Path) -> Stages:
    """Where scenes are played."""
    return Stages(served, tmp_path)


def _words(served: OutliveServer, *words: str) -> list[str]:
    return [*outlive_command(), "attach", "--state-dir", str(served.state_dir), "--no-start", *words]


def _attach(
    served: OutliveServer, *words: str, stdin: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        _words(served, *words),
        stdin=subprocess.DEVNULL if stdin is None else None,
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )


def _newest(client: Client) -> Process:
    return client.get(client.list(active=True, limit=1)[0].process_id)


@pytest.mark.parametrize(
    ("text", "typed", "passed", "found"),
    [
        ("ctrl-p,ctrl-q", [b"ab", b"\x10", b"\x11", b"more"], b"ab", True),
        ("ctrl-p,ctrl-q", [b"\x10x\x10", b"\x10\x11"], b"\x10x\x10", True),
        ("ctrl-p,ctrl-q", [b"a\x10", b"b"], b"a\x10b", False),
        ("a,a,b", [b"aaab"], b"a", True),
        ("ctrl-@", [b"x\0y"], b"x", True),
        ("", [b"\x10\x11"], b"\x10\x11", False),
    ],
)
def test_the_keys_are_found_wherever_reads_cut_them(
    text: str, typed: list[bytes], passed: bytes, found: bool
) -> None:
    keys, through, is_found = DetachKeys(text), b"", False
    for piece in typed:
        data, is_found = keys.take(piece)
        through += data
        if is_found:
            break
    assert (through, is_found) == (passed, found)


@pytest.mark.parametrize("text", ["ctrl-", "ctrl-1", "ab", ",", "ctrl-p,", "alt-x"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        DetachKeys(text)


@_NEEDS_TMUX
def test_the_keys_leave_it_running_and_attach_comes_back(stages: Stages, client: Client) -> None:
    def scene(shown: Screen) -> None:
        shown.say("./x sh -c 'echo begun; while read line; do echo got $line; done; exit 5'")
        shown.wait_text("\nbegun")
        shown.type("C-p", "C-q")
        shown.wait_text("goes on")
        shown.wait_prompt()
        process = _newest(client)
        shown.say("stty -a | grep -o ' echo '")
        shown.wait_text("\n echo")
        shown.say("clear")
        shown.say(" ".join(_words(stages.server, process.process_id)))
        shown.wait_text("\nbegun")
        shown.say("word")
        shown.wait_text("\ngot word")
        shown.type("C-d")
        shown.wait_prompt()
        shown.say("echo $?")
        shown.wait_text("\n5\n")

    stages.play(scene)


@_NEEDS_TMUX
@needs("vim")
def test_a_full_screen_is_drawn_anew_for_who_comes_later(stages: Stages, client: Client) -> None:
    def scene(shown: Screen) -> None:
        shown.say("./x vim -u NONE -N file")
        shown.wait_text('"file"')
        shown.type("i", "some text", "Escape")
        shown.wait_text("some text")
        shown.type("C-p", "C-q")
        shown.wait_text("goes on")
        process = _newest(client)
        shown.resize(70, 20)
        shown.say("clear")
        shown.say(" ".join(_words(stages.server, process.process_id)))
        shown.wait_text("some text\n~")
        shown.say(":q!")
        shown.wait_prompt()

    stages.play(scene)


def test_attach_shows_the_last_lines_and_what_follows_and_ends_as_the_command(
    served: OutliveServer, client: Client, gate: Gate
) -> None:
    process = client.start(f"seq 1 100; {gate.wait}; echo end; echo err >&2; exit 9")
    with subprocess.Popen(
        _words(served, process.process_id),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as attached:
        assert attached.stdout is not None
        assert attached.stderr is not None
        assert attached.stdout.readline() == b"91\n"
        gate.open()
        assert attached.stdout.read().endswith(b"100\nend\n")
        assert attached.stderr.read() == b"err\n"
        assert attached.wait(30) == 9


_SWITCHED_ON = r"\033[?1049h\033[?25l\033[?1006h\033[?2004h\033[1;31m"
_SWITCHED_OFF = "\x1b[?2004l\x1b[?1006l\x1b[?25h\x1b[?1049l\x1b[m"


@pytest.mark.parametrize("way", ["keys", "TERM", "read-only", "read-only, Ctrl-C"])
def test_who_leaves_a_program_leaves_its_modes(served: OutliveServer, client: Client, way: str) -> None:
    process = client.start(f"printf '{_SWITCHED_ON}there'; exec sleep 600", pty=True)
    words = ["attach", process.process_id, *(["--read-only"] if "read-only" in way else [])]
    with on_a_terminal(*words, state_dir=served.state_dir) as screen:
        screen.until("there")
        if way == "keys":
            screen.type("\x10\x11")
        elif "Ctrl-C" in way:
            screen.type("\x03")
        else:
            screen.process.terminate()
        assert screen.until("\x1b[?1049l").rpartition("there")[2].count(_SWITCHED_OFF) == 1
        assert screen.end() == {"keys": 0, "read-only, Ctrl-C": -2}.get(way, -15)
    assert not process.info().is_complete


def test_who_leaves_what_it_has_run_leaves_its_modes(served: OutliveServer) -> None:
    line = f"printf '{_SWITCHED_ON}there'; exec sleep 600"
    with on_a_terminal("run", "-c", line, state_dir=served.state_dir) as screen:
        screen.until("there")
        screen.type("\x10\x11")
        assert _SWITCHED_OFF in screen.until("goes on")
        assert screen.end() == 0


def test_attach_feeds_a_command_with_an_input_from_a_pipe(served: OutliveServer, client: Client) -> None:
    process = client.start(["wc", "-c"], stdin="pipe")
    done = _attach(served, process.process_id, stdin=b"x" * 300_000)
    assert (done.returncode, done.stdout) == (0, b"300000\n")


def test_nothing_to_read_closes_nothing(served: OutliveServer, client: Client) -> None:
    process = client.start("read line; echo got $line", stdin="pipe")
    with subprocess.Popen(_words(served, process.process_id), stdin=subprocess.DEVNULL) as attached:
        process.write(b"word\n")
        assert attached.wait(30) == 0
    assert process.wait(30).exit_code == 0


def test_ending_who_looks_on_ends_nothing_else(served: OutliveServer, client: Client, gate: Gate) -> None:
    process = client.start(f"echo here; {gate.wait}")
    for words in ([], ["--read-only"]):
        with subprocess.Popen(
            _words(served, *words, process.process_id), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        ) as attached:
            assert attached.stdout is not None
            assert attached.stdout.readline() == b"here\n"
            attached.terminate()
            assert attached.wait(30) == -15
        assert not process.info().is_complete
    gate.open()
    assert process.wait(30).exit_code == 0


def test_a_reader_who_leaves_ends_attach_and_nothing_else(
    served: OutliveServer, client: Client, gate: Gate
) -> None:
    process = client.start(f"echo here; {gate.wait}; seq 1 100000; exit 6")
    line = " ".join(_words(served, process.process_id))
    line += " | { read first; echo $first; head -n 1; }; echo ${PIPESTATUS[0]}"
    with subprocess.Popen(["bash", "-c", line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == b"here\n"
        gate.open()
        assert shell.stdout.read() == b"1\n141\n"
    assert process.wait(30).exit_code == 6


def test_attach_to_what_has_ended_shows_its_end(served: OutliveServer, client: Client) -> None:
    process = client.start("echo last; kill -9 $$")
    process.wait(30)
    done = _attach(served, process.process_id)
    assert (done.returncode, done.stdout) == (-9, b"last\n")
    assert b"it has ended" in done.stderr
    assert b"killed (KILL)" in done.stderr
    assert _attach(served, "nosuch").returncode == 1
