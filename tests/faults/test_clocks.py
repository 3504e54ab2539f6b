"""A wrong clock costs no history, and moves no end of an approval, a grant, a grace period or a timeout:
within a boot the time since boot counts.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.client import Client
from outlive.keeper.common.program import open_program
from outlive.keeper.common.spawn import PROGRAM_FLAG, keeper_argv, keeper_environment
from tests.faults.clocks import DAY_S, WrongClock
from tests.keeper.client import until
from tests.keeper.house import House, sh, shim_program
from tests.support.processes import Gate, poll_until
from tests.support.server import OutliveServer, run_outlive

pytestmark = pytest.mark.promise("W.retention.clock")

_HOUR_S = 3600


class _Machine:
    """Servers one after the other on one state folder, under one clock."""

    def __init__(self, folder: Path) -> None:
        self.clock = WrongClock(folder)
        self._state = folder / "state"
        self._args = ("--state-quota", "1M")

    def run(self, *lines: str) -> list[Path]:
        """Have a server run commands to their ends; return the folders of their processes."""
        made: list[Path] = []
        with OutliveServer(self._state, args=self._args, env=self.clock.environment):
            for line in lines:
                before = self._processes()
                assert run_outlive("run", "-c", line, state_dir=self._state).returncode == 0
                made += self._processes() - before
        return made

    async def look(self, marked: Path, **options: str) -> None:
        """Start a server and wait until its retention has looked at everything.

        `marked` is larger than the quota and the newest: it goes at every look, and last.
        """
        args = [*self._args, *(word for name, value in options.items() for word in (f"--{name}", value))]
        with OutliveServer(self._state, args=args, env=self.clock.environment):
            await poll_until(lambda: not marked.exists())

    def _processes(self) -> set[Path]:
        folder = self._state / "processes"
        return {one for one in folder.iterdir() if "." not in one.name} if folder.exists() else set()


_MARK = "head -c 2000000 /dev/zero"


@pytest.fixture
def machine(tmp_path: Path) -> _Machine:
    """A machine whose clock is right so far."""
    return _Machine(tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("days", [40, -40, 4000])
async def test_a_clock_that_is_wrong_at_a_start_costs_no_history(machine: _Machine, days: int) -> None:
    kept, marked = machine.run("echo kept", _MARK)
    machine.clock.set(wall_s=days * DAY_S)
    await machine.look(marked)
    assert kept.exists()


@pytest.mark.thorough
async def test_a_clock_that_jumps_while_the_server_runs_costs_no_history(machine: _Machine) -> None:
    machine.clock.set(wall_s=-40 * DAY_S)
    kept, marked = machine.run("echo kept", _MARK)
    machine.clock.set(wall_s=0)
    await machine.look(marked)
    assert kept.exists()


@pytest.mark.thorough
async def test_time_since_boot_makes_processes_old_whatever_the_clock_says(machine: _Machine) -> None:
    old, marked = machine.run("echo old", _MARK)
    machine.clock.set(wall_s=-40 * DAY_S, since_boot_s=31 * DAY_S)
    await machine.look(marked)
    assert not old.exists()


@pytest.mark.thorough
async def test_after_a_reboot_the_clock_makes_processes_a_day_older_at_most(machine: _Machine) -> None:
    kept, marked = machine.run("echo kept", _MARK)
    machine.clock.reboot()
    machine.clock.set(wall_s=40 * DAY_S)
    await machine.look(marked, retention="36h")
    assert kept.exists()


@pytest.mark.thorough
async def test_after_a_reboot_a_clock_that_went_on_for_an_hour_is_believed(machine: _Machine) -> None:
    old, marked = machine.run("echo old", _MARK)
    machine.clock.reboot()
    machine.clock.set(wall_s=40 * DAY_S)
    await machine.look(marked)
    assert old.exists()
    machine.clock.set(wall_s=40 * DAY_S + 2 * _HOUR_S, since_boot_s=2 * _HOUR_S)
    [marked] = machine.run(_MARK)
    await machine.look(marked)
    assert not old.exists()


@pytest.mark.thorough
@pytest.mark.parametrize("days", [40, -40])
def test_a_clock_that_was_set_neither_ends_nor_prolongs_the_wait_for_an_approval(
    tmp_path: Path, days: int
) -> None:
    clock, state = WrongClock(tmp_path), tmp_path / "state"
    asking = OutliveServer(state, args=["--ask", "echo *", "--approval-timeout", "3h"], env=clock.environment)

    def expires_in_h(client: Client) -> float:
        (waiting,) = client.approvals()
        assert waiting.expires_at is not None
        return (waiting.expires_at.timestamp() - time.time()) / _HOUR_S - 24 * days

    with asking, Client(state, start_server=False) as client:
        approved, late = client.start("echo yes"), client.start("echo late")
        clock.set(wall_s=days * DAY_S, since_boot_s=_HOUR_S)
        asking.restart()
        (digest,) = (one.digest for one in client.approvals() if one.process_id == approved.process_id)
        client.approve(approved.process_id, digest)
        assert approved.wait(30).exit_code == 0
        assert 1.9 < expires_in_h(client) < 2.1
        clock.set(wall_s=0, since_boot_s=4 * _HOUR_S)
        asking.restart()
        assert late.wait(30).cause == "approval_expired"


_ASK = """
import http.client, os, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=30)
connection.request("GET", "/v1/processes", headers={"Authorization": "Bearer " + os.environ["OUTLIVE_TOKEN"]})
print(connection.getresponse().status, flush=True)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("days", [40, -40])
def test_a_clock_that_was_set_neither_ends_nor_prolongs_a_grant(tmp_path: Path, days: int) -> None:
    clock, state = WrongClock(tmp_path), tmp_path / "state"
    with (
        OutliveServer(state, env=clock.environment) as server,
        Client(state, start_server=False) as client,
    ):
        ask = shlex.join([sys.executable, "-I", "-S", "-c", _ASK, str(server.ready["ports"]["rest"])])
        answers = f"{shlex.quote(str(tmp_path))}/answers"
        asking = client.start(f"while read -r _; do {ask} >> {answers}; done", grant="read:3h", stdin="pipe")
        for since_boot_h, answer in ((0, "200"), (2, "200"), (4, "401")):
            clock.set(wall_s=days * DAY_S, since_boot_s=since_boot_h * _HOUR_S)
            Path(answers).unlink(missing_ok=True)
            asking.write(b"ask\n")
            until(lambda: Path(answers).exists() and Path(answers).read_text() != "", "its answer")
            assert Path(answers).read_text().strip() == answer


