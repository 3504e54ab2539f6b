"""Groups and places together: what has its turn in its group waits for a place alone, and what has none keeps
no machine. What is decided in which case: `tests/operations/test_waiting_starts.py`.
"""

import asyncio
from pathlib import Path

import pytest

from outlive.core.command import Command
from outlive.core.errors import InvalidState
from outlive.core.lifecycle import State
from outlive.core.needs import Amounts, Needs
from outlive.engine import Engine, Process
from outlive.store.folder import ChangedLabels
from tests.engine.engines import ME, an_engine
from tests.engine.test_places import two_processors
from tests.keeper.house import House
from tests.support.processes import Gate

_NOWHERE = 8  # processors: more than the machine has


def _needs(cpu: float) -> Needs:
    return Needs(amounts=Amounts.of(cpu=cpu))


async def _start(
    engine: Engine, line: str, cpu: float | None, *, group: str | None = "g", limit: int | None = None
) -> Process:
    needs = None if cpu is None else _needs(cpu)
    command = Command(line=line, needs=needs, group=group, group_limit=limit)
    return await engine.starts.start(command, owner=ME)


async def _ended(engine: Engine, *processes: Process) -> None:
    async with asyncio.timeout(20):
        for one in processes:
            await engine.queries.wait(one)


async def test_after_a_restart_all_that_wait_ask_for_a_place_in_the_order_in_which_they_came(
    own_house: House, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    async with an_engine(own_house.state_dir, placement=two_processors()) as engine:
        busy = await _start(engine, gate.wait, 2, group=None)
        groups = ("g", None, "g", None)
        ids = [(await _start(engine, "true", 2, group=group)).process_id for group in groups]
        hopeless = await _start(engine, "true", _NOWHERE, group="h")
        last = await _start(engine, "true", 1, group="h")
        ids += [hopeless.process_id, last.process_id]
        assert engine.placement.waiting() == ids
    async with an_engine(own_house.state_dir, placement=two_processors()) as engine:
        await engine.queries.known()
        assert engine.placement.waiting() == ids
        found = [await engine.queries.find(one) for one in (busy.process_id, *ids)]
        gate.open()
        await _ended(engine, *(one for one in found if one.process_id != hopeless.process_id))
        await engine.controls.cancel(found[-2])


async def test_what_is_moved_back_gives_up_the_place_that_it_waits_for(
    own_house: House, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    async with an_engine(own_house.state_dir, placement=two_processors()) as engine:
        busy = await _start(engine, gate.wait, 2, group=None)
        first = await _start(engine, "true", 2, limit=1)
        second = await _start(engine, "true", 2)
        assert engine.placement.waiting() == [first.process_id]
        await engine.queue.move(first, 1)
        assert engine.placement.waiting() == [second.process_id]
        gate.open()
        await _ended(engine, busy, first, second)
        assert second.record.started_at is not None
        assert first.record.started_at is not None
        assert second.record.started_at < first.record.started_at


async def test_a_group_without_a_limit_has_no_line_to_be_moved_in(own_house: House, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    async with an_engine(own_house.state_dir, placement=two_processors()) as engine:
        busy = await _start(engine, gate.wait, 2, group=None)
        waiting = [await _start(engine, "true", 2) for _ in range(2)]
        with pytest.raises(InvalidState, match="in the order in which it came"):
            await engine.queue.move(waiting[1], -1)
        assert engine.placement.waiting() == [one.process_id for one in waiting]
        gate.open()
        await _ended(engine, busy, *waiting)


async def test_a_lower_limit_takes_turns_back_and_a_higher_one_gives_them_again(
    own_house: House, tmp_path: Path
) -> None:
    gate, busy_gate = Gate(tmp_path / "gate"), Gate(tmp_path / "busy")
    async with an_engine(own_house.state_dir, placement=two_processors()) as engine:
        busy = await _start(engine, busy_gate.wait, 2, group=None)
        runs = await _start(engine, gate.wait, None, limit=2)
        waits = await _start(engine, "true", 2)
        assert engine.placement.waiting() == [waits.process_id]
        await engine.queue.set_limit("me", "g", 1)
        assert engine.placement.waiting() == []
        busy_gate.open()
        await _ended(engine, busy)
        assert waits.status.state is State.QUEUED
        assert engine.placement.rooms()[0].processes == 0, "it would hold a place that it cannot use"
        await engine.queue.set_limit("me", "g", 2)
        await _ended(engine, waits)
        gate.open()
        await _ended(engine, runs)


async def test_other_labels_of_what_runs_in_a_full_group_start_no_other_one(
    own_house: House, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    async with an_engine(own_house.state_dir) as engine:
        first = await _start(engine, gate.wait, None, limit=1)
        second = await _start(engine, "true", None)
        await engine.records.relabel(first, ChangedLabels(tags={"a": "b"}, group="g", name=None))
        assert second.status.state is State.QUEUED
        await engine.records.relabel(first, ChangedLabels(tags={}, group=None, name=None))
        await _ended(engine, second)
        assert first.status.state is State.RUNNING
        gate.open()
        await _ended(engine, first)
