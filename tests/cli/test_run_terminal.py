"""`outlive run` at a terminal: what the screen shows is what it shows of the bare command. tmux looks at
it.
"""

import contextlib
import subprocess
from pathlib import Path

import pytest

from tests.cli.screens import Screen, Stages, needs
from tests.support.processes import all_pids, is_stopped, with_cmdline
from tests.support.server import OutliveServer

pytestmark = [needs("tmux"), pytest.mark.thorough]


@pytest.fixture
def stages(served: OutliveServer, tmp_path: Path) -> Stages:
    """Where scenes are played."""
    return Stages(served, tmp_path)


def test_a_command_has_a_terminal_of_our_size_and_kind(stages: Stages) -> None:
    def scene(shown: Screen) -> None:
        shown.say("./x sh -c 'test -t 0 && test -t 1 && test -t 2 && stty size && echo $TERM'")
        shown.wait_text("\ntmux-256color")
        shown.wait_prompt()

    assert "24 80\ntmux-256color\n" in stages.both(scene)


def test_ctrl_c_interrupts_and_the_shell_sees_130(stages: Stages) -> None:
    def scene(shown: Screen) -> None:
        shown.say("./x sh -c 'echo ready; sleep 60'")
        shown.wait_text("\nready")
        shown.type("C-c")
        shown.wait_prompt()
        shown.say("echo $?")
        shown.wait_text("echo $?\n130\n")

    stages.both(scene)


def test_ctrl_c_without_a_terminal_of_its_own_reaches_the_whole_group(stages: Stages) -> None:
    def scene(shown: Screen) -> None:
        shown.say("./x sh -c 'sh -c \"echo ready; sleep 61\"; echo not reached' | cat")
        shown.wait_text("\nready")
        shown.type("C-c")
        shown.wait_prompt()
        shown.say("echo ${PIPESTATUS[*]}")
        shown.wait_text("\n130 130\n")

    stages.both(scene)
    assert not with_cmdline("sleep 61")


@pytest.mark.parametrize("flags", [(), ("--no-pty",)], ids=["pty", "no pty"])
def test_ctrl_z_stops_it_and_fg_goes_on(stages: Stages, flags: tuple[str, ...]) -> None:
    def scene(shown: Screen) -> None:
        shown.say("./x sh -c 'echo ready; read line; echo got $line'")
        shown.wait_text("\nready")
        shown.type("C-z")
        shown.wait_text("Stopped")
        shown.say("jobs")
        shown.wait(lambda text: text.count("Stopped") == 2, "the list of jobs")
        shown.say("fg")
        shown.wait(lambda text: text.count("./x sh") >= 4, "the command in the foreground")
        shown.say("word")
        shown.wait_text("got word")
        shown.wait_prompt()

    stages.both(scene, *flags)


def _pids_of(*words: str) -> list[int]:
    line = b"".join(word.encode() + b"\0" for word in words)
    found = []
    for pid in all_pids():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if Path(f"/proc/{pid}/cmdline").read_bytes() == line:
                found.append(pid)
    return found


def test_what_is_stopped_does_nothing(stages: Stages) -> None:
    def scene(shown: Screen) -> None:
        shown.say("./x sh -c 'echo ready; sleep 62; echo end'")
        shown.wait_text("\nready")
        shown.type("C-z")
        shown.wait_text("Stopped")
        assert all(map(is_stopped, _pids_of("sleep", "62")))
        shown.say("kill %1; fg")
        shown.wait_prompt()

    stages.play(scene)


def test_end_of_file_at_the_terminal(stages: Stages) -> None:
    def scene(shown: Screen) -> None:
        shown.say("./x sh -c 'echo ready; exec cat'")
        shown.wait_text("\nready")
        shown.say("one")
        shown.wait(lambda text: text.count("one") == 2, "the echo and the line")
        shown.type("C-d")
        shown.wait_prompt()

    stages.both(scene)


def test_typing_reaches_a_command_whose_output_goes_elsewhere(stages: Stages) -> None:
    def scene(shown: Screen) -> None:
        shown.say("./x sh -c 'echo ready >&2; exec tr a-z A-Z' | cat")
        shown.wait_text("\nready")
        shown.say("one")
        shown.say("two")
        shown.type("C-d")
        shown.wait_text("TWO")
        shown.wait_prompt()

    stages.both(scene)


@needs("vim")
def test_vim_edits_is_suspended_comes_back_and_saves(stages: Stages) -> None:
    def scene(shown: Screen) -> None:
        shown.say("./x vim -u NONE -N file")
        shown.wait_text('"file"')
        shown.type("i", "first line", "Enter", "second line", "Escape")
        shown.wait_text("second line")
        shown.type("C-z")
        shown.wait_text("Stopped")
        shown.say("fg")
        shown.wait_text("second line")
        shown.say(":wq")
        shown.wait_prompt()
        shown.say("cat file")
        shown.wait_text("$> cat file\nfirst line\nsecond line\n$>")
        shown.say("clear; jobs; stty -a")
        shown.wait_text("iexten")

    stages.both(scene)


