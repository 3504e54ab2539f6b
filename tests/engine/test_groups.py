"""Groups: how many run at once, who waits, what a crash of the server costs them, and verbs on many at
once.
"""

import asyncio
import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from outlive.core.command import Command
from outlive.core.controls import CloseInput, Pause, Resume, SignalProcess
from outlive.core.errors import InvalidRequest, InvalidState, LimitExceeded
from outlive.core.lifecycle import Cause, State
from outlive.core.process import Owner
from outlive.engine import Engine, Process, ProcessFilter
from outlive.store.folder import ChangedLabels
from outlive.store.queue_store import QueueStore
from tests.engine.engines import ME, an_engine, output_of, settled
from tests.keeper.house import House
from tests.support.processes import Gate, poll_until

_SERVER = """
import asyncio, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from outlive.core.command import Command
from tests.engine.engines import ME, an_engine

async def serve():
    async with an_engine(Path({state!r})) as engine:
        for number in range(6):
            command = Command(line={line!r}.format(number), group="g", group_limit=2)
            process = await engine.starts.start(command, owner=ME)
            print(process.process_id, flush=True)
        await asyncio.sleep(1000)

asyncio.run(serve())
"""


def _command(line: str, *, limit: int | None = None, group: str = "g") -> Command:
    return Command(line=line, group=group, group_limit=limit)


def _states(processes: list[Process]) -> list[State]:
    return [process.status.state for process in processes]


async def _ended(engine: Engine, process: Process) -> int | None:
    async with asyncio.timeout(20):
        await engine.queries.wait(process)
    return process.record.exit_code


async def test_a_full_group_makes_the_next_wait_and_an_end_admits_it(
    own_house: House, tmp_path: Path
) -> None:
    gates = [Gate(tmp_path / str(number)) for number in range(4)]
    async with an_engine(own_house.state_dir) as engine:
        processes = [
            await engine.starts.start(
                _command(f"{gate.wait}; echo {number}; exit {number}", limit=2), owner=ME
            )
            for number, gate in enumerate(gates)
        ]
        first, second, third, fourth = processes
        assert _states(processes) == [State.RUNNING, State.RUNNING, State.QUEUED, State.QUEUED]
        assert third.record.pid is None
        listed = await engine.queries.list(ProcessFilter(group="g", active=True))
        assert [record.process_id for record in listed] == [one.process_id for one in reversed(processes)]
        gates[1].open()
        assert await _ended(engine, second) == 1
        await poll_until(lambda: third.status.state is State.RUNNING)
        assert fourth.status.state is State.QUEUED
        for gate in gates:
            gate.open()
        assert [await _ended(engine, process) for process in processes] == [0, 1, 2, 3]
        assert [await output_of(process) for process in processes] == [
            (b"%d\n" % number, b"") for number in range(4)
        ]
        assert first.record.started_at is not None
        assert fourth.record.started_at is not None
        assert fourth.record.started_at >= max(
            process.record.ended_at for process in (second,) if process.record.ended_at
        )
        for process in processes:
            await settled(engine, process)


async def test_other_groups_other_principals_and_no_group_do_not_wait(own_house: House, gate: Gate) -> None:
    somebody = Owner(principal="somebody")
    async with an_engine(own_house.state_dir) as engine:
        await engine.queue.set_limit("me", "g", 1)
        started = [
            await engine.starts.start(_command(gate.wait), owner=ME),
            await engine.starts.start(_command(gate.wait, group="h"), owner=ME),
            await engine.starts.start(_command(gate.wait), owner=somebody),
            await engine.starts.start(Command(line=gate.wait), owner=ME),
        ]
        assert set(_states(started)) == {State.RUNNING}
        waiting = await engine.starts.start(_command(gate.wait), owner=ME)
        assert waiting.status.state is State.QUEUED
        gate.open()
        for process in (*started, waiting):
            assert await _ended(engine, process) == 0


