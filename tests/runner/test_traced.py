"""Commands that make their shim their tracer (ptrace(2) PTRACE_TRACEME): a stop at a signal is no end."""

import os
import signal
import sys
from collections.abc import Callable

import pytest

from outlive.kernel.processes import stat_fields
from tests.runner.playing import Command, wait_until
from tests.runner.shims import KINDS, Shim

_BEGIN = """
import ctypes, os, signal, sys
def traced():
    assert ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0
def heard(*_):
    print("heard", flush=True)
signal.signal(signal.SIGUSR1, heard)
"""


class Started:
    """A Python program under a shim of this machine, or under one of a container."""

    def __init__(self, kind: str, request: pytest.FixtureRequest, program: str) -> None:
        argv = (sys.executable, "-S", "-E", "-c", _BEGIN + program)
        self.under: Shim | Command
        if kind == "container":
            command: Command = request.getfixturevalue("command")
            self.under = command.start(argv)
            self.pid = command.pid
        else:
            shim: Shim = request.getfixturevalue("shims")(kind)
            self.under = shim
            shim.spawn(*argv)
            self.pid = shim.spawned()[0]

    def ended(self) -> list[str]:
        """Hear `exited`."""
        return self.under.ended()

    def output(self) -> bytes:
        """Return what it wrote, and some more if it goes on."""
        return os.read(self.under.held["o"], 65536)


@pytest.fixture(params=[*KINDS, "container"])
def start(request: pytest.FixtureRequest) -> Callable[[str], Started]:
    """Starts a program that may be traced."""
    return lambda program: Started(request.param, request, program)


def test_a_signal_to_a_traced_command_is_not_its_end(start: Callable[[str], Started]) -> None:
    one = start("traced(); os.kill(os.getpid(), signal.SIGUSR1); sys.exit(7)")
    assert one.ended() == ["exited", "7", "1"]
    assert one.output() == b"heard\n"


def test_a_signal_that_ends_a_traced_command_is_its_end(start: Callable[[str], Started]) -> None:
    one = start("traced(); os.kill(os.getpid(), signal.SIGTERM); sys.exit(7)")
    assert one.ended() == ["signaled", "15", "1"]


def test_a_traced_command_may_execute_another_program(start: Callable[[str], Started]) -> None:
    """Linux sends SIGTRAP for that to a process whose tracer asked for nothing else: it means the tracer."""
    one = start("traced(); os.execv('/bin/sh', ['sh', '-c', 'echo other; exit 3'])")
    assert one.ended() == ["exited", "3", "1"]
    assert one.output() == b"other\n"


def test_a_sigtrap_of_its_own_ends_it(start: Callable[[str], Started]) -> None:
    one = start("traced(); os.kill(os.getpid(), signal.SIGTRAP); sys.exit(7)")
    assert one.ended() == ["signaled", "5", "1"]


def test_being_traced_again_and_again_keeps_no_one_waiting(start: Callable[[str], Started]) -> None:
    one = start("for _ in range(2000):\n    traced(); os.kill(os.getpid(), signal.SIGWINCH)\nsys.exit(4)")
    assert one.ended() == ["exited", "4", "1"]


def test_a_traced_command_is_stopped_and_continued(start: Callable[[str], Started]) -> None:
    one = start("traced(); print('up', flush=True); os.kill(os.getpid(), signal.SIGSTOP); sys.exit(2)")
    pid = one.pid
    wait_until(lambda: stat_fields(pid)[0] == b"T", about="stopped, and not at the mercy of a tracer")
    os.kill(pid, signal.SIGCONT)
    assert one.ended() == ["exited", "2", "1"]


def test_a_traced_daemon_below_a_shim_is_reaped_at_its_end(start: Callable[[str], Started]) -> None:
    """Its shim, which has adopted it, becomes its tracer."""
    one = start(
        "parent = os.getpid()\n"
        "if os.fork():\n    sys.exit(5)\n"
        "while os.getppid() == parent: pass\n"
        "traced(); os.kill(os.getpid(), signal.SIGUSR1); sys.exit(6)"
    )
    assert one.ended() == ["exited", "5", "0"]
    assert one.under.supervisor.words() == ["empty"]
    assert one.output() == b"heard\n"
