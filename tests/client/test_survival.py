"""A follow across killed servers and a killed keeper yields every byte once; requests are not lost either."""

import asyncio
import os
import threading
from pathlib import Path

import pytest
from anyio import to_thread

from outlive.client import AsyncClient, BackendUnavailable, Client, Output
from tests.client.streams import BLOWS, EXIT_CODE, Ledger, Steps, strike
from tests.mcp_stdio.hosting import server_of
from tests.support.processes import Gate, Marker, end, is_alive, wait_dead, wait_for
from tests.support.server import OutliveServer

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    folder = tmp_path / "steps"
    folder.mkdir()
    return Steps(folder)


@pytest.mark.promise("C.follow", "C.follow.once")
@pytest.mark.parametrize("detach", [True, False])
def test_a_blocking_follow_yields_every_byte_once_across_all_deaths(
    own_server: OutliveServer, steps: Steps, *, detach: bool
) -> None:
    """The consumer itself deals the blows, with output on its way.

    Each time the command writes on meanwhile.
    """
    blows = list(enumerate(BLOWS, 1))
    ledger = Ledger()
    with Client(own_server.state_dir, start_server=False) as client:
        process = client.start(steps.command, detach=detach)
        steps.allow(0)
        follow = process.follow()
        for item in follow:
            ledger.enter(item)
            if blows and ledger.cursor.stdout > len(steps.written("stdout", steps=blows[0][0] - 1)):
                step, blow = blows.pop(0)
                strike(own_server, blow, steps, step)
        assert not blows
        ledger.check(steps)
        assert follow.completion is not None
        assert follow.completion.exit_code == process.wait().exit_code == EXIT_CODE


@pytest.mark.promise("C.follow", "C.follow.once")
@pytest.mark.parametrize("is_whole", [True, False], ids=["between steps", "in the middle"])
async def test_an_asyncio_follow_yields_every_byte_once_across_all_deaths(
    own_server: OutliveServer, steps: Steps, *, is_whole: bool
) -> None:
    """Between steps the follow waits for output when the server dies; else output is on its way."""
    blows = list(enumerate(BLOWS, 1))
    ledger = Ledger()
    async with AsyncClient(own_server.state_dir, start_server=False) as client, asyncio.TaskGroup() as group:
        process = await client.start(steps.command)
        steps.allow(0)
        follow = process.follow()
        striking: asyncio.Task[None] | None = None
        async for item in follow:
            ledger.enter(item)
            if not blows:
                continue
            step, blow = blows[0]
            if ledger.has_steps(steps, step) if is_whole else ledger.cursor.stdout > 100_000 * (step - 1):
                del blows[0]
                if striking is not None:
                    await striking
                striking = group.create_task(to_thread.run_sync(strike, own_server, blow, steps, step))
        assert not blows
        ledger.check(steps)
        assert follow.completion is not None
        assert follow.completion.exit_code == (await process.wait()).exit_code == EXIT_CODE


@pytest.mark.promise("C.start")
def test_a_client_starts_the_server_and_starts_it_again(no_server: Path, steps: Steps) -> None:
    """Nobody else does: it finds none, and later each one is killed."""
    ledger, said = Ledger(), list[str]()
    with Client(no_server, say=said.append) as client:
        process = client.start(steps.command)
        for step in range(steps.count):
            steps.allow(step)
        (first,) = server_of(no_server)
        is_killed = False
        for item in process.follow():
            ledger.enter(item)
            if not is_killed:
                is_killed = True
                end(first)
        ledger.check(steps)
        assert process.wait().exit_code == EXIT_CODE
        (second,) = server_of(no_server)
    assert second != first
    assert is_alive(second)
    assert [line.startswith("outlive: starting") for line in said] == [True, True]


@pytest.mark.promise("C.once")
async def test_a_start_whose_answer_was_lost_has_started_once(
    own_server: OutliveServer, marker: Marker
) -> None:
    """Many are in flight when the server dies; each is asked for again under its own name."""
    async with AsyncClient(own_server.state_dir, start_server=False) as client:
        await client.list()
        async with asyncio.TaskGroup() as group:
            starts = [group.create_task(client.start(f"{marker.sleep}; true")) for _ in range(30)]
            await asyncio.sleep(0)
            await to_thread.run_sync(own_server.restart)
        ids = {start.result().process_id for start in starts}
        assert len(ids) == 30
        assert len(await wait_for(marker, 30)) == 30
        assert {info.process_id for info in await client.list(active=True)} == ids
        for start in starts:
            await start.result().cancel()