async def test_a_higher_limit_admits_at_once_and_taking_it_away_admits_all(
    own_house: House, gate: Gate
) -> None:
    async with an_engine(own_house.state_dir) as engine:
        processes = [await engine.starts.start(_command(gate.wait, limit=1), owner=ME) for _ in range(4)]
        await engine.queue.set_limit("me", "g", 2)
        assert [one.limit for one in engine.queue.machine.views("me") if one.group == "g"] == [2]
        await poll_until(lambda: processes[1].status.state is State.RUNNING)
        assert _states(processes[2:]) == [State.QUEUED] * 2
        await engine.queue.set_limit("me", "g", None)
        await poll_until(lambda: set(_states(processes)) == {State.RUNNING})
        gate.open()
        for process in processes:
            assert await _ended(engine, process) == 0
        with pytest.raises(InvalidRequest):
            await engine.queue.set_limit("me", "g", 0)


async def test_who_is_cancelled_while_waiting_never_runs(
    own_house: House, gate: Gate, tmp_path: Path
) -> None:
    trace = tmp_path / "ran"
    async with an_engine(own_house.state_dir) as engine:
        first = await engine.starts.start(_command(gate.wait, limit=1), owner=ME)
        second = await engine.starts.start(_command(f"touch {trace}"), owner=ME)
        third = await engine.starts.start(_command("exit 3"), owner=ME)
        await engine.controls.cancel(second, note="Cancelled by its owner.")
        assert (second.status.state, second.status.is_complete, second.status.is_closed) == (
            State.FAILED_TO_START,
            True,
            True,
        )
        record = (await engine.queries.find(second.process_id)).record
        assert (record.exit_code, record.exit_signal, record.cause) == (None, None, Cause.CANCEL)
        assert record.error == "Cancelled by its owner."
        assert await output_of(second) == (b"", b"")
        gate.open()
        assert await _ended(engine, first) == 0
        assert await _ended(engine, third) == 3
        await settled(engine, second)
        assert (await engine.queries.find(second.process_id)).record.error == "Cancelled by its owner."
    assert not trace.exists()
    assert await asyncio.to_thread(_waiting_files, own_house) == []


async def test_who_waits_can_be_cancelled_and_nothing_else(own_house: House, gate: Gate) -> None:
    async with an_engine(own_house.state_dir) as engine:
        first = await engine.starts.start(_command(gate.wait, limit=1), owner=ME)
        waiting = await engine.starts.start(Command(line="cat", stdin="pipe", group="g"), owner=ME)
        for verb in (
            engine.controls.control(waiting, Pause()),
            engine.controls.control(waiting, Resume()),
            engine.controls.control(waiting, SignalProcess(signal=signal.SIGUSR1)),
            engine.controls.write(waiting, b"x"),
            engine.controls.control(waiting, CloseInput()),
            engine.records.relabel(waiting, ChangedLabels(tags={}, group=None, name=None)),
        ):
            with pytest.raises(InvalidState) as refused:
                await verb
            assert refused.value.code == "process_queued"
        await engine.controls.cancel(waiting)
        gate.open()
        await _ended(engine, first)


async def test_what_cannot_be_started_when_its_turn_comes_is_told_and_the_next_one_runs(
    own_house: House, gate: Gate, tmp_path: Path
) -> None:
    folder = tmp_path / "soon gone"
    folder.mkdir()
    async with an_engine(own_house.state_dir) as engine:
        first = await engine.starts.start(_command(gate.wait, limit=1), owner=ME)
        doomed = await engine.starts.start(Command(line="true", cwd=str(folder), group="g"), owner=ME)
        last = await engine.starts.start(_command("exit 5"), owner=ME)
        folder.rmdir()
        gate.open()
        await _ended(engine, first)
        await _ended(engine, doomed)
        assert doomed.status.state is State.FAILED_TO_START
        assert "folder" in str(doomed.record.error)
        assert await _ended(engine, last) == 5


