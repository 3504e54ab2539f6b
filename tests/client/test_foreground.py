"""What a command in the foreground needs: a private process that is written to, signalled and followed at
once.
"""

import asyncio
import hashlib
import signal
import threading

import pytest

from outlive.client import AsyncClient, Client, Output
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio

_PIECE = bytes(range(256)) * 1024
_PIECES = 24


def _expected() -> str:
    digest = hashlib.sha256()
    for _ in range(_PIECES):
        digest.update(_PIECE)
    return digest.hexdigest()


@pytest.mark.parametrize("detach", [True, False])
def test_one_thread_writes_while_another_follows(server: OutliveServer, *, detach: bool) -> None:
    """With detach=False both share one connection."""
    with Client(server.state_dir, start_server=False) as client:
        process = client.start(["cat"], stdin="pipe", detach=detach)

        def write() -> None:
            for _ in range(_PIECES):
                process.write(_PIECE)
            process.close_stdin()

        writer = threading.Thread(target=write)
        writer.start()
        digest = hashlib.sha256()
        for item in process.follow():
            assert isinstance(item, Output)
            digest.update(item.data)
        writer.join(30)
    assert digest.hexdigest() == _expected()


@pytest.mark.parametrize("detach", [True, False])
async def test_one_task_writes_while_another_follows(asynchronous: AsyncClient, *, detach: bool) -> None:
    process = await asynchronous.start(["cat"], stdin="pipe", detach=detach)

    async def write() -> None:
        for _ in range(_PIECES):
            await process.write(_PIECE)
        await process.close_stdin()

    digest = hashlib.sha256()
    async with asyncio.TaskGroup() as group:
        group.create_task(write())
        async for item in process.follow():
            assert isinstance(item, Output)
            digest.update(item.data)
    assert digest.hexdigest() == _expected()


@pytest.mark.parametrize("detach", [True, False])
async def test_a_terminal_hears_signals_keys_and_its_size_while_it_is_followed(
    asynchronous: AsyncClient, *, detach: bool
) -> None:
    # bash runs traps between two reads only
    read = "while :; do read -r -t 0.1 w && { echo got $w; [ $w != quit ] || exit 3; }; done"
    command = f"trap 'echo interrupted' INT; trap 'stty size' WINCH; echo ready; {read}"
    process = await asynchronous.start(command, pty=True, detach=detach)
    seen, arrived = b"", asyncio.Event()

    async def follow() -> int | None:
        nonlocal seen
        following = process.follow()
        async for item in following:
            assert isinstance(item, Output)
            seen += item.data
            arrived.set()
        assert following.completion is not None
        return following.completion.exit_code

    async def hear(text: bytes) -> None:
        async with asyncio.timeout(30):
            while text not in seen:
                arrived.clear()
                await arrived.wait()

    async with asyncio.TaskGroup() as group:
        ended = group.create_task(follow())
        await hear(b"ready")
        await process.resize(40, 90)
        await hear(b"40 90")
        await process.write(b"word\n")
        await hear(b"got word")
        await process.write(b"\x03")  # what Ctrl-C types
        await hear(b"interrupted")
        seen = seen.replace(b"interrupted", b"")
        await process.signal(signal.SIGINT)
        await hear(b"interrupted")
        await process.write(b"quit\n")
    assert ended.result() == 3
