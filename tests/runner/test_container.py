"""The runner as the first process of a PID namespace, as in a container, and as the ancestor of everything on
a host.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.kernel import sockets
from outlive.kernel.processes import children
from tests.runner.playing import PATIENCE_S, Command, Runner, exec_spec, wait_until

_CONNECT = """
import socket, sys
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.settimeout(10)
link.connect(sys.argv[1])
print(repr(link.recv(100)))
"""
_UNSHARE = ("unshare", "--pid", "--mount-proc", "--fork", "--kill-child=KILL")

needs_namespaces = pytest.mark.root("only root may make a PID namespace")


@pytest.fixture
def contained(binary: Path, tmp_path: Path) -> Iterator[Runner]:
    """A runner that is PID 1; asked to let anybody in, which it must not do there."""
    running = Runner(binary, tmp_path, before=_UNSHARE)
    yield running
    running.process.kill()  # and with it what it waits for: --kill-child
    running.discard()


def _init_of(runner: Runner) -> int:
    (pid,) = children(runner.process.pid)
    return pid


@needs_namespaces
def test_a_command_in_a_pid_namespace_is_known_outside(contained: Runner, tmp_path: Path) -> None:
    command = Command(contained, tmp_path / "one")
    command.start(("/bin/sh", "-c", "echo $$; cat"))
    inner = int(command.read_until(b"\n"))
    assert inner != command.pid
    with open(f"/proc/{command.pid}/status", encoding="ascii") as status:
        pids = next(line for line in status if line.startswith("NSpid:")).split()[1:]
    assert pids[-2:] == [str(command.pid), str(inner)]
    assert command.record()[1] == command.line()
    assert command.take_over()[1] == str(command.pid)
    command.signal_tree(signal.SIGKILL)
    assert command.ended()[:2] == ["signaled", "9"]
    command.release()


@needs_namespaces
def test_a_terminal_inside_has_a_name_there(contained: Runner, tmp_path: Path) -> None:
    command = Command(contained, tmp_path / "one")
    command.start(("/bin/sh", "-c", "tty; stty size"), pty=(20, 60), stdin=False)
    said = command.read("m").decode().split()
    assert said[0].startswith("/dev/pts/")
    assert said[1:] == ["20", "60"]
    command.release()


@needs_namespaces
def test_peers_from_inside_are_refused(contained: Runner, tmp_path: Path) -> None:
    """Whoever runs inside could otherwise start commands that nobody supervises, with any other's
    descriptors.
    """
    command = Command(contained, tmp_path / "one")
    command.start(("/usr/bin/env", "python3", "-c", _CONNECT, str(contained.socket)))
    assert command.read() == b"b''\n"
    assert command.ended()[:2] == ["exited", "0"]
    listener = Command(contained, tmp_path / "two")
    listener.start(("/bin/sleep", "60"))
    again = Command(contained, tmp_path / "three")
    again.start(("/usr/bin/env", "python3", "-c", _CONNECT, str(tmp_path / "two" / "sock")))
    assert again.read() == b"b''\n", "a minder lets nobody from inside take over"
    for one in (command, listener, again):
        one.release()


@needs_namespaces
def test_the_first_process_reaps_what_daemons_leave(contained: Runner, tmp_path: Path) -> None:
    command = Command(contained, tmp_path / "one")
    command.start(
        ("/bin/sh", "-c", "(setsid sh -c 'sleep 0.2' &) ; (setsid sleep 300 &) ; echo up; exec sleep 300")
    )
    command.read_until(b"up")
    command.supervisor.send("quit")
    assert command.supervisor.packet() == (b"", [])
    init = _init_of(contained)
    wait_until(lambda: len(children(init)) == 2)
    os.kill(command.pid, signal.SIGKILL)
    wait_until(lambda: len(children(init)) == 1)
    command.release()


@needs_namespaces
def test_telling_the_first_process_to_end_ends_the_container(contained: Runner, tmp_path: Path) -> None:
    command = Command(contained, tmp_path / "one")
    command.start(
        (
            "/bin/sh",
            "-c",
            "trap '' TERM; (trap '' TERM; setsid sleep 300 &) ; echo up; while :; do sleep 0.1; done",
        )
    )
    command.read_until(b"up")
    begun = time.monotonic()
    os.kill(_init_of(contained), signal.SIGTERM)
    assert contained.process.wait(PATIENCE_S) == 0
    assert time.monotonic() - begun < 5, "one second of grace, and not the whole of everybody's patience"
    assert command.ended()[:2] == ["signaled", "9"]
    assert command.record()[-1].startswith("signaled 9 ")
    command.release()


def test_telling_it_to_end_ends_what_it_started_and_nobody_else(
    runner: Runner, command: Command, tmp_path: Path
) -> None:
    with subprocess.Popen(["sleep", "60"]) as bystander:
        command.start(
            (
                "/bin/sh",
                "-c",
                "trap 'exit 5' TERM; (setsid sleep 300 &) ; echo up; while :; do sleep 0.01; done",
            )
        )
        command.read_until(b"up")
        assert runner.end() == 0
        assert command.ended()[:2] == ["exited", "5"]
        assert bystander.poll() is None
        bystander.kill()


def test_a_minder_heeds_nobody_elses_signals(command: Command) -> None:
    """A command may signal all processes of its user: `kill -TERM -1` must not end its keeper."""
    command.start(("/bin/sleep", "300"))
    for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT}:
        os.kill(command.minder, number)
    assert command.take_over()[3] == "-"
    os.kill(command.pid, signal.SIGKILL)
    assert command.ended() == ["signaled", "9", "1"]


@pytest.mark.root("needs two users")
def test_memory_of_the_runner_is_closed_to_its_own_user(binary: Path, tmp_path: Path) -> None:
    """Secrets pass through a minder's child; a command of the same user must not look."""
    tmp_path.chmod(0o777)
    as_nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    copy = tmp_path / "runner"
    shutil.copy(binary, copy)
    os.chown(tmp_path, 65534, 65534)
    path = str(tmp_path / "runner.sock")
    with (
        sockets.listen_unix(path) as listener,
        subprocess.Popen(
            [*as_nobody, "./runner", "serve", "--any-peer"], cwd=tmp_path, stdin=listener.fileno()
        ) as process,
    ):
        try:
            link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            link.connect(path)
            minder = int(link.recv(100).split()[1])
            for pid in (process.pid, minder):
                reads = subprocess.run(
                    [
                        *as_nobody,
                        "sh",
                        "-c",
                        f"cat /proc/{pid}/environ || cat /proc/{pid}/mem || ls /proc/{pid}/fd",
                    ],
                    capture_output=True,
                    check=False,
                )
                assert reads.returncode != 0
                assert reads.stdout == b""
            link.close()
        finally:
            process.terminate()


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["serve"],
        ["--help"],
        ["serve", "x"],
        ["serve", "--odd", "x"],
        ["serve", "a", "b", "c"],
        ["serve", "--handed", "x"],
        ["serve", "--handed", "--lock=1", "x"],
    ],
)
def test_unknown_words_are_a_usage_error(binary: Path, words: list[str]) -> None:
    done = subprocess.run([binary, *words], capture_output=True, check=False)
    assert done.returncode == 64
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == b""


