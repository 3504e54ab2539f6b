"""A shim that interrupts nobody when it wakes (SCHED_BATCH, sched(7)): its command is as any other."""

import os
from collections.abc import Callable

import pytest

from tests.runner.playing import wait_until
from tests.runner.shims import Shim


def _run_one(shim: Shim) -> None:
    shim.spawn("/bin/true")
    shim.spawned()
    assert shim.ended() == ["exited", "0", "1"]


def _command_policy(shim: Shim) -> int:
    """Start a command that waits, look, and let it end."""
    shim.spawn("/bin/cat")
    pid, _, _ = shim.spawned()
    policy = os.sched_getscheduler(pid)
    os.close(shim.held.pop("i"))
    shim.supervisor.send("close i")
    assert shim.ended() == ["exited", "0", "1"]
    return policy


def test_it_is_patient_when_told_so_and_its_command_is_not(shims: Callable[..., Shim]) -> None:
    shim = shims("plain")
    os.setpriority(os.PRIO_PROCESS, shim.process.pid, 3)
    _run_one(shim)
    assert os.sched_getscheduler(shim.process.pid) == os.SCHED_OTHER
    shim.release("release patient")
    wait_until(lambda: os.sched_getscheduler(shim.process.pid) == os.SCHED_BATCH)
    assert _command_policy(shim) == os.SCHED_OTHER
    assert os.sched_getscheduler(shim.process.pid) == os.SCHED_BATCH, "until it is told otherwise"
    assert os.getpriority(os.PRIO_PROCESS, shim.process.pid) == 3
    shim.release()
    wait_until(lambda: os.sched_getscheduler(shim.process.pid) == os.SCHED_OTHER)
    assert _command_policy(shim) == os.SCHED_OTHER


@pytest.mark.parametrize("policy", [os.SCHED_BATCH, os.SCHED_IDLE])
def test_who_was_given_another_policy_keeps_it_and_so_does_its_command(
    shims: Callable[..., Shim], policy: int
) -> None:
    """Whoever starts a server under chrt(1) means its commands."""
    shim = shims("plain")
    os.sched_setscheduler(shim.process.pid, policy, os.sched_param(0))
    for words in ("release patient", "release"):
        assert _command_policy(shim) == policy
        shim.release(words)
    assert _command_policy(shim) == policy
    assert os.sched_getscheduler(shim.process.pid) == policy
