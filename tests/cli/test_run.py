"""`outlive run -- CMD` is CMD: exit codes, signals, streams, bytes, pipes.

Each case runs bare, too, and is compared.
"""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from outlive.client import Client
from tests.cli.comparing import Stage
from tests.support.server import OutliveServer

_WAY = pytest.mark.parametrize("is_bare", [True, False], ids=["bare", "through"])


@pytest.fixture
def stage(served: OutliveServer, tmp_path: Path) -> Stage:
    """Where commands run."""
    return Stage(served, tmp_path)


@pytest.mark.parametrize("code", [0, 1, 2, 7, 63, 124, 125, 126, 127, 128, 130, 137, 254, 255])
def test_the_exit_code_is_the_commands(stage: Stage, code: int) -> None:
    assert stage.both(["sh", "-c", f"exit {code}"]).returncode == code


@pytest.mark.parametrize(
    "name", ["HUP", "INT", "QUIT", "ABRT", "KILL", "USR1", "SEGV", "PIPE", "ALRM", "TERM"]
)
def test_a_death_by_signal_is_ours_too(stage: Stage, name: str) -> None:
    number = signal.Signals[f"SIG{name}"]
    seen = stage.both(["sh", "-c", f"ulimit -c 0; echo before; kill -{name} $$; echo not reached"])
    assert (seen.returncode, seen.stdout) == (-number, b"before\n")


def test_stdout_and_stderr_stay_apart(stage: Stage) -> None:
    seen = stage.both(["sh", "-c", "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done; exit 3"])
    assert seen.stdout == b"".join(b"out %d\n" % number for number in range(1, 6))
    assert seen.stderr == b"".join(b"err %d\n" % number for number in range(1, 6))


def test_one_place_for_both_outputs_keeps_their_order(stage: Stage) -> None:
    line = "i=0; while [ $i -lt 300 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done"
    seen = stage.both(["sh", "-c", line], is_one_output=True)
    assert seen.stdout.startswith(b"out 0\nerr 0\nout 1\n")


def test_every_byte_arrives_as_it_was(stage: Stage) -> None:
    every = bytes(range(256)) * 40 + b"\xc3(\x00\xff no newline at the end"
    assert stage.both(["cat"], stdin=every).stdout == every


def test_words_and_variables_may_be_any_bytes(stage: Stage) -> None:
    seen = stage.both(
        ["sh", "-c", 'printf %s "$1$V"', "sh", os.fsdecode(b"\xff\xfe word\n ")],
        env={"V": os.fsdecode(b"\x80\xe2")},
    )
    assert seen.stdout == b"\xff\xfe word\n \x80\xe2"


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["cat"], b"one\ntwo\n"),
        (["wc", "-c"], b"x" * 3_000_000),
        (["head", "-c", "5"], b"abcdefghij" * 100_000),
        (["sh", "-c", "exec <&-; sleep 0.1; echo closed"], b"y" * 300_000),
        (["true"], b"z" * 3_000_000),
        (["sh", "-c", "read a; echo got $a"], b"first\nsecond\n"),
        (["sort"], b"b\na\n"),
    ],
    ids=["cat", "wc", "head", "closes it", "reads nothing", "reads a line", "sort"],
)
def test_stdin_is_the_commands_own(stage: Stage, argv: list[str], text: bytes) -> None:
    stage.both(argv, stdin=text)


@pytest.mark.parametrize(
    "line",
    [
        "printf 'a\\nb\\n' | (RUN true; cat)",
        "printf 'a\\nb\\n' > f; (RUN head -n 1; RUN cat) < f",
        "printf '1\\n2\\n3\\n' | while read x; do RUN echo $x; done",
        "RUN cat <<EOF\nfrom a heredoc\nEOF",
        "RUN cat < /dev/null; echo $?",
        "RUN cat <&-; echo $?",
        "RUN /bin/echo gone >&-; echo $?",
        "RUN sh -c 'echo lost >&2; echo kept' 2>&-; echo $?",
        "RUN yes | head -n 2; echo ${PIPESTATUS[*]}",
        "RUN sh -c 'yes; echo its reader left >&2' | head -n 1; echo ${PIPESTATUS[*]}",
        "RUN sh -c 'yes >&2; echo went on' 2> >(head -c 10 >/dev/null); echo $?",
        "RUN sh -c 'sleep 1 & echo started'",
        "RUN sh -c '(sleep 0.5; echo late; echo late err >&2) & echo first; exit 3'; echo $?",
        (
            "RUN sh -c '(sleep 0.3; yes; echo the reader left >&2) & echo first' | head -n 3; echo "
            "${PIPESTATUS[*]}"
        ),
        "RUN sh -c '(sleep 0.3; seq 1 300000) & echo first' | sha256sum",
        "RUN bash -c 'exec > >(sleep 0.01; cat); echo late; exit 3' | cat; echo ${PIPESTATUS[*]}",
        "cd / && RUN pwd",
        "X=1 Y='a b' RUN sh -c 'echo $X.$Y.$Z'",
        "env -i PATH=$PATH RUN env | grep -v ^OUTLIVE | sort",
        "RUN sh -c 'test -t 0 || test -t 1 || test -t 2 || echo no terminal'",
        "RUN sh -c 'kill -TERM $$' ; echo $?",
        "(trap '' INT; RUN sh -c 'kill -INT $$; echo survived')",
        "f() { echo $1; }; export -f f; (trap '' INT; RUN bash -c 'kill -INT $$; f survived')",
        "env a.b=c RUN env <&- | grep ^a.b",
        "env a.b=c RUN sh -c 'yes; echo its reader left >&2' <&- | head -n 1; echo ${PIPESTATUS[*]}",
    ],
)
def test_a_shell_notices_no_difference(stage: Stage, line: str) -> None:
    stage.both_in_shell(line)


