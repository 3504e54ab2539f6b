"""Descriptors above 2 reach a command of `outlive run` as they reach the bare command (issue 38, 1)."""

import os
import subprocess
from pathlib import Path

import pytest

from outlive.client import Client, Output
from tests.cli.comparing import Stage, run_words
from tests.cli.launching import run
from tests.cli.screens import needs
from tests.cli.terminals import on_a_terminal
from tests.keeper.client import until
from tests.support.server import OutliveServer

_PATIENCE_S = 60.0
# Says which of the numbers 7 and 9 are open; the test opens both.
_WHICH = "for n in 7 9; do test ! -e /proc/self/fd/$n || echo $n; done"


@pytest.fixture
def stage(served: OutliveServer, tmp_path: Path) -> Stage:
    """Where commands run."""
    return Stage(served, tmp_path)


def _with_files(command: str, last: int) -> str:
    """Return a shell line that gives a command the descriptors from 3 on, each a file with its number."""
    files = " ".join(f"{number}<{number}" for number in range(3, last + 1))
    return f"for n in {{3..{last}}}; do echo $n > $n; done; {command} {files}"


@pytest.mark.parametrize(
    "line",
    [
        "RUN cat <(echo hi)",
        "RUN diff <(echo a) <(echo b); echo $?",
        "echo hi | RUN cat - <(echo there)",
        "printf '1\\n2\\n3\\n' > f; exec 9<f; read -u 9 x; RUN sh -c 'read x <&9; echo $x'; cat <&9",
        "rm -f f; exec 9>>f; RUN sh -c 'echo mine >&9'; echo ours >> f; RUN sh -c 'echo more >&9'; cat f",
        "rm -f f; exec 9<>f; RUN sh -c 'echo mine >&9; exec 9>&-; echo lost >&9'; echo ours >&9; cat f",
        "RUN sh -c 'echo $(cat <&9)' 9< <(echo hi) <&-",
        "RUN ls /proc/self/fd",
    ],
)
def test_a_shell_notices_no_difference(stage: Stage, line: str) -> None:
    stage.both_in_shell(line)


def test_each_comes_at_its_number(stage: Stage) -> None:
    """Also at the number that what carries them has in the shim's child, wherever that is."""
    line = _with_files("RUN bash -c 'for n in {3..40}; do cat <&$n; done'", 40)
    assert stage.both_in_shell(line).stdout.split() == [b"%d" % number for number in range(3, 41)]


def test_of_very_many_some_are_left_out_with_a_sentence(stage: Stage) -> None:
    line = _with_files("RUN bash -c 'for n in 3 66 67; do test ! -e /proc/self/fd/$n || cat <&$n; done'", 80)
    seen = stage.shell(line, is_bare=False)
    assert (seen.returncode, seen.stdout) == (0, b"3\n66\n")
    assert seen.stderr == b"outlive: the command gets 64 of the 78 descriptors above 2\n"


@needs("make")
def test_a_jobserver_of_make_is_there(stage: Stage) -> None:
    run = " ".join(run_words(stage.server))
    (stage.folder / "inner").write_text("%:\n\t@echo $@\n")
    (stage.folder / "Makefile").write_text(f"all: a b\na b:\n\t@+{run} make -f inner of-$@\n")
    seen = stage.shell("unset MAKEFLAGS MAKELEVEL MFLAGS; make -s -j4", is_bare=True)
    assert (seen.returncode, sorted(seen.stdout.split()), seen.stderr) == (0, [b"of-a", b"of-b"], b"")


def test_a_pipe_ends_when_the_command_closes_it(stage: Stage) -> None:
    """A copy that stays open here would keep it open until the command's end."""
    reading, writing = os.pipe()
    line = f"exec {writing}>&-; read x; echo $x"
    with subprocess.Popen(
        [*run_words(stage.server), "bash", "-c", line],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[writing],
    ) as process:
        os.close(writing)
        assert os.read(reading, 1) == b""
        assert process.communicate(b"then\n", timeout=_PATIENCE_S)[0] == b"then\n"
    os.close(reading)


def test_at_a_terminal_what_is_typed_goes_beside_them(served: OutliveServer) -> None:
    reading, writing = os.pipe()
    line = f"test -t 0 && read x && echo typed-$x && cat <&{reading}"
    with on_a_terminal(
        "run", "--shell", f"bash -c '{line}'", state_dir=served.state_dir, descriptors=[reading]
    ) as one:
        os.close(reading)
        one.type("word\r")
        one.until("typed-word")
        os.write(writing, b"lent-word")
        os.close(writing)
        one.until("lent-word")
        assert one.end() == 0


def test_a_command_that_waits_for_its_turn_gets_them_then(stage: Stage, client: Client) -> None:
    first = client.start("cat", stdin="pipe", group="turn", group_limit=1)
    reading, writing = os.pipe()
    with subprocess.Popen(
        [*run_words(stage.server, "--group", "turn"), "cat", f"/dev/fd/{reading}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        pass_fds=[reading],
    ) as process:
        os.close(reading)
        until(lambda: any(one.waits_for == "group" for one in client.list()), "one that waits")
        os.write(writing, b"lent\n")
        os.close(writing)
        first.close_stdin()
        assert process.communicate(timeout=_PATIENCE_S)[0] == b"lent\n"


def test_limits_do_not_keep_them_away_and_a_sandbox_does(stage: Stage) -> None:
    for flags, expected in (
        (["--limit", "files=100"], b"7\n9\n"),
        (["--profile", "guarded"], b""),
        (["--profile", "sealed"], b""),
    ):
        words = " ".join(run_words(stage.server, *flags))
        seen = stage.shell(f"{words} sh -c '{_WHICH}' 7</dev/null 9</dev/null", is_bare=True)
        assert (seen.returncode, seen.stdout) == (0, expected), (flags, seen.stderr)


def test_a_command_that_is_left_at_once_gets_none(stage: Stage, client: Client) -> None:
    words = " ".join(run_words(stage.server, "-d"))
    seen = stage.shell(f"{words} sh -c '{_WHICH}; echo done' 7</dev/null 9</dev/null", is_bare=True)
    process = client.get(seen.stdout.decode().strip())
    assert b"".join(one.data for one in process.follow() if isinstance(one, Output)) == b"done\n"


def test_a_command_that_is_started_again_gets_none(stage: Stage, client: Client) -> None:
    words = " ".join(run_words(stage.server, "--name", "lent"))
    seen = stage.shell(f"{words} sh -c '{_WHICH}; echo done' 7</dev/null 9</dev/null", is_bare=True)
    assert seen.stdout == b"7\n9\ndone\n", seen.stderr
    again = run("rerun", "lent", "--state-dir", str(stage.server.state_dir), cwd=stage.folder)
    assert again.returncode == 0, again.stderr
    process = client.get(again.stdout.strip())
    assert b"".join(one.data for one in process.follow() if isinstance(one, Output)) == b"done\n"
