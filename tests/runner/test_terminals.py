"""A command on a pseudoterminal that the runner opens inside."""

import fcntl
import os
import signal
import struct
import termios

from tests.runner.playing import Command, window_size

_IUTF8 = 0o040000


def test_a_terminal_is_the_commands_own(command: Command) -> None:
    script = (
        "test -t 0 && test -t 1 && test -t 2 && tty && stty size && ps -o tty= -p $$ && echo up; "
        "read line; echo got $line"
    )
    command.start(("/bin/sh", "-c", script), pty=(31, 97), stdin=False)
    said = command.read_until(b"up", "m").decode().split()
    assert said[0].startswith("/dev/pts/")
    assert said[1:3] == ["31", "97"]
    assert f"/dev/{said[3]}" == said[0]
    assert window_size(command.held["m"]) == (31, 97)
    assert termios.tcgetattr(command.held["m"])[0] & _IUTF8
    os.write(command.held["m"], b"line\n")
    assert b"got line" in command.read("m")
    assert command.ended() == ["exited", "0", "1"]


def test_the_interrupt_key_ends_it(command: Command) -> None:
    command.start(("/bin/sh", "-c", "echo up; exec sleep 300"), pty=(24, 80), stdin=False)
    command.read_until(b"up", "m")
    os.write(command.held["m"], b"\x03")
    assert command.ended() == ["signaled", str(int(signal.SIGINT)), "1"]


def test_a_new_size_is_told_to_it(command: Command) -> None:
    command.start(
        ("/bin/sh", "-c", "trap 'stty size' WINCH; echo up; while :; do sleep 0.01; done"),
        pty=(24, 80),
        stdin=False,
    )
    command.read_until(b"up", "m")
    fcntl.ioctl(command.held["m"], termios.TIOCSWINSZ, struct.pack("4H", 50, 132, 0, 0))
    command.read_until(b"50 132", "m")


def test_its_input_may_come_from_elsewhere(command: Command) -> None:
    command.start(("/bin/sh", "-c", "test -t 0 || echo pipe; test -t 1 && cat"), pty=(24, 80))
    os.write(command.held["i"], b"piped\n")
    assert b"pipe" in command.read_until(b"piped", "m")


def test_a_terminal_and_its_relay_are_handed_over(command: Command) -> None:
    command.start(("/bin/sh", "-c", "echo up; read line; echo got $line"), pty=(24, 80), stdin=False)
    command.read_until(b"up", "m")
    assert set(command.take_over()[0]) == set("rwmp")
    os.write(command.held["m"], b"again\n")
    command.read_until(b"got again", "m")
    os.write(command.held["w"], b"relayed")
    assert os.read(command.held["r"], 100) == b"relayed"


def test_the_last_size_counts(command: Command) -> None:
    command.supervisor.send("terminal 10 20")
    command.supervisor.send("terminal 99999 1")
    command.start(("/bin/sh", "-c", "stty size"), pty=(12, 34), stdin=False)
    command.read_until(b"12 34", "m")
