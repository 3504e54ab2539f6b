"""Starting a command in a container: its streams, its environment, its program, and what is said when it
cannot run.
"""

import errno
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runner.playing import Command, Runner, exec_spec

Commands = Callable[[], Command]


def _failure(command: Command, argv: tuple[str, ...], **how: object) -> tuple[list[str], list[str]]:
    """Start what cannot start; returns what was said, and the record's lines without their times."""
    command.spawn(exec_spec(argv, **how))  # type: ignore[arg-type]
    command.born()
    command.go()
    said = command.supervisor.words()
    record = [" ".join(word for at, word in enumerate(line.split()) if at != 2) for line in command.record()]
    return said, record


def test_output_errors_and_exit_code_arrive(command: Command) -> None:
    command.start(("/bin/sh", "-c", "echo out; echo err >&2; exit 7"))
    assert command.read("o") == b"out\n"
    assert command.read("e") == b"err\n"
    assert command.ended() == ["exited", "7", "1"]
    starting, started, ended = command.record()
    assert (starting, started) == ("starting", command.line())
    assert ended.startswith("exited 7 ")


def test_input_reaches_the_command_and_closing_it_is_its_end(command: Command) -> None:
    command.start(("/bin/cat",))
    os.write(command.held["i"], b"hello")
    assert command.read_until(b"hello") == b"hello"
    os.close(command.held.pop("i"))
    assert command.supervisor.is_silent(), "the minder holds it, too"
    command.supervisor.send("close i")
    assert command.ended() == ["exited", "0", "1"]


def test_merged_output_is_one_pipe(command: Command) -> None:
    command.start(("/bin/sh", "-c", "echo a; echo b >&2; echo c"), merged=True)
    assert command.read("o") == b"a\nb\nc\n"


