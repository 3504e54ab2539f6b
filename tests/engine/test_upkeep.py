"""What an engine's upkeep removes, and what it leaves alone: old processes go, what lives or may live
stays.
"""

import asyncio
import sys
import threading
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from outlive.core.command import Command
from outlive.core.errors import ProcessNotFound
from outlive.core.events import Event, ProcessRemoved
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import State
from outlive.engine import Engine
from outlive.operations.answers import DiskRequest, RetentionRule
from outlive.store.folder import bytes_on_disk
from outlive.store.retention import Retention
from outlive.store.search.log_index import key_of
from tests.engine.engines import ME, an_engine, run
from tests.engine.test_recovery import lose_registry
from tests.keeper.client import until
from tests.keeper.house import House


async def test_retention_removes_the_oldest_and_never_what_lives(own_house: House) -> None:
    rule = Retention(max_age_s=None, max_count=2, max_bytes=None)
    heard: list[Event] = []
    async with an_engine(own_house.state_dir, retention=rule, retention_interval_s=0.05) as engine:
        engine.events.subscribe(heard.append)
        live = await engine.starts.start(Command(line="sleep 1000"), owner=ME)
        ended = [await run(engine, f"echo {number}") for number in range(5)]
        expected = [process.process_id for process in ended[:3]]
        async with asyncio.timeout(10):
            while _removed(heard) != expected:  # noqa: ASYNC110 - a matter of time
                await asyncio.sleep(0.01)
        assert [own_house.folder(process.process_id).exists() for process in ended] == [False] * 3 + [
            True
        ] * 2
        assert [record.process_id for record in await engine.queries.list()] == [
            ended[4].process_id,
            ended[3].process_id,
            live.process_id,
        ]


def _removed(heard: list[Event]) -> list[str]:
    return [event.process_id for event in heard if isinstance(event, ProcessRemoved)]


async def test_a_folder_whose_start_is_just_being_carried_out_is_no_leftover(own_house: House) -> None:
    """The supervisor renames the folder into place before the shim writes `pid`: the first look may fall
    between them.
    """
    rule = Retention(max_age_s=0.0, max_count=None, max_bytes=None)
    async with an_engine(own_house.state_dir) as engine:
        starting, old = await run(engine, "true"), await run(engine, "true")
    lose_registry(own_house)
    folder = own_house.folder(starting.process_id)
    for name in ("pid", "done", "closed"):
        (folder / name).unlink(missing_ok=True)
    heard: list[Event] = []
    async with an_engine(own_house.state_dir, retention=rule, retention_interval_s=1000.0) as engine:
        engine.events.subscribe(heard.append)
        async with asyncio.timeout(10):
            while not _removed(heard):  # noqa: ASYNC110 - the first round of many
                await asyncio.sleep(0.01)
    assert _removed(heard) == [old.process_id]
    assert folder.exists()


@pytest.mark.thorough
async def test_what_the_keeper_starts_late_for_an_earlier_server_lives_on(own_house: House) -> None:
    """Its order may be carried out while the next server looks into the folders: without an end, they are no
    leftovers.
    """
    started: list[ProcessId] = []
    enough = threading.Event()

    def keep_starting() -> None:
        while not enough.is_set():
            started.append(own_house.start("/bin/sleep", "1000"))

    order = asyncio.create_task(asyncio.to_thread(keep_starting))
    try:
        await asyncio.to_thread(until, lambda: len(started) > 5, "some orders")
        async with an_engine(own_house.state_dir) as engine:
            await asyncio.sleep(1.0)  # the first look after the past
            enough.set()
            await order
            async with asyncio.timeout(30):
                while not all([await _runs(engine, one) for one in started]):  # noqa: ASYNC110 -- ends when all are told of
                    await asyncio.sleep(0.05)
            assert all(own_house.folder(one).exists() for one in started)
    finally:
        enough.set()


async def _runs(engine: Engine, process_id: ProcessId) -> bool:
    try:
        return (await engine.queries.find(process_id)).status.state is State.RUNNING
    except ProcessNotFound:
        return False  # the keeper has not told of it yet


@pytest.mark.promise("R.search.index")
async def test_an_index_counts_as_a_part_of_what_a_process_keeps(own_house: House) -> None:
    """Two outputs of 3 MB fit into 6.5 MB, and with their indexes they do not: then the older one goes, with
    its index.
    """
    rule = Retention(max_age_s=None, max_count=None, max_bytes=6_500_000)
    async with an_engine(own_house.state_dir, retention=rule) as engine:
        older, newer = [await run(engine, "seq 400000 900000 | head -c 3000000") for _ in range(2)]
        for one in (older, newer):
            await engine.queries.wait(one, until="closed")
        async with asyncio.timeout(20):  # filed a moment after the end
            while (before := await _size_rule(engine)).used < 6_000_000:  # noqa: ASYNC110 - a matter of time
                await asyncio.sleep(0.02)
        assert (before.used, before.processes) == (6_000_000, 0)
        key = key_of(engine.redaction.redactor).hex()
        words = ["-s", "-P", "-m", "outlive.store.search.index_maker", str(own_house.state_dir), key]
        maker = await asyncio.create_subprocess_exec(sys.executable, *words, stdin=PIPE)
        async with asyncio.timeout(60):
            assert await maker.wait() == 0
        folders = [own_house.folder(one.process_id) for one in (older, newer)]
        beside = sum(bytes_on_disk(str(folder / "index")) for folder in folders)
        after = await _size_rule(engine)
        assert (after.used, after.processes, after.bytes) == (6_000_000 + beside, 1, 3_000_000 + beside // 2)
        assert (await engine.disk_usage.answer(DiskRequest(), ME)).bytes >= after.used
    async with (
        an_engine(own_house.state_dir, retention=rule, retention_interval_s=0.05),
        asyncio.timeout(20),
    ):
        while folders[0].exists():  # noqa: ASYNC110 - a matter of time
            await asyncio.sleep(0.02)
    assert (folders[1] / "index").exists()


async def _size_rule(engine: Engine) -> RetentionRule:
    return next(
        one for one in (await engine.disk_usage.answer(DiskRequest(), ME)).retention if one.rule == "size"
    )


async def test_retention_looks_when_a_process_has_finished_or_is_too_old_and_not_in_between(
    own_house: House,
) -> None:
    clock = Path(own_house.layout.retention_clock)
    rule = Retention(max_age_s=2.0, max_count=None, max_bytes=None)
    heard: list[Event] = []
    async with (
        an_engine(own_house.state_dir, retention=rule, retention_interval_s=0.05) as engine,
        asyncio.timeout(20),
    ):
        engine.events.subscribe(heard.append)
        for _ in range(2):
            process = await run(engine, "true")
            while process.process_id not in _removed(heard):  # noqa: ASYNC110 - a matter of time
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)  # rounds that were due are over
            before = (await asyncio.to_thread(clock.stat)).st_mtime_ns
            await asyncio.sleep(0.5)
            assert (await asyncio.to_thread(clock.stat)).st_mtime_ns == before
