"""What the worlds promise beyond waiting: nobody is left behind by a cancelled task, and nothing suspends in
a thread.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Generator

import anyio
import pytest

from outlive.client.asyncio_runtime import AsyncioRuntime
from outlive.client.runtime import Unreachable, run
from outlive.client.thread_runtime import ThreadRuntime

pytestmark = pytest.mark.anyio


async def test_a_cancelled_search_is_told_and_what_it_finds_is_closed() -> None:
    found, peer = socket.socketpair()
    begun, heard, never = threading.Event(), threading.Event(), threading.Event()

    def find(is_abandoned: Callable[[], bool]) -> socket.socket:
        begun.set()
        while not is_abandoned():
            never.wait(0.01)
        heard.set()
        return found

    searching = asyncio.ensure_future(AsyncioRuntime().reach(find))
    with anyio.fail_after(30), peer:
        await asyncio.to_thread(begun.wait)
        searching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await searching
        await asyncio.to_thread(heard.wait)
        assert await asyncio.to_thread(peer.recv, 1) == b""


@pytest.mark.parametrize("world", [AsyncioRuntime(), ThreadRuntime()], ids=["asyncio", "threads"])
async def test_an_address_where_nobody_listens_is_unreachable(world: AsyncioRuntime | ThreadRuntime) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    async def dial() -> None:
        await world.open(f"ws://127.0.0.1:{port}/ws/mcp", None, {})

    dialling = asyncio.to_thread(lambda: run(dial())) if isinstance(world, ThreadRuntime) else dial()
    with pytest.raises(Unreachable):
        await dialling


def test_a_coroutine_that_waits_is_no_coroutine_of_the_blocking_client() -> None:
    with pytest.raises(AssertionError, match="event loop"):
        run(_suspend())


async def _suspend() -> None:
    await _Suspension()


class _Suspension:
    def __await__(self) -> Generator[None, None, None]:
        yield
