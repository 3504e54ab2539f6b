"""Places that are leased by something else, which answers later: a start is answered once it runs, as where
places are counted here.
"""

import asyncio
from pathlib import Path

import pytest

from outlive.core.command import Command
from outlive.core.errors import LimitExceeded, StartFailed
from outlive.core.lifecycle import Cause, State
from outlive.core.needs import Amounts, Needs
from outlive.engine import Engine, Process
from outlive.extensions.ray.leased import LeasedPlacement
from outlive.extensions.ray.leases import LeaseAnswer, LeaseOrder, LeaseReport, LeasingNode
from outlive.placement.contract import FoundNode
from outlive.placement.fleet import FleetNode
from tests.engine.engines import ME, an_engine
from tests.keeper.house import House
from tests.support.processes import Gate, poll_until

_SIZE = Amounts.of(cpu=2)


class _Driver:
    """Leases places on this machine when the test says so."""

    def __init__(self) -> None:
        self.placement = LeasedPlacement(FleetNode(name="none", capacity=Amounts()), self)
        self.orders: list[LeaseOrder] = []
        self._is_open = False

    def send(self, order: LeaseOrder) -> None:
        self.orders.append(order)

    async def found(self) -> FoundNode:
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return] # never

    async def run(self, placement: LeasedPlacement) -> None:
        self._is_open = True
        placement.node_changed(FleetNode(name="local", capacity=_SIZE))
        self.report()
        await asyncio.get_running_loop().create_future()

    def report(self) -> None:
        """Say that all is free: what was leased here counts beside."""
        self.placement.reported(LeaseReport(nodes=(LeasingNode(name="local", capacity=_SIZE, free=_SIZE),)))

    async def answer(self, *, is_done: bool) -> None:
        """Answer the next order, once there is one."""
        await poll_until(lambda: bool(self.orders))
        order = self.orders.pop(0)
        self.placement.answered(LeaseAnswer(number=order.number, is_done=is_done))

    async def open(self) -> None:
        """Wait until this is asked for places."""
        await poll_until(lambda: self._is_open)


def _start(engine: Engine, line: str, *, waits: bool = True) -> asyncio.Task[Process]:
    command = Command(line=line, needs=Needs(is_patient=waits))
    return asyncio.create_task(engine.starts.start(command, owner=ME))


async def test_a_start_is_answered_once_its_lease_is_there_and_it_runs(
    own_house: House, tmp_path: Path
) -> None:
    driver, gate = _Driver(), Gate(tmp_path / "gate")
    async with an_engine(own_house.state_dir, placement=driver.placement) as engine:
        await driver.open()
        started = _start(engine, gate.wait)
        await poll_until(lambda: bool(driver.orders))
        assert not started.done()
        await driver.answer(is_done=True)
        process = await started
        assert process.status.state is State.RUNNING
        gate.open()
        await engine.queries.wait(process)


async def test_why_a_program_could_not_be_started_is_said_to_the_caller(
    own_house: House, tmp_path: Path
) -> None:
    driver, program = _Driver(), tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o700)
    async with an_engine(own_house.state_dir, placement=driver.placement) as engine:
        await driver.open()
        command = Command(argv=(str(program),), needs=Needs())
        started = asyncio.create_task(engine.starts.start(command, owner=ME))
        await driver.answer(is_done=True)
        with pytest.raises(StartFailed):
            await started
        await poll_until(lambda: [one.node for one in driver.orders] == [""])  # given back


async def test_where_another_server_was_first_a_start_waits_or_is_refused(
    own_house: House, tmp_path: Path
) -> None:
    driver, gate = _Driver(), Gate(tmp_path / "gate")
    async with an_engine(own_house.state_dir, placement=driver.placement) as engine:
        await driver.open()
        patient, hasty = _start(engine, gate.wait), _start(engine, "true", waits=False)
        await poll_until(lambda: len(driver.orders) == 2)
        for _ in range(2):
            await driver.answer(is_done=False)
        process = await patient
        assert (process.status.state, process.record.waits_for) == (State.QUEUED, "place")
        with pytest.raises(LimitExceeded, match="No machine has as much free"):
            await hasty
        assert engine.placement.waiting() == [process.process_id]
        driver.report()
        await driver.answer(is_done=True)
        await poll_until(lambda: process.status.state is State.RUNNING)
        gate.open()
        await engine.queries.wait(process)


async def test_a_start_that_is_withdrawn_before_its_lease_is_there_never_runs(
    own_house: House, tmp_path: Path
) -> None:
    driver = _Driver()
    async with an_engine(own_house.state_dir, placement=driver.placement) as engine:
        await driver.open()
        started = _start(engine, f"touch {tmp_path}/ran")
        await poll_until(lambda: bool(driver.orders))
        (process,) = engine.queries.live()
        await engine.controls.cancel(process, grace_s=0)
        await started
        assert process.record.cause is Cause.CANCEL
        await driver.answer(is_done=True)
        assert [one.node for one in driver.orders] == [""], "the lease is given back"
        assert not (tmp_path / "ran").exists()