@pytest.mark.thorough
async def test_a_killed_server_costs_nobody_his_place(own_house: House, tmp_path: Path) -> None:
    """SIGKILL while two run and four wait: the next server admits them in order, each once, also after a
    second kill.
    """
    root = str(Path(__file__).parents[2])
    starts = tmp_path / "starts"
    gate = Gate(tmp_path / "gate")
    line = f"echo {{0}} >> {starts}; {gate.wait}; exit {{0}}"
    program = _SERVER.format(root=root, state=str(own_house.state_dir), line=line)
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    ids = [(await server.stdout.readline()).decode().strip() for _ in range(6)]
    os.kill(server.pid, signal.SIGKILL)
    await server.wait()
    async with an_engine(own_house.state_dir) as engine:
        found = [await engine.queries.find(process_id) for process_id in ids]
        assert _states(found) == [State.RUNNING] * 2 + [State.QUEUED] * 4
        assert [one.limit for one in engine.queue.machine.views("me") if one.group == "g"] == [2]
    async with an_engine(own_house.state_dir) as engine:
        found = [await engine.queries.find(process_id) for process_id in ids]
        assert _states(found) == [State.RUNNING] * 2 + [State.QUEUED] * 4
        gate.open()
        assert [await _ended(engine, process) for process in found] == list(range(6))
        for process in found:
            await settled(engine, process)
    ran = (await asyncio.to_thread(starts.read_text)).split()
    assert sorted(ran) == [str(number) for number in range(6)]


async def test_a_command_that_was_started_just_before_the_crash_is_not_started_again(
    own_house: House,
) -> None:
    """The file is left behind when the server dies between the start and its removal."""
    async with an_engine(own_house.state_dir) as engine:
        process = await engine.starts.start(_command("exit 4", limit=1), owner=ME)
        assert await _ended(engine, process) == 4
        await settled(engine, process)
    left_behind = Path(own_house.layout.waiting) / process.process_id
    left_behind.write_bytes(b"0\n")
    async with an_engine(own_house.state_dir) as engine:
        assert (await engine.queries.find(process.process_id)).record.exit_code == 4
        assert [one.process_id for one in engine.queries.live()] == []
    assert not left_behind.exists()


async def test_a_whole_group_is_paused_resumed_and_cancelled(own_house: House, tmp_path: Path) -> None:
    async with an_engine(own_house.state_dir) as engine:
        members = [
            await engine.starts.start(Command(line="sleep 1000", group="g", tags={"n": str(n)}), owner=ME)
            for n in range(3)
        ]
        other = await engine.starts.start(Command(line="sleep 1000", group="other"), owner=ME)
        wanted = ProcessFilter(principal="me", group="g")
        assert await engine.bulk.control(wanted, partial(engine.controls.control, operation=Pause())) == {
            one.process_id: None for one in members
        }
        await poll_until(lambda: set(_states(members)) == {State.PAUSED})
        assert other.status.state is State.RUNNING
        await engine.bulk.control(
            ProcessFilter(tags={"n": "1"}), partial(engine.controls.control, operation=Resume())
        )
        await poll_until(lambda: members[1].status.state is State.RUNNING)
        await engine.bulk.control(wanted, partial(engine.controls.cancel, grace_s=1.0))
        for process in members:
            await _ended(engine, process)
        assert other.status.state is State.RUNNING
        assert await engine.bulk.control(wanted, partial(engine.controls.control, operation=Pause())) == {}
        await engine.controls.cancel(other, grace_s=0.0)
        await _ended(engine, other)


def _waiting_files(own_house: House) -> list[str]:
    waiting, _ = QueueStore(own_house.layout).open()
    return [command.process_id for command in waiting]


async def test_a_disk_that_keeps_nothing_refuses_limits_moves_and_what_would_wait(
    own_house: House, gate: Gate
) -> None:
    waiting = Path(own_house.layout.waiting)
    async with an_engine(own_house.state_dir) as engine:
        busy = await engine.starts.start(_command(gate.wait, limit=1), owner=ME)
        first, second = [await engine.starts.start(_command("true"), owner=ME) for _ in range(2)]
        moved = await asyncio.to_thread(waiting.rename, waiting.with_name("moved"))
        for refused in (
            engine.queue.set_limit("me", "h", 1),
            engine.queue.move(second, -1),
            engine.starts.start(_command("true"), owner=ME),
        ):
            with pytest.raises(LimitExceeded) as full:
                await refused
            assert full.value.code == "disk_full"
        await asyncio.to_thread(moved.rename, waiting)
        (group,) = [one for one in engine.queue.machine.views("me") if one.group == "g"]
        assert group.waiting == [first.process_id, second.process_id]
        assert len(list(engine.queries.live())) == 3, "the refused one has left something"
        gate.open()
        for one in (busy, first, second):
            assert await _ended(engine, one) == 0
