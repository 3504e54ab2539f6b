"""Too much of everything: messages that are too large, extensions that are too many, floods."""

import asyncio
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.extensions.bridge.extension import dialling
from tests.extensions.bridge.knocking import Door
from tests.support.fixtures import ServerFactory
from tests.support.raw import masked_header, open_raw_websocket
from tests.support.server import OutliveServer

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]


async def _close_code(closed_by_us: ClientConnection) -> int | None:
    with pytest.raises(ConnectionClosed) as closed:
        await closed_by_us.recv()
    return None if closed.value.rcvd is None else closed.value.rcvd.code


@pytest.mark.promise("S3.8")
async def test_too_large_a_message_closes_that_connection_alone(serve: ServerFactory) -> None:
    server = serve("--max-message-bytes", "64K")
    async with dialling(server.bridge_url) as polite:
        async with connect(server.bridge_url, proxy=None) as large:
            await large.send("x" * 100_000)
            assert await _close_code(large) == 1009
        made = await Door(server)("create")
        assert polite.connections == 1
        assert list(polite.terminals) == [made["terminal_id"]]


@pytest.mark.promise("S3.8")
async def test_more_extensions_than_there_is_room_for_are_turned_away(
    bridge: OutliveServer, door: Door
) -> None:
    async with AsyncExitStack() as windows:
        first, *_ = [await windows.enter_async_context(dialling(bridge.bridge_url)) for _ in range(64)]
        async with connect(bridge.bridge_url, proxy=None) as late:
            assert await _close_code(late) == 1013
        assert first.connections == 1


@pytest.mark.promise("S3.8")
async def test_a_flood_of_one_extension_slows_nobody_else(serve: ServerFactory) -> None:
    server = serve("--max-request-rate", "200")
    door = Door(server)
    peer, head = await asyncio.to_thread(open_raw_websocket, server.ready["ports"]["bridge"], path="/")
    assert b" 101 " in head
    frames = (masked_header(0x1, 2) + b"{}") * 20_000
    with peer:
        peer.setblocking(False)
        async with dialling(server.bridge_url) as extension:
            loop = asyncio.get_running_loop()
            flood = asyncio.create_task(_pour(loop, peer, frames))
            try:
                for number in range(5):
                    made = await door("create")
                    await door("execute", terminal_id=made["terminal_id"], command=f"echo {number}")
            finally:
                flood.cancel()
                await asyncio.gather(flood, return_exceptions=True)
            assert len(extension.executed) == 5
    assert await asyncio.to_thread(_resident_kb, server.pid) < 300_000


def _resident_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


async def _pour(loop: asyncio.AbstractEventLoop, peer: socket.socket, frames: bytes) -> None:
    while True:
        await loop.sock_sendall(peer, frames)