@contextlib.contextmanager
def _next_supervisor(house: House, clock: WrongClock) -> Iterator[None]:
    """Supervisor and guardian are dead, and what takes over is a supervisor that has this clock."""
    program = open_program(house.layout, shim_program)
    argv = keeper_argv("supervisor", str(house.state_dir), f"{PROGRAM_FLAG}{program}")
    guardian = house.guardian()
    os.kill(guardian, signal.SIGSTOP)  # it starts none
    env = keeper_environment() | clock.environment
    with subprocess.Popen(argv, env=env, pass_fds=[program], start_new_session=True) as supervisor:
        os.close(program)
        house.kill(house.supervisor(), guardian)
        until(lambda: house.supervisor_of_lock() == supervisor.pid, "it to take over")
        try:
            yield
        finally:
            house.end()


@pytest.mark.thorough
@pytest.mark.parametrize("days", [40, -40])
@pytest.mark.parametrize(("since_boot_h", "code"), [(2, 0), (4, -9)])
def test_a_clock_that_was_set_neither_ends_nor_prolongs_a_grace_period(
    tmp_path: Path, gate: Gate, days: int, since_boot_h: int, code: int
) -> None:
    clock = WrongClock(tmp_path)
    with House(tmp_path / "state") as house:
        process_id = house.start(*sh(f"trap '' TERM; echo up; {gate.wait}"))
        house.wait_output(process_id, 3)
        house.client.ask_surely("stop", id=process_id, cause=1, grace_s=3.0 * _HOUR_S, note="by a test")
        clock.set(wall_s=days * DAY_S, since_boot_s=since_boot_h * _HOUR_S)
        with _next_supervisor(house, clock):
            assert house.run(*sh("exit 3"))[0] == 3
            if not code:
                gate.open()
            house.client.wait_done(process_id)
            assert house.wire_code(process_id) == code


@pytest.mark.thorough
@pytest.mark.parametrize("days", [40, -40])
def test_a_clock_that_was_set_moves_no_timeout(tmp_path: Path, gate: Gate, days: int) -> None:
    """A shim, whose clock is right here, reports the start to a supervisor whose clock was just set."""
    clock = WrongClock(tmp_path)
    clock.set(wall_s=days * DAY_S)
    with House(tmp_path / "state") as house, _next_supervisor(house, clock):
        process_id = house.start(*sh(f"echo up; {gate.wait}; exit 4"), timeout_s=3.0 * _HOUR_S)
        house.wait_output(process_id, 3)
        gate.open()
        house.client.wait_done(process_id)
        assert house.wire_code(process_id) == 4
