"""What an engine finds again: live processes, ends that nobody saw, a lost registry, a killed keeper."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from outlive.core.command import Command
from outlive.core.cursor import BEGINNING
from outlive.core.events import (
    Event,
    KeeperConnected,
    KeeperDisconnected,
    ProcessCompleted,
    ProcessRecovered,
)
from outlive.core.identity import RANDOM_BYTES, ProcessId, new_process_id
from outlive.core.lifecycle import Cause, State
from outlive.core.process import Owner
from outlive.engine import Engine, Process, ProcessFilter, follow
from outlive.kernel.files import write_whole
from tests.engine.engines import ME, an_engine, output_of, run, settled
from tests.keeper.client import until
from tests.keeper.house import House
from tests.support.processes import Gate, poll_until

SERVER = """
import asyncio, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from outlive.core.command import Command
from tests.engine.engines import ME, an_engine

async def serve():
    async with an_engine(Path({state!r})) as engine:
        for number in range(40):
            line = f"echo {{number}}; sleep 0.{{number % 7}}; exit {{number}}"
            process = await engine.starts.start(Command(line=line), owner=ME)
            print(process.process_id, flush=True)
        await asyncio.sleep(1000)

asyncio.run(serve())
"""


_KILLS = 8


def lose_registry(house: House) -> None:
    """Remove the index; the folders stay."""
    for suffix in ("", "-wal", "-shm"):
        Path(house.layout.registry + suffix).unlink(missing_ok=True)


def kill_supervisor(house: House) -> bool:
    """Kill the supervisor by its own pid; False when there is none at the moment."""
    supervisor = house.supervisor_of_lock()
    if supervisor is None:
        return False
    os.kill(supervisor, signal.SIGKILL)
    return True


async def test_a_live_process_is_adopted_with_everything_it_was(own_house: House, gate: Gate) -> None:
    owner = Owner(principal="me", connection_id="c7", request_id="9")
    async with an_engine(own_house.state_dir) as engine:
        command = Command(
            line=f"echo a; {gate.wait}; echo b; exit 4", tags={"t": "1"}, group="g", grace_s=3.0
        )
        first = await engine.starts.start(command, owner=owner)
        detached = await engine.starts.start(Command(line=gate.wait, detached=True), owner=ME)
        assert engine.connections.waiting() == set()
    async with an_engine(own_house.state_dir) as engine:
        assert {one.process_id for one in engine.queries.live()} == {first.process_id, detached.process_id}
        assert engine.connections.waiting() == {"c7"}
        [again] = engine.connections.live_of("c7")
        told, was = again.record, first.record
        for name in (
            "command",
            "owner",
            "tags",
            "group",
            "pid",
            "created_at",
            "started_at",
            "command_id",
            "grace_s",
        ):
            assert getattr(told, name) == getattr(was, name), name
        assert again.status.state is State.RUNNING
        gate.open()
        assert await output_of(again) == (b"a\nb\n", b"")
        assert again.record.exit_code == 4
        await settled(engine, again)
        assert engine.connections.waiting() == set()


async def test_an_end_that_nobody_saw_is_found_exactly(own_house: House, gate: Gate) -> None:
    async with an_engine(own_house.state_dir) as engine:
        natural = await engine.starts.start(
            Command(line=f"echo a; {gate.wait}; echo b >&2; exit 5"), owner=ME
        )
        cancelled = await engine.starts.start(Command(line="sleep 1000"), owner=ME)
        await asyncio.sleep(0.1)
        await engine.controls.cancel(cancelled, note="Cancelled before the server died.")
    gate.open()
    records = [own_house.folder(process.process_id) / "done" for process in (natural, cancelled)]
    await poll_until(lambda: all(record.stat().st_size for record in records))
    async with an_engine(own_house.state_dir) as engine:
        found = await engine.queries.find(natural.process_id)
        assert (found.record.exit_code, found.record.error) == (5, None)
        assert (found.status.is_complete, found.status.is_closed) == (True, True)
        assert await output_of(found) == (b"a\n", b"b\n")
        record = (await engine.queries.find(cancelled.process_id)).record
        assert (record.exit_signal, record.cause) == (15, Cause.CANCEL)
        assert record.error == "Cancelled before the server died."
        assert engine.connections.live_of("c1") == []
        ended = await engine.queries.list(ProcessFilter(connection_id="c1"))
        assert [one.process_id for one in reversed(ended)] == [natural.process_id, cancelled.process_id]


@pytest.mark.parametrize("harm", ["gone", "of another schema", "damaged"])
async def test_a_registry_that_cannot_be_used_is_rebuilt_from_the_folders(
    own_house: House, harm: str
) -> None:
    async with an_engine(own_house.state_dir) as engine:
        ended = await run(engine, "echo x; exit 2", tags={"a": "b"})
        live = await engine.starts.start(Command(line="sleep 1000"), owner=ME)
        await settled(engine, ended)
        known = await engine.queries.list()
    if harm == "gone":
        lose_registry(own_house)
    elif harm == "damaged":
        await asyncio.to_thread(write_whole, own_house.layout.registry, b"no database" * 1000)
    else:
        with contextlib.closing(sqlite3.connect(own_house.layout.registry)) as another:
            another.executescript(
                "DROP TABLE processes; CREATE TABLE processes (id TEXT); PRAGMA user_version = 99;"
            )
    async with an_engine(own_house.state_dir) as engine:
        assert (await engine.queries.find(ended.process_id)).record.exit_code == 2
        assert [one.process_id for one in engine.queries.live()] == [live.process_id]
        async with asyncio.timeout(10):
            while not await engine.queries.list(ProcessFilter(tags={"a": "b"})):  # noqa: ASYNC110 - in the background
                await asyncio.sleep(0.01)
        found = await engine.queries.list()
        assert [one.process_id for one in found] == [live.process_id, ended.process_id]
        # The folder knows the end to the microsecond, the server of before when it heard of it.
        assert replace(found[1], ended_at=None) == replace(known[1], ended_at=None)
    aside = [path.name for path in own_house.state_dir.glob("registry.db.damaged-*")]
    assert bool(aside) == (harm != "gone")


async def test_without_an_exit_record_a_process_is_lost(own_house: House) -> None:
    """Never invent an exit code: what nobody can know is told as lost."""
    async with an_engine(own_house.state_dir) as engine:
        process = await run(engine, "sleep 0.05; exit 3")
        unread = await run(engine, "true")
        running = await engine.starts.start(Command(line="sleep 1000"), owner=ME)
        unfinished = running.stored
        await engine.controls.cancel(running)
        await engine.queries.wait(running)
        await settled(engine, running)
        engine._registry.put(unfinished)
        await engine._registry.flush()
    for name in ("done", "closed", "stop"):
        (own_house.folder(running.process_id) / name).unlink(missing_ok=True)
    pid = own_house.folder(running.process_id) / "pid"
    pid.write_bytes(b"".join(pid.read_bytes().splitlines(keepends=True)[:2]))
    async with an_engine(own_house.state_dir) as engine:
        record = (await engine.queries.find(running.process_id)).record
        assert (record.state, record.exit_code, record.exit_signal) == (State.LOST, None, None)
        assert record.error is not None
        assert (await engine.queries.find(process.process_id)).record.exit_code == 3
        assert (await engine.queries.find(unread.process_id)).record.exit_code == 0


async def test_a_row_whose_folder_is_gone_is_lost(own_house: House) -> None:
    async with an_engine(own_house.state_dir) as engine:
        running = await engine.starts.start(Command(line="sleep 1000"), owner=ME)
        unfinished = running.stored
        await engine.controls.cancel(running)
        await engine.queries.wait(running)
        await settled(engine, running)
        engine._registry.put(unfinished)
        await engine._registry.flush()
    for path in own_house.folder(running.process_id).iterdir():
        path.unlink()
    own_house.folder(running.process_id).rmdir()
    async with an_engine(own_house.state_dir) as engine:
        process = await engine.queries.find(running.process_id)
        assert process.status.state is State.LOST
        assert await engine.queries.read(process, BEGINNING) == []


async def test_nothing_is_lost_when_the_supervisor_is_killed(own_house: House) -> None:
    """Commands run on; the engine reconnects by itself and hears the end of each."""
    heard: list[Event] = []
    async with an_engine(own_house.state_dir) as engine:
        engine.events.subscribe(heard.append)
        processes = [
            await engine.starts.start(
                Command(line=f"for i in 1 2 3 4 5; do echo $i; sleep 0.1; done; exit {code}"), owner=ME
            )
            for code in range(8)
        ]
        for _ in range(3):
            await poll_until(lambda: kill_supervisor(own_house))
            await asyncio.sleep(0.15)
        outputs = await asyncio.gather(*[output_of(process) for process in processes])
        assert outputs == [(b"1\n2\n3\n4\n5\n", b"")] * 8
        assert [process.record.exit_code for process in processes] == list(range(8))
    kinds = [type(event) for event in heard]
    assert kinds.count(ProcessCompleted) == 8
    assert KeeperDisconnected in kinds
    assert KeeperConnected in kinds


async def test_starts_go_on_while_the_supervisor_is_killed_again_and_again(own_house: House) -> None:
    """A start that was not acknowledged is sent again with the same id: each runs exactly once."""
    async with an_engine(own_house.state_dir) as engine:
        kills = 0

        async def kill_now_and_then() -> None:
            nonlocal kills
            while True:
                kills += kill_supervisor(own_house)
                await asyncio.sleep(0.12)

        async with asyncio.TaskGroup() as group, asyncio.timeout(60):
            killer = group.create_task(kill_now_and_then())
            while kills < _KILLS:
                processes = await asyncio.gather(
                    *[run(engine, f"echo {number}; exit {number}") for number in range(10)]
                )
                for number, process in enumerate(processes):
                    assert process.record.exit_code == number
                    assert await output_of(process) == (b"%d\n" % number, b"")
            killer.cancel()


async def test_a_server_killed_in_the_middle_of_starts_forgets_nothing(own_house: House) -> None:
    """SIGKILL right after an acknowledged start: the next server finds each process with its exact end."""
    program = SERVER.format(root=str(Path(__file__).parents[2]), state=str(own_house.state_dir))
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    acknowledged = [(await server.stdout.readline()).decode().strip() for _ in range(25)]
    server.kill()
    acknowledged += [line.decode().strip() async for line in server.stdout]
    await server.wait()
    heard: list[Event] = []
    engine = an_engine(own_house.state_dir)
    engine.events.subscribe(heard.append)
    async with engine:
        for number, process_id in enumerate(acknowledged):
            process = await engine.queries.find(process_id)
            async with asyncio.timeout(15):
                await engine.queries.wait(process)
            assert process.record.exit_code == number
            assert await output_of(process) == (b"%d\n" % number, b"")
    assert any(isinstance(event, ProcessRecovered) for event in heard)


async def test_a_process_that_finished_while_the_link_was_down_is_settled(own_house: House) -> None:
    """Not mentioned after a reconnect: the files tell the end."""
    async with an_engine(own_house.state_dir) as engine:
        process = await engine.starts.start(Command(line="sleep 0.2; echo x; exit 6"), owner=ME)
        # Hold the engine's loop: it hears nothing until the process has ended and a new keeper has let go of
        # it.
        assert kill_supervisor(own_house)
        folder = own_house.folder(process.process_id)
        deadline = time.monotonic() + 15
        while not (folder / "done").stat().st_size and time.monotonic() < deadline:
            time.sleep(0.01)  # noqa: ASYNC251 - the point of this test
        assert await output_of(process) == (b"x\n", b"")
        assert process.record.exit_code == 6
        await settled(engine, process)


async def test_folders_that_are_no_processes_are_left_alone(own_house: House) -> None:
    strange = own_house.folder(new_process_id(1, bytes(RANDOM_BYTES)))
    async with an_engine(own_house.state_dir) as engine:
        await run(engine, "true")
    (own_house.folder(ProcessId("notes.txt"))).write_text("mine")
    strange.mkdir()
    lose_registry(own_house)
    async with an_engine(own_house.state_dir) as engine:
        async with asyncio.timeout(10):
            while not await engine.queries.list():  # noqa: ASYNC110 - in the background
                await asyncio.sleep(0.01)
        assert len(await engine.queries.list()) == 1


async def test_following_survives_a_new_server(own_house: House, gate: Gate) -> None:
    """The log is the queue: a cursor continues on another server."""
    got, cursor = b"", BEGINNING
    async with an_engine(own_house.state_dir) as engine:
        process = await engine.starts.start(Command(line=f"echo a; {gate.wait}; echo b"), owner=ME)
        async for chunks in follow(process, cursor):
            got += chunks[0].data
            cursor = type(chunks[0]).after(cursor, chunks)
            break
    gate.open()
    async with an_engine(own_house.state_dir) as engine:
        again: Process = await engine.queries.find(process.process_id)
        async with asyncio.timeout(15):
            async for chunks in follow(again, cursor):
                got += chunks[0].data
    assert got == b"a\nb\n"


async def test_an_engine_is_used_inside_async_with_only(tmp_path: Path) -> None:
    engine: Engine = an_engine(tmp_path)
    with pytest.raises(AssertionError):
        await engine.starts.start(Command(line="true"), owner=ME)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """What lets the supervisor of `mortal_house` die once, as soon as it is there."""
    return tmp_path / "token"


@pytest.fixture
def mortal_house(tmp_path: Path, token: Path) -> Iterator[House]:
    """A keeper whose supervisor dies when it has given a command to a shim and told nobody."""
    with House(tmp_path / "state", env={"OUTLIVE_FAILPOINT": f"start.given@{token}"}) as house:
        yield house


async def test_who_ended_while_its_start_had_no_answer_has_ended(mortal_house: House, token: Path) -> None:
    """The next supervisor has let go of the process before the engine is connected again."""
    async with an_engine(mortal_house.state_dir) as engine:
        token.touch()  # noqa: ASYNC240 -- a moment
        starting = asyncio.create_task(engine.starts.start(Command(line="echo a; exit 3"), owner=ME))
        while token.exists():  # noqa: ASYNC110, ASYNC240 -- who dies tells nobody
            await asyncio.sleep(0)
        [process_id] = os.listdir(mortal_house.layout.processes)
        journal = Path(mortal_house.layout.live)
        until(
            lambda: f"-{process_id}" in journal.read_text(), "that it is let go of"
        )  # the engine has to wait
        process = await starting
        assert process.process_id == process_id
        async with asyncio.timeout(15):
            await engine.queries.wait(process)
        assert process.record.exit_code == 3
        assert await output_of(process) == (b"a\n", b"")
        await settled(engine, process)


async def test_two_who_catch_up_at_the_same_time_are_not_in_each_others_way(engine: Engine) -> None:
    """Whoever asks for a process that is not known does what the engine's own task does."""
    process = await run(engine, "exit 2")
    engine._table.recheck(process)
    engine._table.vanished.append(process)
    await asyncio.gather(*(engine._recovery.catch_up() for _ in range(3)))
    assert not engine._table.unconfirmed
    assert process.record.exit_code == 2
