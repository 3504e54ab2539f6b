"""Whole trees in a container: daemons, freezing, signals, and what is told when the last one is gone."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from outlive.keeper.common.kernel import stat_fields
from outlive.keeper.common.tree import descendants
from tests.runner.playing import Command, exec_spec, wait_until

Commands = Callable[[], Command]

# The main process ends; what it leaves has a POSIX session of its own, and no parent of ours.
_DAEMON = "(setsid sh -c 'echo up; exec sleep 300' &) ; sleep 0.05; exit 4"
_CHAIN = """
import os, time
os.write(1, b"up\\n")
while True:
    if os.fork():
        os._exit(0)
    os.setsid() if os.getpid() % 3 == 0 else None
"""
_SPAWNER = """
import subprocess, os
os.write(1, b"up\\n")
while True:
    subprocess.run(["/bin/true"])
"""
_THREADS = """
import os, threading
def start():
    import subprocess
    subprocess.run(["sh", "-c", "echo up; sleep 300"])
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
    command.supervisor.send("tree 15 18")
    assert command.supervisor.words() == ["empty"]
    assert command.take_over()[3:6] == ["exited", "4", "1"]


def test_a_tree_of_threads_and_processes_is_found(command: Command) -> None:
    command.start(("/usr/bin/env", "python3", "-c", _THREADS))
    command.read_until(b"up")
    assert command.freeze(tries=50)
    assert set(_states(command).values()) <= {"T", "D"}
    assert len(_states(command)) >= 2, "what a thread has started belongs to it, too"
    command.supervisor.send("tree 9")
    assert command.ended()[:2] == ["signaled", "9"]


def test_a_tree_is_frozen_and_continued(command: Command) -> None:
    command.start(
        ("/bin/sh", "-c", "sleep 300 & (setsid sleep 300 &) ; echo up; while :; do sleep 0.01; done")
    )
    command.read_until(b"up")
    assert command.freeze(tries=50)
    assert set(_states(command).values()) <= {"T", "Z", "D"}, "D: in vfork(2), with a child that is stopped"
    command.supervisor.send("tree 18")
    wait_until(lambda: "T" not in _states(command).values())
    command.supervisor.send("tree 9")
    assert command.ended()[:2] == ["signaled", "9"]


def test_a_frozen_fork_chain_does_not_move(command: Command) -> None:
    """Each link is born while its parent ends: a walk alone misses it."""
    command.start(("/usr/bin/env", "python3", "-c", _CHAIN))
    command.read_until(b"up")
    frozen = False
    for _ in range(20):
        if frozen := command.freeze():
            break
    assert frozen
    before = _states(command)
    time.sleep(0.05)
    assert _states(command) == before
    assert set(before.values()) <= {"T", "Z", "D"}
    command.supervisor.send("tree 9")
    wait_until(lambda: not _states(command))


def test_a_parent_in_vfork_counts_as_frozen(command: Command) -> None:
    command.start(("/usr/bin/env", "python3", "-c", _SPAWNER))
    command.read_until(b"up")
    for _ in range(50):
        assert command.freeze(tries=50)
        command.supervisor.send("tree 18")
    command.supervisor.send("tree 9")
    assert command.ended()[:2] == ["signaled", "9"]


def test_signals_go_to_the_command_or_to_its_group(commands: Commands) -> None:
    script = "trap '' USR1; sleep 300 & echo up; wait; wait"
    one = commands().start(("/bin/sh", "-c", script))
    one.read_until(b"up")
    one.supervisor.send("one 15")
    assert one.ended() == ["signaled", "15", "0"]
    one.supervisor.send("one 9")
    one.supervisor.send("group 15")
    assert one.supervisor.words() == ["empty"], "the group is found without its leader, too"
    group = commands().start(("/bin/sh", "-c", script))
    group.read_until(b"up")
    group.supervisor.send("group 9")
    assert group.ended()[:2] == ["signaled", "9"]


def test_several_signals_are_sent_in_their_order(command: Command) -> None:
    command.start(("/bin/sh", "-c", "trap 'echo term; exit 0' TERM; echo up; while :; do sleep 0.01; done"))
    command.read_until(b"up")
    assert command.freeze(tries=50)
    command.supervisor.send("tree 15 18")
    assert command.read_until(b"term\n")
    assert command.ended()[0] == "exited"


def test_a_command_that_is_cancelled_before_go_never_ran(command: Command, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    command.spawn(exec_spec(("/bin/touch", str(proof))))
    command.born()
    command.supervisor.send("tree 15")
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


def test_signal_numbers_that_are_none_do_nothing(command: Command) -> None:
    command.start(("/bin/sleep", "300"))
    for words in (
        "tree",
        "tree 65",
        "tree -9",
        "tree 9 9 9 9 9 9 9 9 9",
        "one x",
        "one 9 9",
        "group",
        "tree 9x",
        "one 99999999999",
    ):
        command.supervisor.send(words)
    assert command.supervisor.is_silent()
    assert list(_states(command).values()) == ["S"]
    command.supervisor.send(f"one {int(signal.SIGKILL)}")
    assert command.ended() == ["signaled", "9", "1"]