def test_it_says_its_version(binary: Path) -> None:
    assert (
        subprocess.run([binary, "--version"], capture_output=True, check=True).stdout == b"outlive-runner 1\n"
    )


def test_closed_standard_streams_are_not_taken_for_a_commands(binary: Path, tmp_path: Path) -> None:
    path = tmp_path / "runner.sock"
    words = ["sh", "-c", 'exec "$0" serve --any-peer >&- 2>&-', str(binary)]
    with (
        sockets.listen_unix(str(path)) as listener,
        subprocess.Popen(words, stdin=listener.fileno()) as process,
    ):
        try:
            runner = Runner.__new__(Runner)
            runner.socket, runner.process, runner.commands = path, process, []
            command = Command(runner, tmp_path / "one")
            command.start(("/bin/sh", "-c", "cat; echo done; echo err >&2"))
            os.write(command.held["i"], b"in ")
            os.close(command.held.pop("i"))
            command.supervisor.send("close i")
            assert command.read() == b"in done\n"
            assert command.read("e") == b"err\n"
            command.release()
        finally:
            process.terminate()


@pytest.mark.root("a keeper's memory and descriptors are closed to its user")
def test_two_hundred_starts_in_a_row_leave_nothing(runner: Runner, tmp_path: Path) -> None:
    def opened() -> set[str]:
        wait_until(lambda: children(runner.process.pid) == [])
        return set(os.listdir(f"/proc/{runner.process.pid}/fd"))

    before = set[str]()
    for number in range(201):
        if number == 1:  # only what has been answered once has all of its own
            before = opened()
        command = Command(runner, tmp_path / str(number))
        command.spawn(exec_spec(("/bin/true",) if number % 3 else ("/nowhere",)))
        command.born()
        command.go()
        said = command.supervisor.words()[0]
        assert said == ("spawned" if number % 3 else "failed")
        if number % 3:
            assert command.ended()[:2] == ["exited", "0"]
        command.release()
    assert opened() == before
    assert runner.said() == ""
