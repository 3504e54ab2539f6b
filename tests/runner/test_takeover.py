"""A new supervisor gets every descriptor and the truth, wherever the link of the last one was lost."""

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from outlive.kernel import sockets
from tests.runner.playing import Command, Runner, Supervisor, exec_spec, wait_until

Commands = Callable[[], Command]


def test_before_go_the_child_waits_for_the_next_supervisor(command: Command) -> None:
    command.spawn(exec_spec(("/bin/sh", "-c", "echo ran")))
    command.born()
    state = command.take_over()
    assert state[1:] == ["0", "0", "-", "0", "0", "0"]
    assert set(state[0]) == set("oeip")
    command.go()
    assert command.supervisor.words() == ["spawned", str(command.pid), "12345", "1700000000000000000"]
    assert command.read() == b"ran\n"
    assert command.record()[1] == command.line()


def test_a_supervisor_that_heard_nothing_of_born_can_go_on(command: Command) -> None:
    command.spawn(exec_spec(("/bin/sh", "-c", "echo ran")))
    command.take_over()
    assert command.pid > 0, "the state has the pidfd"
    command.go()
    assert command.supervisor.words()[0] == "spawned"
    assert command.read() == b"ran\n"


def test_go_said_twice_runs_it_once(command: Command, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    command.spawn(exec_spec(("/bin/sh", "-c", f"echo ran >> {proof}")))
    command.born()
    command.go()
    command.take_over()
    command.go()
    command.go()
    wait_until(lambda: len(command.record()) == 3)
    assert proof.read_text() == "ran\n"
    assert [line for line in command.record() if line == command.line()] == [command.line()]


def test_while_it_runs_everything_is_handed_over(command: Command) -> None:
    command.start(("/bin/cat",))
    pid = command.pid
    os.write(command.held["i"], b"before ")
    state = command.take_over()
    assert set(state[0]) == set("oeip")
    assert state[1:] == [str(pid), "12345", "-", "0", "0", "0"]
    os.write(command.held["i"], b"after")
    command.supervisor.send("close i")
    os.close(command.held.pop("i"))
    assert command.read() == b"before after"
    assert command.ended() == ["exited", "0", "1"]


def test_what_ended_meanwhile_is_told(command: Command) -> None:
    command.start(("/bin/sh", "-c", "echo last; exit 9"))
    command.supervisor.close()
    wait_until(lambda: len(command.record()) == 3)
    state = command.take_over(close=False)
    assert state[1:6] == [str(command.pid), "12345", "exited", "9", "1"]
    assert state[6] == command.record()[-1].split()[2]
    assert command.read() == b"last\n"


def test_what_failed_is_told(command: Command) -> None:
    command.spawn(exec_spec(("/nowhere/program",)))
    command.born()
    command.go()
    wait_until(lambda: len(command.record()) == 2)
    state = command.take_over()
    assert state[1:6] == ["0", "0", "failed", "2", "1"]


def test_a_new_supervisor_replaces_the_old_one(command: Command) -> None:
    command.start(("/bin/sleep", "60"))
    old = command.supervisor
    command.take_over(close=False)
    assert old.packet() == (b"", [])
    old.close()
    os.kill(command.pid, signal.SIGTERM)
    assert command.ended() == ["signaled", "15", "1"]


@pytest.mark.parametrize("answer", [b"proved", b"release", b"", b"state own - 0 0 - 0 0 0"])
def test_a_peer_that_proves_nothing_replaces_nobody(command: Command, answer: bytes) -> None:
    command.start(("/bin/sleep", "60"))
    peer = Supervisor(command.connect())
    assert peer.words()[0] == "prove"
    if answer:
        peer.send(answer)
        assert peer.packet() == (b"", [])
    peer.close()
    assert command.supervisor.is_silent(), "the link that was there is still served"
    os.kill(command.pid, signal.SIGTERM)
    assert command.ended() == ["signaled", "15", "1"]


def test_a_byte_that_was_freed_for_another_peer_proves_nothing(command: Command) -> None:
    """Each peer is asked for a byte of its own: of what the supervisor frees for its connection no other has
    anything.
    """
    command.start(("/bin/sleep", "60"))
    knocker, true = Supervisor(command.connect()), Supervisor(command.connect())
    first = knocker.words()
    assert command.runner.lock is not None
    true.prove(command.runner.lock)
    assert first[0] == "prove"
    knocker.send("proved")
    assert knocker.packet() == (b"", [])
    message, fds = true.packet()
    assert message.startswith(b"state own ")
    for fd in fds:
        os.close(fd)
    knocker.close()
    true.close()


def test_the_lock_of_a_supervisor_that_died_proves_nothing(command: Command) -> None:
    command.start(("/bin/sleep", "60"))
    assert command.runner.lock is not None
    os.close(command.runner.lock)
    command.runner.lock = None
    peer = Supervisor(command.connect())
    assert peer.words()[0] == "prove"
    peer.send("proved")
    assert peer.packet() == (b"", [])
    peer.close()
    assert command.supervisor.is_silent()


def test_peers_that_are_silent_keep_no_supervisor_out(command: Command) -> None:
    """More than are asked at a time, and more than wait in the backlog."""
    command.start(("/bin/sleep", "60"))
    silent = []
    for _ in range(12):
        with contextlib.suppress(BlockingIOError):
            silent.append(sockets.connect_unix(str(command.folder / "sock")))
    state = command.take_over()
    assert state[3] == "-"
    for link in silent:
        link.close()


def test_descriptors_that_were_closed_are_not_handed_over(command: Command) -> None:
    command.start(("/bin/sleep", "60"))
    command.supervisor.send("close ie")
    assert set(command.take_over()[0]) == set("op")


def test_a_released_minder_leaves(command: Command) -> None:
    command.start(("/bin/true",))
    assert command.ended()[:2] == ["exited", "0"]
    command.supervisor.send("release")
    assert command.supervisor.packet() == (b"", [])
    wait_until(lambda: not Path(f"/proc/{command.minder}").exists())


def test_a_minder_stays_until_it_is_released_unless_the_record_was_deleted(commands: Commands) -> None:
    for deletes in (False, True):
        command = commands()
        command.start(("/bin/true",))
        assert command.ended()[:2] == ["exited", "0"]
        if deletes:
            command.pid_file.unlink()
            command.supervisor.close()
            wait_until(lambda one=command: not Path(f"/proc/{one.minder}").exists())
        else:
            assert command.take_over()[3:6] == ["exited", "0", "1"]


def test_a_connection_that_starts_nothing_leaves_nothing(runner: Runner, commands: Commands) -> None:
    command = commands()
    command.supervisor.close()
    wait_until(lambda: not Path(f"/proc/{command.minder}").exists())
    assert runner.process.poll() is None


def test_a_child_that_waits_ends_with_its_minder(command: Command, tmp_path: Path) -> None:
    """SIGKILL between `born` and `go`: the command never ran, and nothing of it is left."""
    proof = tmp_path / "proof"
    command.spawn(exec_spec(("/bin/touch", str(proof))))
    command.born()
    os.kill(command.minder, signal.SIGKILL)
    assert command.supervisor.packet() == (b"", [])
    wait_until(lambda: not Path(f"/proc/{command.pid}").exists())
    assert not proof.exists()


def test_a_command_lives_on_when_its_minder_is_killed(runner: Runner, command: Command) -> None:
    command.start(("/bin/cat",))
    os.kill(command.minder, signal.SIGKILL)
    assert command.supervisor.packet() == (b"", [])
    os.write(command.held["i"], b"still here")
    assert command.read_until(b"here") == b"still here"
    os.close(command.held.pop("i"))
    assert command.read() == b""
    wait_until(lambda: not Path(f"/proc/{command.pid}").exists(), about="the runner reaps it")
    assert runner.process.poll() is None


@pytest.mark.root("only root can be somebody else")
def test_a_supervisor_of_another_user_gets_nothing(command: Command) -> None:
    command.start(("/bin/sleep", "60"))
    command.folder.chmod(0o755)
    (command.folder / "sock").chmod(0o777)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.chdir(command.folder)  # the folders above it are nobody else's
        os.setresuid(65534, 65534, 65534)
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.settimeout(5)
        try:
            link.connect("sock")
            os.write(writing, b"got " + link.recv(1000))
        except OSError as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    said = os.read(reading, 1000)
    os.close(reading)
    assert said == b"got ", "connected, and hung up on"
    assert command.supervisor.is_silent(), "the link that was there is still served"
    assert command.take_over()[3] == "-"