def test_nothing_runs_before_go(command: Command, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    command.spawn(exec_spec(("/bin/touch", str(proof))))
    assert command.born() == ["p"]
    assert command.supervisor.is_silent()
    assert not proof.exists()
    assert command.record() == ["starting"]
    command.go()
    assert command.supervisor.words()[0] == "spawned"
    assert command.ended()[:2] == ["exited", "0"]
    assert proof.exists()


@pytest.mark.thorough
def test_every_exit_code_is_recorded_and_said(runner_codes: Commands) -> None:
    for code in range(256):
        command = runner_codes()
        command.start(("/bin/sh", "-c", f"exit {code}"))
        assert command.ended() == ["exited", str(code), "1"]
        assert command.record()[-1].startswith(f"exited {code} ")
        command.release()


@pytest.fixture
def runner_codes(commands: Commands) -> Commands:
    return commands


def test_every_deadly_signal_is_recorded_and_said(commands: Commands) -> None:
    for number in (
        signal.SIGTERM,
        signal.SIGKILL,
        signal.SIGSEGV,
        signal.SIGHUP,
        signal.SIGPIPE,
        signal.SIGRTMIN + 3,
    ):
        command = commands()
        command.start(("/bin/sh", "-c", f"kill -{int(number)} $$"))
        assert command.ended() == ["signaled", str(int(number)), "1"]
        assert command.record()[-1].split()[:2] == ["signaled", str(int(number))]


def test_what_cannot_start_is_said_and_recorded(commands: Commands, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    for argv, cwd, number, place in (
        (("/nowhere/program",), "/", errno.ENOENT, "program"),
        ((str(plain),), "/", errno.EACCES, "program"),
        (("no-such-program-anywhere",), "/", errno.ENOENT, "program"),
        (("/bin/true",), str(plain), errno.ENOTDIR, "cwd"),
        (("/bin/true",), "/nowhere", errno.ENOENT, "cwd"),
    ):
        said, record = _failure(commands(), argv, cwd=cwd)
        assert said == ["failed", str(number), place]
        assert record == ["starting", f"failed {number} {place}"]


def test_a_spec_that_is_none_is_refused(commands: Commands) -> None:
    good = exec_spec(("/bin/true",))
    for spec in (
        b"",
        b"\n",
        b"outlive-spec-1 99999\n{}",
        b"outlive-spec-2" + good[14:],
        good.replace(b"\x001\x00", b"\x009\x00"),
        b"\0" * 500,
    ):
        command = commands()
        command.spawn(spec)
        command.born()
        command.go()
        assert command.supervisor.words()[0] == "failed", spec


def test_the_containers_environment_is_overlaid(command: Command) -> None:
    env = {"OUTLIVE_PROCESS_ID": "id", "PATH": "/usr/bin:/bin", "EMPTY": "", "TWO": "a=b"}
    command.start(
        ("env", "-0"), env=env, removed=("HOME", "NEVER_THERE"), secrets={"TOKEN": "s3cret", "EMPTY": "full"}
    )
    words = dict(word.split(b"=", 1) for word in command.read().split(b"\0")[:-1])
    assert words[b"BASE"] == b"container"
    assert words[b"OUTLIVE_PROCESS_ID"] == b"id"
    assert (words[b"TWO"], words[b"TOKEN"], words[b"EMPTY"]) == (b"a=b", b"s3cret", b"full")
    assert b"HOME" not in words


def test_the_resulting_path_is_searched(commands: Commands, tmp_path: Path) -> None:
    hidden, plain = tmp_path / "hidden", tmp_path / "plain"
    for folder in (hidden, plain):
        folder.mkdir()
        (folder / "tool").write_text("#!/bin/sh\necho found\n")
    (hidden / "tool").chmod(0o755)
    command = commands().start(("tool",), env={"PATH": f"{plain}:/nowhere:{hidden}"})
    assert command.read() == b"found\n"
    said, _ = _failure(commands(), ("tool",), env={"PATH": f"{plain}:/nowhere"})
    assert said == ["failed", str(errno.EACCES), "program"]


def test_an_alternative_is_tried_when_a_program_is_not_found(commands: Commands) -> None:
    steps = ("else /nowhere/either", "else sh")
    command = commands().start(("no-such-shell", "-c", "echo $0"), steps=steps)
    assert command.read() == b"sh\n"
    said, _ = _failure(commands(), ("/nowhere/a",), steps=("else /nowhere/b",))
    assert said == ["failed", str(errno.ENOENT), "program"]


def test_limits_hold(command: Command) -> None:
    command.start(
        ("/bin/sh", "-c", "ulimit -n; ulimit -c"), steps=(f"limit {resource.RLIMIT_NOFILE} 33", "limit 4 0")
    )
    assert command.read() == b"33\n0\n"


def test_names_of_the_containers_environment_are_left_out(commands: Commands) -> None:
    command = commands().start(("env",), env={"A": "1"}, steps=("unset BASE", "unset NOT_THERE"))
    words = command.read().splitlines()
    assert b"A=1" in words
    assert b"BASE=container" not in words
    assert any(word.startswith(b"PATH=") for word in words)
    command = commands().start(("/usr/bin/env",), env={"A": "1"}, steps=("clear",))
    assert command.read() == b"A=1\n"


def test_a_step_that_is_not_known_starts_nothing(commands: Commands) -> None:
    for step, number, place in (
        ("seal", errno.ENOSYS, "sandbox:seal"),
        ("landlock 3", errno.ENOSYS, "sandbox:landlock"),
        ("limit x", errno.EINVAL, "sandbox:limit"),
        ("limit 999 1", errno.EINVAL, "sandbox:limit"),
        ("\nevil words", errno.ENOSYS, "sandbox:?evil"),
    ):
        said, record = _failure(commands(), ("/bin/true",), steps=(step,))
        assert said == ["failed", str(number), place]
        assert record[-1] == f"failed {number} {place}"


def test_a_script_is_descriptor_three(command: Command) -> None:
    command.start(("/bin/sh", "/proc/self/fd/3"), script=b"echo from the script; exit 3\n")
    assert command.read() == b"from the script\n"
    assert command.ended()[:2] == ["exited", "3"]


@pytest.mark.parametrize("script", [None, b":"])
@pytest.mark.parametrize("pty", [None, (24, 80)])
def test_a_command_gets_its_streams_and_nothing_else(
    command: Command, script: bytes | None, pty: tuple[int, int] | None
) -> None:
    command.start(("/bin/sh", "-c", "exec ls /proc/self/fd"), script=script, pty=pty, secrets={"A": "b"})
    wanted = {"0", "1", "2"} | ({"3"} if script else set())
    listed = set(command.read("m" if pty else "o").decode().split())
    opened_by_ls = {str(number) for number in (3, 4)} - wanted
    assert wanted <= listed
    assert len(listed - wanted) == 1, listed
    assert listed - wanted <= opened_by_ls


def test_a_command_leads_its_own_posix_session_with_default_signals(binary: Path, tmp_path: Path) -> None:
    """Whatever whoever started the runner ignores: 32 to 34 are the numbers that C libraries keep for
    themselves.
    """
    ignore = (
        "import os, signal, sys; [signal.signal(n, 1) for n in (2, 3, 13, 34, 64)]; "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    runner = Runner(binary, tmp_path, before=(sys.executable, "-c", ignore))
    command = Command(runner, tmp_path / "process")
    command.start(("/bin/sh", "-c", "cat /proc/self/status; cat /proc/$$/stat; umask"))
    out = command.read().decode()
    for name in ("SigBlk", "SigIgn", "SigPnd", "ShdPnd"):
        assert f"{name}:\t0000000000000000" in out
    stat = next(line for line in out.splitlines() if "(sh)" in line).split()
    assert stat[4] == stat[5] == stat[0]
    assert out.splitlines()[-1] == "0022"
    command.release()
    runner.discard()


@pytest.mark.promise("C.umask")
@pytest.mark.parametrize(
    ("umask", "nice", "seen"), [(0o077, 5, "0077 5"), (0, 0, "0000 0"), (None, None, "0022 0")]
)
def test_a_command_in_a_container_begins_with_umask_and_niceness_of_its_caller(
    command: Command, umask: int | None, nice: int | None, seen: str
) -> None:
    command.start(("/bin/sh", "-c", "echo $(umask) $(nice); env"), umask=umask, nice=nice)
    first, *variables = command.read().decode().splitlines()
    assert first == seen
    assert not [word for word in variables if word.startswith("OUTLIVE_UMASK")]


def test_a_block_of_three_mebibytes_works(command: Command) -> None:
    words = tuple("x" * 100_000 for _ in range(31))
    steps = (f"limit {resource.RLIMIT_STACK} {64 << 20}",)  # a quarter of it may be words (execve(2))
    command.start(("/bin/sh", "-c", "echo $#; echo ${#1}", "sh", *words), steps=steps)
    assert command.read() == b"31\n100000\n"


def test_words_that_are_too_long_are_said(command: Command) -> None:
    said, _ = _failure(command, ("/bin/echo", "x" * (200 << 10)))
    assert said == ["failed", str(errno.E2BIG), "program"]


def test_bytes_that_are_no_text_arrive(command: Command) -> None:
    command.start(("/usr/bin/printf", "%s|%s", "\udcff", "$ODD"), env={"ODD": "\udcfe"})
    assert command.read() == b"\xff|$ODD"
