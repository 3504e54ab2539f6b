"""A program that follows a process and rests after its first item, run by tests to see what it needs.

    python -m tests.client.follower asyncio|blocking STATE_DIR PROCESS_ID

Prints one line of JSON: the digest and size of stdout, and how much its memory grew.
"""

import asyncio
import hashlib
import json
import os
import sys

from outlive.client import AsyncClient, Client, Gap, Output
from tests.support.processes import memory_peak_bytes


class _Sum:
    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._size = 0
        self._before = memory_peak_bytes(os.getpid())

    def add(self, item: Output | Gap) -> None:
        assert isinstance(item, Output)
        self._digest.update(item.data)
        self._size += len(item.data)

    def show(self) -> None:
        grown = memory_peak_bytes(os.getpid()) - self._before
        print(json.dumps({"digest": self._digest.hexdigest(), "size": self._size, "grown": grown}))


def _block(state_dir: str, process_id: str) -> None:
    with Client(state_dir, start_server=False) as client:
        process = client.get(process_id)
        follow, total = process.follow(), _Sum()
        total.add(next(follow))
        process.wait()
        for item in follow:
            total.add(item)
        total.show()


async def _await(state_dir: str, process_id: str) -> None:
    async with AsyncClient(state_dir, start_server=False) as client:
        process = await client.get(process_id)
        follow, total = process.follow(), _Sum()
        total.add(await anext(follow))
        await process.wait()
        async for item in follow:
            total.add(item)
        total.show()


def main(twin: str, state_dir: str, process_id: str) -> None:
    """Follow with one of the two clients."""
    if twin == "asyncio":
        asyncio.run(_await(state_dir, process_id))
    else:
        _block(state_dir, process_id)


if __name__ == "__main__":
    main(*sys.argv[1:])