async def test_a_wait_goes_on_over_a_restart(own_server: OutliveServer, gate: Gate) -> None:
    async with AsyncClient(own_server.state_dir, start_server=False) as client:
        process = await client.start(f"{gate.wait}; exit 9")
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(process.wait())
            await asyncio.sleep(0)
            await to_thread.run_sync(own_server.restart)
            gate.open()
        assert waiting.result().exit_code == 9


@pytest.mark.promise("C.once")
async def test_an_input_whose_answer_was_lost_is_not_written_twice(own_server: OutliveServer) -> None:
    """Whether it was written nobody can know: that is said, and what to do."""
    async with AsyncClient(own_server.state_dir, start_server=False) as client:
        process = await client.start("sleep 1000", stdin="pipe")
        await process.write(bytes(65536))  # the pipe is full
        writing = asyncio.ensure_future(process.write(b"x"))
        await process.info()  # answered behind it on the same connection: the server has read it
        await to_thread.run_sync(own_server.kill)
        with pytest.raises(BackendUnavailable) as lost:
            await writing
        assert (lost.value.code, "look at the process" in lost.value.hint) == ("server_lost", True)
        await to_thread.run_sync(own_server.start)
        await process.cancel()


async def test_a_server_that_stays_away_is_given_up(own_server: OutliveServer) -> None:
    async with AsyncClient(own_server.state_dir, start_server=False, patience_s=0.2) as client:
        process = await client.start("echo x; sleep 1000")
        follow = process.follow()
        await anext(follow)
        await to_thread.run_sync(own_server.kill)
        with pytest.raises(BackendUnavailable) as gone:
            await anext(follow)
        assert gone.value.code == "server_unavailable"
        with pytest.raises(BackendUnavailable):
            await process.info()
        await to_thread.run_sync(own_server.start)
        assert (await process.info()).state == "running"
        await process.cancel()
        assert [item async for item in follow] == []
        assert follow.completion is not None


_READS_TWICE = "read -r one; read -r two; [ $one$two = onetwo ] && exit 7"


def test_a_blocking_client_writes_to_the_next_server_what_the_killed_one_cannot_have_read(
    own_server: OutliveServer,
) -> None:
    with Client(own_server.state_dir, start_server=False) as client:
        process = client.start(_READS_TWICE, stdin="pipe")
        process.write(b"one\n")
        own_server.restart()
        process.write(b"two\n")
        assert process.wait(30).exit_code == 7


async def test_an_asyncio_client_writes_to_the_next_server_what_the_killed_one_cannot_have_read(
    own_server: OutliveServer,
) -> None:
    async with AsyncClient(own_server.state_dir, start_server=False) as client:
        process = await client.start(_READS_TWICE, stdin="pipe")
        await process.write(b"one\n")
        await to_thread.run_sync(own_server.restart)
        await process.write(b"two\n")
        assert (await process.wait(30)).exit_code == 7


def test_threads_share_a_blocking_client_over_a_restart(own_server: OutliveServer, gate: Gate) -> None:
    codes: list[int | None] = []
    with Client(own_server.state_dir, start_server=False) as client:

        def work(code: int) -> None:
            process = client.start(f"{gate.wait}; echo {code}; exit {code}")
            text = b"".join(item.data for item in process.follow() if isinstance(item, Output))
            assert text == b"%d\n" % code
            codes.append(process.wait().exit_code)

        threads = [threading.Thread(target=work, args=(code,)) for code in range(8)]
        client.list()
        for thread in threads:
            thread.start()
        own_server.restart()
        gate.open()
        for thread in threads:
            thread.join(30)
    assert sorted(codes, key=lambda code: -1 if code is None else code) == list(range(8))


@pytest.mark.promise("C.follow.cancel")
async def test_the_end_of_a_cancelled_iteration_leaves_the_process_alone(
    own_server: OutliveServer, gate: Gate
) -> None:
    """And the same follow goes on with the next byte."""
    async with AsyncClient(own_server.state_dir, start_server=False) as client:
        process = await client.start(f"echo one; {gate.wait}; echo two; exit 6")
        follow = process.follow()
        seen: list[bytes] = []

        async def consume() -> None:
            async for item in follow:
                assert isinstance(item, Output)
                seen.append(item.data)

        async with asyncio.TaskGroup() as group:
            consumer = group.create_task(consume())
            while not seen:  # noqa: ASYNC110 -- its list is all there is to look at
                await asyncio.sleep(0)
            consumer.cancel()
        assert process.pid is not None
        assert is_alive(process.pid)
        assert (await process.info()).state == "running"
        gate.open()
        await consume()
        assert seen == [b"one\n", b"two\n"]
        await wait_dead(process.pid)
        assert os.listdir(own_server.state_dir / "processes") == [process.process_id]
