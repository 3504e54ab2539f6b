"""`on_limit` "block" without a reader: a process must not stand still for ever, and must not go on too
early.
"""

import asyncio

import pytest

from outlive.core.command import Command
from outlive.engine import Engine, Process
from tests.engine.engines import ME, an_engine
from tests.keeper.house import House

pytestmark = pytest.mark.anyio

_MB = 1 << 20


async def _blocked(engine: Engine) -> Process:
    process = await engine.starts.start(
        Command(line=f"head -c {8 * _MB} /dev/zero", output_limit=_MB, on_limit="block"), owner=ME
    )
    async with asyncio.timeout(15):
        while not process.status.is_blocked:  # noqa: ASYNC110 -- a doorbell without an event of its own
            await asyncio.sleep(0.005)
    return process


async def test_a_process_whose_reader_is_gone_goes_on_after_the_grace(shared_house: House) -> None:
    async with an_engine(shared_house.state_dir, reader_grace_s=0.3) as engine:
        process = await _blocked(engine)
        async with asyncio.timeout(15):
            await engine.queries.wait(process)
        assert (process.record.exit_code, process.status.stdout_bytes) == (0, 8 * _MB)


@pytest.mark.thorough
async def test_one_that_is_followed_waits_for_as_long_as_that_takes(shared_house: House) -> None:
    async with an_engine(shared_house.state_dir, reader_grace_s=0.3) as engine:
        process = await _blocked(engine)
        leave = process.subscribers.add(lambda: None, reads=True)
        await asyncio.sleep(2.0)  # several looks: nothing happens, which has no event
        assert process.status.is_blocked
        leave()
        async with asyncio.timeout(15):
            await engine.queries.wait(process)


async def test_the_next_server_lets_it_go_on_too(own_house: House) -> None:
    async with an_engine(own_house.state_dir) as engine:
        process_id = (await _blocked(engine)).process_id
    async with an_engine(own_house.state_dir, reader_grace_s=0.3) as engine:
        process = await engine.queries.find(process_id)
        async with asyncio.timeout(15):
            await engine.queries.wait(process)
        assert process.status.stdout_bytes == 8 * _MB
