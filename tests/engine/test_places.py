"""Places: what a command needs of its machine is counted, what has no room waits in order, and a crash costs
it nothing.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import cast

import pytest

from outlive.backends.contract import Backend
from outlive.core.command import Command
from outlive.core.errors import InvalidRequest, LimitExceeded, ProcessNotFound
from outlive.core.identity import RANDOM_BYTES, new_process_id
from outlive.core.lifecycle import State
from outlive.core.needs import Amounts, Needs
from outlive.engine import Engine, Process
from outlive.placement.fleet import FleetNode
from outlive.placement.waiting_line import StaticPlacement
from tests.engine.engines import ME, an_engine, output_of
from tests.engine.held_backend import HeldBackend
from tests.keeper.house import House
from tests.support.processes import Gate, poll_until

_SERVER = """
import asyncio, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from outlive.core.command import Command
from outlive.core.needs import Amounts, Needs
from tests.engine.engines import ME, an_engine
from tests.engine.test_places import two_processors

async def serve():
    async with an_engine(Path({state!r}), placement=two_processors()) as engine:
        for number in range(5):
            command = Command(line={line!r}.format(number), needs=Needs())
            process = await engine.starts.start(command, owner=ME)
            print(process.process_id, flush=True)
        await asyncio.sleep(1000)