@needs("vim")
def test_vim_draws_the_same_screen(stages: Stages) -> None:
    def scene(shown: Screen) -> None:
        shown.say("seq 1 200 > numbers; ./x vim -u NONE -N numbers")
        shown.wait_text('"numbers"')
        shown.type("100G")
        shown.wait_text("\n100")
        shown.type("ztO", "inserted", "Escape")
        shown.wait_text("inserted")

    stages.both(scene)


@needs("less")
def test_less_pages_and_searches(stages: Stages) -> None:
    def scene(shown: Screen) -> None:
        shown.say("seq 1 500 > numbers; ./x less numbers")
        shown.wait_text("\n23")
        shown.type("Space")
        shown.wait_text("\n46")
        shown.type("/", "333", "Enter")
        shown.wait_text("355")

    stages.both(scene)


def test_a_python_prompt_computes_is_interrupted_and_ends(stages: Stages) -> None:
    def scene(shown: Screen) -> None:
        shown.say("clear; ./x python3 -q")
        shown.wait_text(">>>")
        shown.say("6 * 7")
        shown.wait_text("\n42\n")
        shown.say("import time; print('now'); time.sleep(60)")
        shown.wait_text("\nnow")
        shown.type("C-c")
        shown.wait_text("KeyboardInterrupt")
        shown.say("print(open('/dev/tty').isatty())")
        shown.wait_text("\nTrue\n")
        shown.type("C-d")
        shown.wait_prompt()

    stages.both(scene)


def test_a_shell_inside_looks_after_its_own_jobs(stages: Stages) -> None:
    def scene(shown: Screen) -> None:
        shown.say("PS1='in> ' ./x bash --norc --noprofile -i")
        shown.wait_text("\nin>")
        shown.say("echo now; sleep 63")
        shown.wait(lambda _text: bool(_pids_of("sleep", "63")), "the job")
        shown.type("C-z")
        shown.wait_text("Stopped")
        shown.say("exit 4")
        shown.wait_text("There are")
        shown.say("exit 4")  # said twice, bash ends what it has stopped
        shown.wait_prompt()
        shown.say("echo $?")
        shown.wait_text("\n4\n")
        shown.wait(lambda _text: not _pids_of("sleep", "63"), "the end of the job")

    stages.play(scene)


def test_the_window_may_change_its_size(stages: Stages) -> None:
    def scene(shown: Screen) -> None:
        shown.say("./x bash -c 'trap \"stty size\" WINCH; echo ready; while :; do sleep 0.05; done'")
        shown.wait_text("\nready")
        shown.resize(100, 30)
        shown.wait_text("\n30 100")
        shown.resize(60, 20)
        shown.wait_text("\n20 60")
        shown.type("C-c")

    stages.play(scene)


@pytest.mark.parametrize(
    "ending",
    [
        "true",
        "sh -c 'kill -9 $$'",
        "no-such-program",
        "sh -c 'stty raw -echo; exit 3'",
        "sh -c 'kill $PPID; exit 1'",
    ],
)
def test_the_terminal_is_afterwards_what_it_was(stages: Stages, ending: str) -> None:
    def scene(shown: Screen) -> None:
        shown.say("stty -a > before")
        shown.say(f"./x {ending}; stty -a > after; cmp before after && echo same")
        shown.wait_text("\nsame")

    stages.play(scene)


def test_the_terminal_is_put_back_when_we_are_ended(stages: Stages) -> None:
    def scene(shown: Screen) -> None:
        shown.say("stty -a > before; (sleep 1; pkill -TERM -f 'sleep 64') & ./x sleep 64; stty -a > after")
        shown.wait_text("Terminated")
        shown.say("cmp before after && echo same")
        shown.wait_text("\nsame")

    stages.play(scene)


def test_a_closed_window_hangs_the_command_up(stages: Stages) -> None:
    def scene(shown: Screen) -> None:
        shown.say(
            "./x sh -c 'trap \"echo hung up > told; exit\" HUP; echo ready; while :; do sleep 0.05; done'"
        )
        shown.wait_text("\nready")

    stages.play(scene)
    told = stages.folder / "through" / "told"
    subprocess.run(["timeout", "20", "sh", "-c", f"until test -s {told}; do sleep 0.05; done"], check=True)


def test_a_terminal_for_the_output_alone_has_our_size(stages: Stages) -> None:
    def scene(shown: Screen) -> None:
        shown.resize(70, 20)
        shown.say("seq 1 5 | ./x sh -c 'test -t 1 && ! test -t 0 && stty size < /dev/tty && cat'")
        shown.wait_text("\n20 70\n1\n2\n3\n4\n5\n")
        shown.wait_prompt()

    stages.both(scene, "--pty")
