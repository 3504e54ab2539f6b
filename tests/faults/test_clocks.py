"""A wrong clock costs no history (issue 19, section 5): within a boot retention counts the time since boot."""

from pathlib import Path

import pytest

from tests.faults.clocks import DAY_S, WrongClock
from tests.support.processes import poll_until
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