asyncio.run(serve())
"""


def two_processors(**labels: str) -> StaticPlacement:
    """Return a machine of two processors."""
    node = FleetNode(name="local", capacity=Amounts.of(cpu=2), labels=frozenset(labels.items()))
    return StaticPlacement([node])


def _needs(cpu: float = 1, *, waits: bool = True, **labels: str) -> Needs:
    return Needs(amounts=Amounts.of(cpu=cpu), labels=labels, is_patient=waits)


async def _start(engine: Engine, gate: Gate, needs: Needs, **members: str) -> Process:
    return await engine.starts.start(Command(line=gate.wait, needs=needs, **members), owner=ME)  # type: ignore[arg-type] # members of Command that are texts


async def test_what_has_no_room_waits_and_is_started_in_its_turn(own_house: House, tmp_path: Path) -> None:
    gates = [Gate(tmp_path / str(number)) for number in range(4)]
    async with an_engine(own_house.state_dir, placement=two_processors()) as engine:
        started = [await _start(engine, gate, _needs()) for gate in gates]
        assert [one.status.state for one in started] == [
            State.RUNNING,
            State.RUNNING,
            State.QUEUED,
            State.QUEUED,
        ]
        assert started[2].record.waits_for == "place"
        assert engine.placement.waiting() == [started[2].process_id, started[3].process_id]
        gates[1].open()
        await poll_until(lambda: started[2].status.state is State.RUNNING)
        assert started[3].status.state is State.QUEUED
        for gate in gates:
            gate.open()
        for one in started:
            await engine.queries.wait(one)
            assert one.record.exit_code == 0
        assert engine.placement.rooms()[0].free == Amounts.of(cpu=2)


async def test_what_does_not_wait_is_refused_and_leaves_nothing(own_house: House, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    async with an_engine(own_house.state_dir, placement=two_processors(zone="eu")) as engine:
        first = await _start(engine, gate, _needs(2))
        with pytest.raises(LimitExceeded, match="No machine has as much free") as refused:
            await _start(engine, gate, _needs(waits=False))
        assert refused.value.code == "no_room"
        with pytest.raises(InvalidRequest, match="no machine that is known"):
            await _start(engine, gate, _needs(waits=False, zone="us"))
        assert [one.process_id for one in engine.queries.live()] == [first.process_id]
        gate.open()
        await engine.queries.wait(first)


@pytest.mark.promise("L.gpus")
async def test_what_no_single_gpu_has_room_for_is_refused_and_may_be_asked_for_again(
    own_house: House, tmp_path: Path
) -> None:
    """A server that is this one's gateway asks each second, under the same id: what was refused must not
    stand here as failed.
    """
    gate, process_id = Gate(tmp_path / "gate"), new_process_id(1, os.urandom(RANDOM_BYTES))
    placement = StaticPlacement([FleetNode(name="local", capacity=Amounts.of(cpu=9, gpu=2))])
    async with an_engine(own_house.state_dir, placement=placement, gpus=("0", "1")) as engine:
        parts = [
            await _start(engine, gate, Needs(amounts=Amounts.of(gpu=0.6, cpu=number))) for number in (0, 1)
        ]
        command = Command(line="true", needs=Needs(amounts=Amounts.of(gpu=0.8), is_patient=False))
        for _ in range(2):
            with pytest.raises(LimitExceeded, match="No GPU of this machine") as refused:
                await engine.starts.start(command, owner=ME, process_id=process_id)
            assert refused.value.code == "no_room"
            with pytest.raises(ProcessNotFound):
                await engine.queries.find(process_id)
        gate.open()
        for one in parts:
            await engine.queries.wait(one)
        process = await engine.starts.start(command, owner=ME, process_id=process_id)
        await engine.queries.wait(process)
        assert process.record.exit_code == 0


async def test_what_a_full_disk_has_refused_may_be_asked_for_again(tmp_path: Path) -> None:
    """As without needs: it has never run, and its id names nothing."""
    held, process_id = HeldBackend(tmp_path), new_process_id(1, os.urandom(RANDOM_BYTES))
    async with an_engine(tmp_path, backend=cast("Backend", held), placement=two_processors()) as engine:

        async def start() -> Process:
            command = Command(argv=("true",), needs=_needs(2))
            return await engine.starts.start(command, owner=ME, process_id=process_id)

        refused = asyncio.create_task(start())
        await poll_until(lambda: bool(held.asked))
        held.asked.pop().finish(LimitExceeded("disk_full", "The disk is full."))
        with pytest.raises(LimitExceeded, match="disk is full"):
            await refused
        with pytest.raises(ProcessNotFound):
            await engine.queries.find(process_id)
        again = asyncio.create_task(start())
        await poll_until(lambda: bool(held.asked))
        held.arrive(held.asked[0])
        assert (await again).status.state is State.RUNNING
        held.end(process_id)


async def test_a_start_that_fails_gives_its_place_back(own_house: House) -> None:
    async with an_engine(own_house.state_dir, placement=two_processors()) as engine:
        for _ in range(3):
            with pytest.raises(Exception, match="no-such-program"):
                await engine.starts.start(Command(argv=("no-such-program",), needs=_needs(2)), owner=ME)
        assert engine.placement.rooms()[0].processes == 0


async def test_what_is_withdrawn_gives_its_turn_to_the_next(own_house: House, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    async with an_engine(own_house.state_dir, placement=two_processors()) as engine:
        busy = await _start(engine, gate, _needs(1))
        large = await _start(engine, gate, _needs(2))
        small = await _start(engine, gate, _needs(1))
        assert (large.status.state, small.status.state) == (
            State.QUEUED,
            State.QUEUED,
        )  # one processor is kept for the large one
        await engine.controls.cancel(large)
        await poll_until(lambda: small.status.state is State.RUNNING)
        assert large.record.state is State.FAILED_TO_START
        gate.open()
        for one in (busy, small):
            await engine.queries.wait(one)


async def test_a_group_keeps_its_order_and_its_limit(own_house: House, tmp_path: Path) -> None:
    gates = [Gate(tmp_path / str(number)) for number in range(3)]
    async with an_engine(own_house.state_dir, placement=two_processors()) as engine:
        commands = [
            Command(line=gate.wait, needs=_needs(), group="g", group_limit=1 if number == 0 else None)
            for number, gate in enumerate(gates)
        ]
        started = [await engine.starts.start(command, owner=ME) for command in commands]
        assert [one.status.state for one in started] == [State.RUNNING, State.QUEUED, State.QUEUED]
        assert engine.placement.rooms()[0].processes == 1, "what waits for its group holds no place"
        for one, gate in zip(started, gates, strict=True):
            await poll_until(lambda one=one: one.status.state is State.RUNNING)  # type: ignore[misc] # a default binds it
            gate.open()
            await engine.queries.wait(one)


async def test_a_killed_server_costs_neither_turn_nor_place(own_house: House, tmp_path: Path) -> None:
    """Two run and three wait when the server is killed.

    The next one counts what runs, and starts each that waits once.
    """
    gate = Gate(tmp_path / "gate")
    line = f"echo {{}} >> {tmp_path}/ran; {gate.wait}"
    root = str(Path(__file__).parents[2])
    program = _SERVER.format(root=root, state=str(own_house.state_dir), line=line)
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    ids = [(await server.stdout.readline()).decode().strip() for _ in range(5)]
    await poll_until(lambda: len(_ran(tmp_path)) == 2)
    os.kill(server.pid, signal.SIGKILL)
    await server.wait()
    async with an_engine(own_house.state_dir, placement=two_processors()) as engine:
        await engine.queries.known()
        found = [await engine.queries.find(one) for one in ids]
        await poll_until(lambda: engine.placement.rooms()[0].processes == 2)
        assert [one.status.state for one in found[2:]] == [State.QUEUED] * 3
        assert sorted(_ran(tmp_path)) == ["0", "1"]
        gate.open()
        for one in found:
            async with asyncio.timeout(20):
                await engine.queries.wait(one)
            assert one.record.exit_code == 0
            assert await output_of(one) == (b"", b"")
    assert sorted(_ran(tmp_path)) == ["0", "1", "2", "3", "4"]


async def test_what_waits_keeps_its_order_over_a_restart_whatever_ids_its_callers_have_made(
    own_house: House, tmp_path: Path
) -> None:
    """The clock of the caller that came first is an hour ahead, that of the next one an hour late."""
    gate = Gate(tmp_path / "gate")
    hour_ns = 3600 * 10**9
    ids = [
        new_process_id(time.time_ns() + ahead_ns, os.urandom(RANDOM_BYTES))
        for ahead_ns in (hour_ns, -hour_ns)
    ]
    async with an_engine(own_house.state_dir, placement=two_processors()) as engine:
        await _start(engine, gate, _needs(2))
        for one in ids:
            await engine.starts.start(Command(line="true", needs=_needs(2)), owner=ME, process_id=one)
        assert engine.placement.waiting() == ids
    async with an_engine(own_house.state_dir, placement=two_processors()) as engine:
        await engine.queries.known()
        await poll_until(lambda: len(engine.placement.waiting()) == 2)
        assert engine.placement.waiting() == ids
        gate.open()
        for one in ids:
            await engine.queries.wait(await engine.queries.find(one))


def _ran(folder: Path) -> list[str]:
    try:
        return (folder / "ran").read_text().split()
    except FileNotFoundError:
        return []