def test_what_cannot_be_run_ends_as_in_a_shell(stage: Stage) -> None:
    (stage.folder / "plain").write_text("echo not executable\n")
    for line in ("RUN no-such-program", "RUN ./missing", "RUN ./plain", "RUN ./"):
        bare, through = stage.shell(line, is_bare=True), stage.shell(line, is_bare=False)
        assert through.returncode == bare.returncode, line
        said = bare.stderr.decode().rpartition(": ")[2]
        assert through.stderr.decode().splitlines()[0].endswith(said.strip()), line


def test_a_script_without_interpreter_line_is_run_by_sh(stage: Stage) -> None:
    script = stage.folder / "script"
    script.write_text('echo "$0 $1"\n')
    script.chmod(0o755)
    assert stage.both_in_shell("RUN ./script word").stdout.endswith(b"script word\n")


@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT", "USR1", "USR2", "TERM", "ALRM"])
@_WAY
def test_a_signal_to_us_reaches_the_command(stage: Stage, name: str, is_bare: bool) -> None:
    line = f"trap 'echo got {name}; exit 9' {name}; echo ready; while :; do sleep 0.02; done"
    with stage.running(["sh", "-c", line], is_bare=is_bare) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.Signals[f"SIG{name}"])
        assert process.stdout.read() == f"got {name}\n".encode()
        assert process.wait(30) == 9


@_WAY
def test_a_signal_that_the_command_does_not_catch_ends_both(stage: Stage, is_bare: bool) -> None:
    with stage.running(["sh", "-c", "ulimit -c 0; echo ready; exec sleep 60"], is_bare=is_bare) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == -signal.SIGTERM


def test_a_hang_up_that_is_sent_to_us_alone_reaches_the_tree_once(stage: Stage) -> None:
    child = 'trap "echo child got it" HUP; echo child is there; while :; do sleep 0.02; done'
    line = f"trap 'read go; kill -9 $!; exit 9' HUP; sh -c '{child}' & wait"
    with stage.running(["sh", "-c", line], is_bare=False) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"child is there\n"
        process.send_signal(signal.SIGHUP)
        assert process.stdout.readline() == b"child got it\n"
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert process.stdout.read() == b""
        assert process.wait(30) == 9


def test_a_signal_that_was_ignored_before_us_is_not_passed_on(stage: Stage) -> None:
    line = "trap '' HUP; exec RUN sh -c 'echo $$ ready; read x; echo $x'"
    words = line.replace("RUN", " ".join(stage.words([], is_bare=False)))
    with stage.running(["bash", "-c", words], is_bare=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline().endswith(b"ready\n")
        process.send_signal(signal.SIGHUP)
        process.stdin.write(b"still here\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"still here\n"
        assert process.wait(30) == 0


def test_a_timeout_ends_the_command_and_exits_as_timeout_does(stage: Stage) -> None:
    words = stage.words(
        ["sh", "-c", "echo begun; sleep 60"], is_bare=False, flags=["--timeout", "0.5", "--grace", "1"]
    )
    done = subprocess.run(words, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (124, b"begun\n")


def test_a_shell_line_is_run_by_a_shell(stage: Stage) -> None:
    words = stage.words([], is_bare=False, flags=["-c", "echo one | tr a-z A-Z; exit 5"])[:-1]
    done = subprocess.run(words, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (5, b"ONE\n", b"")


def test_a_line_in_one_word_is_no_program_and_the_way_out_is_said(stage: Stage) -> None:
    done = subprocess.run(
        stage.words(["echo a | cat"], is_bare=False), capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 127
    assert "outlive run -c" in done.stderr


def test_detached_it_prints_its_id_and_runs_on(stage: Stage) -> None:
    words = stage.words(
        ["sh", "-c", "echo here; exit 6"], is_bare=False, flags=["-d", "--tag", "t=d", "--group", "g"]
    )
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    with Client(stage.server.state_dir, start_server=False) as client:
        process = client.get(done.stdout.strip())
        ended = process.wait(30)
        assert (ended.exit_code, ended.tags, ended.group) == (6, {"t": "d"}, "g")
        assert process.read().items[0].data == b"here\n"  # type: ignore[union-attr] # nothing was released


def test_its_id_is_of_its_time_so_that_lists_have_it_in_its_place(stage: Stage) -> None:
    with Client(stage.server.state_dir, start_server=False) as client:
        before = client.start(["true"]).process_id
        words = stage.words(["true"], is_bare=False, flags=["-d"])
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
        after = client.start(["true"]).process_id
    assert before < done.stdout.strip() < after


def test_killing_us_leaves_the_command_running_and_findable(stage: Stage) -> None:
    with stage.running(["sh", "-c", "echo $$; sleep 60"], is_bare=False) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
        process.wait(30)
    with Client(stage.server.state_dir, start_server=False) as client:
        [info] = [info for info in client.list(active=True) if info.pid == pid]
        found = client.get(info.process_id)
        found.cancel(0.0)
        assert found.wait(30).is_complete
