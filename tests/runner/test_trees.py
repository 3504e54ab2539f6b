"""Whole trees in a container: daemons, orphans, and what is told when the last one is gone."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from outlive.keeper.supervisor.endings.tree_control import freeze, send_all
from outlive.kernel.processes import descendants, is_dead, stat_fields
from tests.runner.playing import Command, Runner, exec_spec, wait_until

# The main process ends; what it leaves has a POSIX session of its own, and no parent of ours.
_DAEMON = "(setsid sh -c 'echo up; exec sleep 300' &) ; sleep 0.05; exit 4"
_THREADS = """
import os, threading
def start():
    import subprocess
    subprocess.run(["sh", "-c", "trap '' TERM; echo up; sleep 300; sleep 300"])
threading.Thread(target=start).start()
"""


def _states(command: Command) -> dict[int, str]:
    members = descendants([command.minder])
    return {pid: fields[0].decode() for pid in members if (fields := stat_fields(pid))}


def test_a_daemon_is_told_and_ended(command: Command) -> None:
    command.start(("/bin/sh", "-c", _DAEMON))
    command.read_until(b"up")
    assert command.ended() == ["exited", "4", "0"]
    assert command.supervisor.is_silent()
    assert command.take_over()[3:6] == ["exited", "4", "0"]
    command.signal_tree(signal.SIGTERM)
    assert command.supervisor.words() == ["empty"]
    assert command.take_over()[3:6] == ["exited", "4", "1"]


def test_what_a_thread_has_started_ends_with_the_runner(runner: Runner, command: Command) -> None:
    command.start(("/usr/bin/env", "python3", "-c", _THREADS))
    command.read_until(b"up")
    members = list(_states(command))
    assert len(members) >= 2, "what a thread has started belongs to the tree, too"
    assert runner.end() == 0
    assert command.ended()[:2] == ["signaled", str(int(signal.SIGTERM))]
    assert all(map(is_dead, members))


def test_a_command_that_is_cancelled_before_go_never_ran(command: Command, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    command.spawn(exec_spec(("/bin/touch", str(proof))))
    command.born()
    command.signal_tree(signal.SIGTERM)
    assert command.supervisor.words() == ["failed", "125", "program"]
    command.go()
    assert command.supervisor.is_silent()
    assert not proof.exists()
    assert command.record()[-1].startswith("failed 125 ")


def test_a_storm_of_orphans_is_reaped(command: Command) -> None:
    command.start(
        (
            "/bin/sh",
            "-c",
            "i=0; while [ $i -lt 400 ]; do (true &) ; i=$((i+1)); done; sleep 0.1; echo done; cat",
        )
    )
    command.read_until(b"done")
    wait_until(lambda: "Z" not in _states(command).values())
    os.close(command.held.pop("i"))
    command.supervisor.send("close i")
    assert command.ended() == ["exited", "0", "1"]


@pytest.mark.parametrize("walk", [descendants, freeze, lambda roots: send_all(roots, [signal.SIGCONT])])
def test_no_walk_begins_at_a_pid_that_is_not_known(walk: Callable[[list[int]], object]) -> None:
    with pytest.raises(ValueError, match="no tree begins at pid 0"):
        walk([0])
