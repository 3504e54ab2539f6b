"""One principal that asks for thousands of starts over many connections: what is read of it, and who else is
served.
"""

import asyncio
import json
import os
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from outlive.core.command import Command
from outlive.core.identity import RANDOM_BYTES, ProcessId, new_process_id
from outlive.core.process import Owner
from outlive.engine import Process
from tests.frontends.jsonrpc.playing import PlayedEngine, opened

pytestmark = pytest.mark.anyio

_EACH = 100


class _HeldEngine(PlayedEngine):
    """Starts of `me` wait until `go` is set; `starting` of them do."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.go = asyncio.Event()
        self.starting = 0

    async def start(self, command: Command, *, owner: Owner, process_id: ProcessId | None = None) -> Process:
        if owner.principal == "me":
            self.starting += 1
            await self.go.wait()
            self.starting -= 1
        one = process_id or new_process_id(1000, os.urandom(RANDOM_BYTES))
        return await super().start(command, owner=owner, process_id=one)


def _start(number: int) -> str:
    params = {"command": "x", "concurrent": True, "output": "none"}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "execute", "params": params})


@pytest.mark.thorough
async def test_starts_of_many_connections_are_read_a_few_at_a_time_and_all_are_answered(
    tmp_path: Path,
) -> None:
    engine = _HeldEngine(tmp_path)
    async with opened(engine) as house, AsyncExitStack() as stack:
        loud = [await stack.enter_async_context(house.client()) for _ in range(5)]
        for client in loud:
            for number in range(_EACH):
                await client.send(_start(number))
        for _ in range(5 * _EACH):
            await asyncio.sleep(0)
        assert engine.starting == 64 + 5 * 4

        another = await stack.enter_async_context(house.client(principal="another"))
        await another.execute()  # is not kept waiting
        latecomer = await stack.enter_async_context(house.client())
        await latecomer.send(_start(0))
        assert "result" in await latecomer.ask("list")  # nor is what follows its own first starts

        engine.go.set()
        for client in [*loud, latecomer]:
            wanted = set(range(_EACH if client is not latecomer else 1))
            async with asyncio.timeout(30):
                while wanted:
                    answer = await client.until(lambda message: "id" in message and "result" in message)
                    wanted.discard(answer["id"])
        assert engine.starting == 0


async def test_what_a_flood_held_is_given_back(tmp_path: Path) -> None:
    engine = _HeldEngine(tmp_path)
    async with opened(engine) as house:
        for _ in range(2):
            engine.go.clear()
            async with house.client() as client:
                for number in range(_EACH):
                    await client.send(_start(number))
                for _ in range(4 * _EACH):
                    await asyncio.sleep(0)
                assert engine.starting == 64 + 4
                engine.go.set()  # and the client leaves without reading
            assert engine.starting == 0
